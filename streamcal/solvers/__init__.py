"""Solvers: arrays in, a `Solution` with a status out."""
