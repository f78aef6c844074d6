"""Models: loading a public checkpoint, classifying with it, tapping its sub-layers, and the standard text release.

>>> from dpeval.models.config import ModelConfig
>>> ModelConfig(source="models/minilm").max_length
128
"""
