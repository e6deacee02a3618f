"""Levels of segments: tables, corrections by level, accounts of multicalibration."""
