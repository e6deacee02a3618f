"""Predictions that wait for their labels."""
