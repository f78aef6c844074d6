"""Attacks that say of each candidate how likely the model was trained on it.

>>> from dpeval_attacks.membership.threshold import ThresholdAttack
>>> ThresholdAttack()
ThresholdAttack(signal='confidence', queries=1, thresholds='global', protocol='sound')
"""
