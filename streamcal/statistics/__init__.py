"""Sufficient statistics of past observations: they are updated, merged, unlearned, decayed and saved as plain data."""
