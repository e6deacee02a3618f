"""Benchmarks: the scripts behind every figure of the documentation."""
