"""The attacks that ship with dpeval, one a file, in one folder for each goal.

They enter through the same door as anyone's own: the entry-point group ``dpeval.attacks`` and the bases of
:mod:`dpeval.plugin`. None of them sees who is a member, and none computes a metric.

>>> from dpeval_attacks.membership.threshold import ThresholdAttack
>>> ThresholdAttack(signal="entropy").goal
'membership'
"""
