"""Fusion: several scores → one probability."""
