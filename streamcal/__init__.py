"""streamcal: calibrated probabilities while outcomes arrive."""
