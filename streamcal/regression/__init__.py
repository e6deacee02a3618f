"""Distributions: a predictive distribution → a calibrated distribution."""
