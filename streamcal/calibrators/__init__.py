"""The binary one-score methods, one per file."""
