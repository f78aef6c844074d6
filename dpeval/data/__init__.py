"""Sources, cleaning, deduplication and the split into roles; see :func:`dpeval.data.load.load_dataset`."""
