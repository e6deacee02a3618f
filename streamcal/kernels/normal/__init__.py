"""Normal distributions: tails, recalibrated distributions, moments of two labels."""
