"""The efficiency benchmark of per-example clipping: ``python -m benchmarks.clipping --help``."""
