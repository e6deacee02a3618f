"""Sums by cell: bins, and the points of the smooth methods of one score."""
