# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The record of a forecast of `Auto`: what was forecast at one score, in log-odds, until its label comes.

The log-odds of the K experts come first, that of the score at the front. The indices here, K being added, follow.
"""

MIXED = 0  # the mixture of the experts, which the stack starts from
STACKED = 1
ROWS = 2  # the mixture of experts and stack by the weights of each row
BASE = 4  # by all weights
CORRECTED = 5
BOTH = 6  # the mixture of these two
TIMED = 7  # corrected by the day and the week; `NONE` without a time
ISSUED = 8  # the forecast
COUNT = 9  # labels that were learned by then
MEANS = 10  # means of labels by then
NONE = 64.0
