"""Weights relative to their running mean, as the formula states it."""

import math


class WeightsByHand:
    """w over the mean of all weights so far, w included, where an observation counts 0.9999 to the power of its age."""

    def __init__(self):
        self.seen = []

    def relative(self, w):
        self.seen.append(w)
        shares = [0.9999**k for k in range(len(self.seen))][::-1]
        mean = sum(share * one for share, one in zip(shares, self.seen, strict=True)) / sum(shares)
        mantissa, exponent = math.frexp(w / mean)
        return max(math.ldexp(round(mantissa * 2.0**24), exponent - 24), 1e-50)

    def steps(self, w):
        """Return the equal steps of an observation, each of relative weight 1 at most, but at most 32 of them."""
        relative = self.relative(w)
        count = min(max(math.ceil(relative), 1), 32)
        return [relative / count] * count
