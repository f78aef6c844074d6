"""Speed and memory side by side: ``python -m benchmarks.clipping``, ``python benchmarks/forward.py`` and others."""
