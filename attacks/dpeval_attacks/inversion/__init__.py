"""Attacks that recover the tokens of a text from the embedding that left its author's device.

>>> from dpeval_attacks.inversion.nearest import NearestInversion
>>> NearestInversion().goal
'inversion'
"""
