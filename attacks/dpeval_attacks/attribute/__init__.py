"""Attacks that infer a sensitive attribute of a text or its author from the released embedding.

>>> from dpeval_attacks.attribute.probe import AttributeProbe
>>> AttributeProbe().goal
'attribute'
"""
