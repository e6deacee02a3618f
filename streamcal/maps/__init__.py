"""Calibration maps: immutable functions score → probability, the snapshots that `Calibrator.map()` hands out."""
