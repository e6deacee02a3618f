"""Predictions counted by time and score until their labels come: rows, clicks that came, and tokens."""
