"""Calibration maps: immutable functions score → probability, returned by `Calibrator.map()`."""
