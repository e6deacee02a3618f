"""Fixed share, and what is added where labels are late, as the formulas say it."""

import math

import numpy as np
from scipy.special import expit


class SharesByHand:
    """Weights in every row as they are; rows weighted by the probability that each gave.

    Where labels are late every row is there thrice; the first third has half of the wealth, and the last counts less
    the later they usually are (`set_late`). Rows of a third are weighted by what it is judged by, thirds by what they
    said when issued.
    """

    def __init__(self, rates, prior):
        self.rates, self.prior = np.array(rates)[:, None], np.array(prior)
        self.shares = np.tile(self.prior, (len(rates), 1))
        self.row, self.counts = np.ones(len(rates)), np.ones(len(rates))

    def triple_rows(self):
        """Labels are late from now on."""
        self.row = np.repeat([1.0, 0.5, 0.5], len(self.row)) * np.tile(self.row, 3)
        self.rates, self.shares = np.tile(self.rates, (3, 1)), np.tile(self.shares, (3, 1))

    def set_late(self, late):
        self.counts = np.repeat([1.0, 1.0, 1.0 / (1.0 + late / 300.0)], len(self.row) // 3)

    def weights(self):
        row = self.row * self.counts
        return row @ self.shares / row.sum()

    def mean(self, z):
        p = self.weights() @ expit(z)
        return math.log(p / (1.0 - p))

    def learn(self, gains, rows, w):
        """Gains are log-probabilities of the label under the forecasts, and `rows` probabilities under the rows."""
        self.row = self.row * rows**w
        self.shares = self.shared(self.shares, gains, w, self.rates)

    def shared(self, shares, gains, w, rates):
        shares = shares * np.exp(gains * w)
        shares = shares / shares.sum(axis=1, keepdims=True)
        return (1.0 - rates) * shares + rates * self.prior

    def learn_late(self, gains, rows, now, w, late):
        """Gains are log-probabilities of the label as issued and as of now, and `rows` probabilities as issued."""
        third = len(self.row) // 3
        slow = (1.0 + late) ** -0.75 * w
        for k, (judged, rate) in enumerate(((gains, slow), (gains, w), (now, w))):
            of = slice(k * third, (k + 1) * third)
            whole = self.row[of].sum()
            said = self.row[of] @ rows[of] / whole
            own = rows[of] ** rate if k < 2 else self.shares[of] @ np.exp(rate * now)
            each = self.row[of] * own
            self.row[of] = whole * said ** (w / (1.0 + late)) * each / each.sum()
            self.shares[of] = self.shared(self.shares[of], judged, rate, self.rates[of])
