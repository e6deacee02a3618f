"""Sufficient statistics of past observations: they are updated, merged, reverted, decayed and saved as plain data."""
