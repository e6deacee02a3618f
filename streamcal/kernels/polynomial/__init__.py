"""Polynomials and piecewise cubics, and the quadratic programs that fit them."""
