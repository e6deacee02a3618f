"""Numerical solvers: arrays in, a `Solution` with a status out. They import kernels only."""
