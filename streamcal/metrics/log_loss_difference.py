"""The difference of the log losses of two series of probabilities, with an interval that is valid at every time."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from streamcal.errors import InputError, MergeError
from streamcal.kernels.common.measures import add_differences
from streamcal.metrics.base import MANY, check_forecasts, check_probability, check_true
from streamcal.metrics.cells import Forecasts, dot
from streamcal.metrics.label_weights import weights_by_label
from streamcal.metrics.log_loss import LOG_LOSS_CLIP, capped_log_loss
from streamcal.parameters.inputs import check_weight
from streamcal.parameters.numbers import real_number
from streamcal.parameters.showing import html_table
from streamcal.parameters.types import FloatArray, Label
from streamcal.states import ROUNDING, ensure, number, row, whole

#: The sum of squared deviations, in nats², at which the interval is tightest: 100,000 differences of deviation 0.1. It
#: has to be fixed before the data. With the default clip, intervals at sums a hundred times larger or smaller are less
#: than a third wider than with a constant chosen for them.
TIGHTEST_AT = 1_000.0
#: The λ of the mixture where the range adapts: each is best for some sum of squared deviations from 0.01 to 1e6 nats².
#: Halving loses at most 6 % of the width against the best λ, and fifteen of them log 15 in the logarithm of 2/α.
ADAPTIVE_RATES = tuple(2.0**k for k in range(-9, 6))
#: The same where weights differ, whose unit is the first of them: up to 10⁶ times lighter or heavier than most. They
#: cost log 55.
WEIGHTED_RATES = tuple(2.0**k for k in range(-29, 26))
#: How many numbers the state of a `WeightedRange` has, and that of a difference.
NUMBERS = 10
STATE = 6 + NUMBERS


class LogLossDifference:
    """Mean difference of the log losses of two series of probabilities, with a confidence sequence.

    With the losses of `LogLoss`, at most −log(clip), and δᵢ = ℓ(pᵢ, yᵢ) − ℓ(qᵢ, yᵢ), `get` is Σ wᵢ δᵢ / Σ wᵢ: below 0
    where the first series, p, is better. Where all weights are equal, `interval` is value ± u(V)/n, where
    V = Σ (δᵢ − mᵢ)², mᵢ is the mean of the differences before δᵢ (0 for the first), and u is the gamma-exponential
    boundary, the root s > 0 of

        ∫ exp{λ s − ψ(λ) V} dF(λ) = 2/α,   ψ(λ) = (−log(1 − cλ) − cλ)/c²,   c = −2 log(clip),  α = 1 − confidence,

    where F is a truncated gamma distribution of 1 − cλ. With probability at least `confidence` the intervals for all n
    together cover the means of the *expected* differences, Σ E[δᵢ | all that was known before yᵢ] / n. The interval may
    therefore be read after every outcome, and used to decide when to stop. Nothing is assumed about the outcomes, which
    may drift; both probabilities must be fixed before their outcome. Where 0 lies outside the interval, one series is
    better.

    Parameters
    ----------
    confidence : float
        Above 0 and below 1, default 0.95.
    clip : float
        Probability above 0 and below 1, default `LOG_LOSS_CLIP`, as in `LogLoss`. No interval is shorter than some
        −15 log(clip)/n, since a difference of −log(clip) may come at any time.
    adaptive : bool
        Whether c is the largest deviation that was *possible* so far, given the two probabilities, instead of the
        largest of all. Weights that differ need it. Then c = maxᵢ max(|δᵢ(0) − mᵢ|, |δᵢ(1) − mᵢ|), where δᵢ(y) is the
        difference for the label y. Both probabilities are known before the label, so that the interval is as valid. F
        then has equal weights at λ = 2⁻⁹, 2⁻⁸, …, 2⁵, without those of 1/c or more. Default False: c does not depend on
        the data. Where the two probabilities never differ by more than 8 in log-odds the adaptive interval is shorter,
        for rare events several times. Where one of them is 0 or 1 and the other is not, it may be twice as long.

    Notes
    -----
    With `adaptive`, every λ < 1/cᵢ makes exp{λ (δᵢ − E δᵢ) − ψ(λ) (δᵢ − mᵢ)²} a factor of mean at most 1 with the cᵢ of
    that step, which is known before yᵢ. ψ increases with c, and a λ that reaches 1/cᵢ is dropped for good. The mixture
    with the largest cᵢ so far is therefore below a supermartingale that starts at 1.

    **Weights.** Where weights differ, δᵢ is wᵢ δᵢ above, with the first weight as the unit; the intervals are
    divided by Σ wᵢ instead of n, and cover Σ E[wᵢ δᵢ | before yᵢ] / Σ wᵢ. With weights 1/(share of the label that was
    kept), as of `importance_weight`, this is the difference on the whole stream. The other label of an observation
    might have had another weight. It is taken to be wᵢ times the ratio of the mean weights of both labels where weights
    depend on labels, and wᵢ where they do not. So it is assumed that a weight is known before its label, but for a
    factor of the label. F has equal weights at λ = 2⁻²⁹, …, 2²⁵. The intervals from the first unequal weight on have
    together the stated probability, and so have those before. Until a label has occurred it is taken to have the weight
    of the other: where weights depend on labels, do not decide before both have.

    There is no `revert`, since V depends on the order. Cost: `update`, `merge` and `get` O(1), `interval` a root
    search; sixteen numbers in memory.

    References
    ----------
    Y. J. Choe and A. Ramdas, Comparing sequential forecasters, 2021 (Operations Research 2024), theorem 2; for the
    boundary S. R. Howard, A. Ramdas, J. McAuliffe and J. Sekhon, Time-uniform, nonparametric, nonasymptotic confidence
    sequences, Annals of Statistics 2021, proposition 9.

    Examples
    --------
    >>> difference = LogLossDifference()
    >>> difference.update_many([True] * 900 + [False] * 100, [0.9] * 900 + [0.1] * 100, [0.5] * 1000)
    >>> round(difference.get(), 3)
    -0.588
    >>> low, high = difference.interval
    >>> low < difference.get() < high < 0.0
    True

    All positives and one negative in 100: the first series is better on the sample, and worse on the whole.

    >>> sampled = LogLossDifference(adaptive=True)
    >>> sampled.update_many([True, False] * 5000, [0.03] * 10_000, [0.01] * 10_000, [1.0, 100.0] * 5000)
    >>> round(sampled.get(), 4)
    0.0093
    >>> sampled.interval[0] > 0.0
    True
    """

    def __init__(self, confidence: float = 0.95, *, clip: float = LOG_LOSS_CLIP, adaptive: bool = False) -> None:
        self.confidence = real_number(confidence, "confidence", "a probability, such as 0.95", above=0.0, below=1.0)
        allowed = "a probability above 0 and below 1, such as 1e-6"
        self.clip = real_number(clip, "clip", allowed, above=0.0, below=1.0)
        self.adaptive = adaptive
        self._cap = -math.log(self.clip)
        self._count = 0
        self._sum = 0.0
        self._squares = 0.0
        self._largest = 0.0  #: the c of the parameter `adaptive` where weights are equal; 0 without it
        self._unit = 0.0  #: the first weight
        self._weight = 0.0  #: as all of the sums, in this unit
        self._range = WeightedRange()  #: of `adaptive` alone

    @property
    def n(self) -> int:
        """Number of outcomes observed, of weight above 0."""
        return self._count

    @property
    def both_labels(self) -> bool:
        """Whether both labels have occurred, so that their weights are known; always False without `adaptive`."""
        return self._range.positive > 0.0 < self._range.negative

    @property
    def weight(self) -> float:
        """Total weight of the outcomes."""
        return self._weight * self._unit

    def get(self) -> float | None:
        """Return the mean difference of the losses in nats, below 0 if the first is better; `None` at first."""
        return self._sum / self._weight if self._count else None

    @property
    def interval(self) -> tuple[float, float]:
        """The interval for the mean of the expected differences; ±(−log clip) before the first outcome."""
        if not self._count:
            return -self._cap, self._cap
        centre = self._sum / self._weight
        alpha = (1.0 - self.confidence) / 2.0
        if not self.adaptive:
            level = boundary(self._squares, 2.0 * self._cap, alpha)
        elif self._weight == self._count and self._range.heaviest <= 1.0:  # all weights are equal
            level = adaptive_boundary(self._squares, self._largest, alpha)
        else:
            level = adaptive_boundary(self._squares, self._range.get(), alpha, WEIGHTED_RATES)
        radius = level / self._weight
        return max(centre - radius, -self._cap), min(centre + radius, self._cap)

    def update(self, y_true: Label, p: float, q: float, w: float = 1.0) -> None:
        """Add an outcome of weight w with the probabilities of both series; errors as of `Metric.update`."""
        label = check_true(y_true)
        self.update_checked(check_probability(p), check_probability(q), label, check_weight(w))

    def update_checked(self, p: float, q: float, y: float, w: float = 1.0) -> None:
        """Add an outcome as `update` does, from checked floats: p and q in [0, 1], y 0.0 or 1.0, w ≥ 0."""
        if not w:
            return
        if w != self._unit:
            self._require_weights(w, w)
        self._unit = self._unit or w
        weight, cap, mean = w / self._unit, self._cap, self._sum / self._count if self._count else 0.0
        delta = capped_log_loss(p, y, cap) - capped_log_loss(q, y, cap)
        deviation = weight * delta - mean
        if self.adaptive:
            other = capped_log_loss(p, 1.0 - y, cap) - capped_log_loss(q, 1.0 - y, cap)
            self._largest = max(self._largest, abs(deviation), abs(weight * other - mean))
            self._range.add(weight * delta, weight * other, y, weight, mean)
        self._count += 1
        self._weight += weight
        self._sum += weight * delta
        self._squares += deviation * deviation

    def update_many(self, y_true: ArrayLike, p: ArrayLike, q: ArrayLike, w: ArrayLike | None = None) -> None:
        """Add n outcomes in their order: the same state as a loop of `update`, but for the rounding of logarithms.

        All have shape (n,); errors are those of `Metric.update_many`.
        """
        first, labels, weights = check_forecasts(y_true, p, w)
        second, _, _ = check_forecasts(y_true, q)
        self.update_forecasts(Forecasts.of(first, labels, weights), Forecasts.of(second, labels, weights))

    def update_forecasts(self, first: Forecasts, second: Forecasts) -> None:
        """Add predictions of the same labels, as `update_many` does, from checked arrays, which others may share."""
        if not len(first.p):
            return
        self._require_weights(float(first.w.min()), float(first.w.max()))
        if len(first.p) < MANY:
            columns = (first.p, second.p, first.y, first.w)
            for row in zip(*(column.tolist() for column in columns), strict=True):
                self.update_checked(*row)
            return
        self._unit = self._unit or float(first.w[0])
        weights, is_positive = first.w / self._unit, first.y > 0.0
        both = zip(first.log_losses, second.log_losses, strict=True)
        positive, negative = (np.minimum(p, self._cap) - np.minimum(q, self._cap) for p, q in both)
        came = weights * np.where(is_positive, positive, negative)
        sums = np.array([self._count, self._sum, self._squares, self._largest])
        other = weights * np.where(is_positive, negative, positive)
        if self.adaptive:
            self._range.add_many(came, other, first.y, weights, farthest_mean(self._count, self._sum, came))
        add_differences(sums, came, other)
        self._count, self._sum, self._squares = int(sums[0]), float(sums[1]), float(sums[2])
        self._weight += float(weights.sum())
        if self.adaptive:
            self._largest = float(sums[3])

    def _require_weights(self, least: float, most: float) -> None:
        """Raise `InputError` for weights that differ, without `adaptive`."""
        if not self.adaptive and not least == most == (self._unit or least):
            other = most if most != (self._unit or least) else least
            raise InputError(
                f"weight {other:g} differs from {self._unit or least:g}, and {self!r} has a range fixed beforehand, "
                "which weights do not have; give adaptive=True"
            )

    def merge(self, other: Self) -> None:
        """Add all that `other` holds; `other` is not changed.

        Value and interval are then those of both streams together, and as valid. V is the sum of both, whose mᵢ started
        separately, so that the interval differs slightly from that of one long stream.

        Raises
        ------
        MergeError
            Unless `other` has the same class and parameters.
        """
        if type(other) is not type(self) or other._parameters() != self._parameters():
            raise MergeError(f"{self!r} cannot take {other!r}: give one of the same class and parameters")
        if not other._count:
            return
        self._require_weights(other._unit, other._unit)
        self._unit = self._unit or other._unit
        scale = other._unit / self._unit
        self._count += other._count
        self._weight += scale * other._weight
        self._sum += scale * other._sum
        self._squares += scale * scale * other._squares
        self._largest = max(self._largest, scale * other._largest)
        self._range.merge(other._range, scale)

    def state(self) -> list[float]:
        """Return the state as plain data for `load`: the number of outcomes, sums, and the largest range."""
        sums = [self._count, self._sum, self._squares, self._largest, self._unit, self._weight]
        return [*sums, *self._range.state()]

    def load(self, state: Any) -> None:
        """Take over what `state` has written for one of the same parameters; `StateError` for anything else."""
        read = row(whole(), number(), *[number(0.0)] * (STATE - 2))
        count, total, squares, largest, unit, weight, *ranges = read(state)
        bound = WeightedRange(*ranges)
        most = self._cap * (1.0 + ROUNDING)
        ensure(bool(count) == bool(unit) == bool(weight), "weights and outcomes differ")
        ensure(abs(total) <= most * weight, "the sum of the differences is too large")
        ensure(largest <= 2.0 * most * max(bound.heaviest, 1.0), "the largest range is not possible")
        ensure(max(bound.positive_came, bound.negative_came) <= most * bound.heaviest, "a difference is not possible")
        self._count, self._sum, self._squares, self._largest = count, total, squares, largest
        self._unit, self._weight, self._range = unit, weight, bound

    def __copy__(self) -> Self:
        return copy.deepcopy(self)  # the range is changed in place

    def __repr__(self) -> str:
        adaptive = ", adaptive=True" * self.adaptive
        return f"{type(self).__name__}(confidence={self.confidence!r}, clip={self.clip!r}{adaptive})"

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the number of outcomes, the difference and its confidence sequence."""
        low, high = self.interval
        shown = "–" if self.get() is None else f"{self.get():.6g}"
        rows = {"n": f"{self.n:,}", "value": shown, f"{self.confidence:.6g} interval": f"{low:.6g} to {high:.6g}"}
        return html_table(type(self).__name__, rows)

    def _parameters(self) -> tuple[float, float, bool]:
        return self.confidence, self.clip, self.adaptive


def boundary(v: float, c: float, alpha: float) -> float:
    """Return the level that a sub-exponential process of scale c and variance v exceeds with probability ≤ alpha.

    The probability is that of ever exceeding the level. The level is the s > 0 at which `log_mixture`, which increases
    with s, is log(1/alpha).
    """
    # Howard and others, §3.5: nearly the ρ whose boundary is lowest at this variance.
    twice = 2.0 * math.log(1.0 / alpha)
    rho = TIGHTEST_AT / (twice + math.log1p(twice))
    return _crossing(lambda s: log_mixture(s, v, c, rho), math.log(1.0 / alpha), c)


def adaptive_boundary(v: float, c: float, alpha: float, rates: Sequence[float] = ADAPTIVE_RATES) -> float:
    """Return the level of `boundary` for the mixture over rates; c is the largest range so far.

    The level is infinite where no rate is below 1/c.
    """
    possible = np.array([rate for rate in rates if rate * c < 1.0])
    if not len(possible):
        return math.inf
    # ψ(λ)/λ² = (−log(1 − x) − x)/x² with x = cλ; its series where the difference would cancel.
    x = c * possible
    curvature = np.where(x < 1e-4, 0.5 + x / 3.0, (-np.log1p(-x) - x) / np.maximum(x, 1e-4) ** 2)
    costs = curvature * possible**2 * v + math.log(len(rates))
    return _crossing(lambda s: float(np.logaddexp.reduce(possible * s - costs)), math.log(1.0 / alpha), 1.0)


def _crossing(increasing: Callable[[float], float], level: float, start: float) -> float:
    """Find the s > 0 at which a function reaches a level; `start` > 0 is of its order of magnitude, or below.

    By regula falsi in the variant of Illinois: SciPy's solver is as fast, and importing it takes longer than most runs
    that end with it.
    """
    high = start
    while increasing(high) < level:
        high *= 2.0
    low, below, above = 0.0, increasing(0.0) - level, increasing(high) - level
    side = 0
    while high - low > 1e-12 * high:
        s = (low * above - high * below) / (above - below)
        if not low < s < high:  # as near as rounding allows
            return low if -below < above else high
        excess = increasing(s) - level
        if excess < 0.0:
            low, below = s, excess
            above, side = above * 0.5 if side < 0 else above, -1
        else:
            high, above = s, excess
            below, side = below * 0.5 if side > 0 else below, 1
    return high


def log_mixture(s: float, v: float, c: float, rho: float) -> float:
    """Return log ∫ exp{λ s − ψ(λ) v} dF(λ), where 1 − cλ in [0, 1] has density ∝ u^(b−1) exp(−b u), b = ρ/c².

    With a = (v + ρ)/c² and z = a + s/c the integral is
    b^b / (Γ(b) P(b, b)) ⋅ Γ(a) P(a, z) / z^a ⋅ exp(s/c + v/c²); P is the regularised lower incomplete gamma function,
    and at least about ½ where s ≥ 0.
    """
    from scipy.special import gammainc, gammaln

    b, a = rho / (c * c), (v + rho) / (c * c)
    z = a + s / c
    prior = b * math.log(b) - gammaln(b) - math.log(gammainc(b, b))
    return float(prior + gammaln(a) + math.log(gammainc(a, z)) - a * math.log(z) + s / c + v / (c * c))


@dataclass
class WeightedRange:
    """The largest deviation |w δ − m| that was possible, of weighted differences w δ from the means m before them.

    The difference δ of an observation is known for both labels, and its weight w for the label that came. The weight
    for the other label is w times the ratio of the mean weights of both labels, where weights depend on labels
    (`weights_by_label`), and w otherwise.

    Examples
    --------
    Positives of weight 1 and negatives of weight 100, whose differences are a hundredth:

    >>> possible = WeightedRange()
    >>> for _ in range(100):
    ...     possible.add(0.5, 0.005, 1.0, 1.0, 0.0)
    ...     possible.add(0.5, 0.5, 0.0, 100.0, 0.0)
    >>> possible.get()
    0.5
    """

    positive: float = 0.0  #: Σ w by label, and Σ w²
    negative: float = 0.0
    squared_positive: float = 0.0
    squared_negative: float = 0.0
    #: The largest |w δ| of observations of each label, for the label that came and for the other one.
    positive_came: float = 0.0
    positive_other: float = 0.0
    negative_came: float = 0.0
    negative_other: float = 0.0
    farthest: float = 0.0  #: the largest |m|
    heaviest: float = 0.0  #: the largest w

    def get(self) -> float:
        """Return the largest deviation that was possible."""
        squares = self.squared_positive, self.squared_negative
        of_positive, of_negative = weights_by_label(self.positive, self.negative, *squares)
        others = self.positive_other * of_negative / of_positive, self.negative_other * of_positive / of_negative
        return max(self.positive_came, self.negative_came, *others) + self.farthest

    def add(self, came: float, other: float, y: float, weight: float, mean: float) -> None:
        """Add an observation: w δ for the label y that came, that for the other one at the same w, w, and m."""
        came, other = abs(came), abs(other)
        if y:
            self.positive += weight
            self.squared_positive += weight * weight
            self.positive_came = max(self.positive_came, came)
            self.positive_other = max(self.positive_other, other)
        else:
            self.negative += weight
            self.squared_negative += weight * weight
            self.negative_came = max(self.negative_came, came)
            self.negative_other = max(self.negative_other, other)
        self.farthest = max(self.farthest, abs(mean))
        self.heaviest = max(self.heaviest, weight)

    def add_many(
        self, came: FloatArray, other: FloatArray, positive: FloatArray, weights: FloatArray, farthest: float
    ) -> None:
        """Add observations as `add` does, with labels 0.0 and 1.0, and the largest |m|."""
        # Products with 0 and 1 are several times faster than selections of rows.
        zero, came, other, squares = 1.0 - positive, np.abs(came), np.abs(other), weights * weights
        self.positive += dot(weights, positive)
        self.negative += dot(weights, zero)
        self.squared_positive += dot(squares, positive)
        self.squared_negative += dot(squares, zero)
        self.positive_came = float((came * positive).max(initial=self.positive_came))
        self.positive_other = float((other * positive).max(initial=self.positive_other))
        self.negative_came = float((came * zero).max(initial=self.negative_came))
        self.negative_other = float((other * zero).max(initial=self.negative_other))
        self.farthest = max(self.farthest, farthest)
        self.heaviest = float(weights.max(initial=self.heaviest))

    def merge(self, other: WeightedRange, scale: float) -> None:
        """Add what `other` holds, whose unit of weights is `scale` times this one."""
        self.positive += scale * other.positive
        self.negative += scale * other.negative
        self.squared_positive += scale * scale * other.squared_positive
        self.squared_negative += scale * scale * other.squared_negative
        for name in ("positive_came", "positive_other", "negative_came", "negative_other", "farthest", "heaviest"):
            setattr(self, name, max(getattr(self, name), scale * getattr(other, name)))

    def state(self) -> list[float]:
        """Return the numbers in the order of the constructor."""
        return list(vars(self).values())


def farthest_mean(count: int, total: float, added: Sequence[float] | FloatArray) -> float:
    """Return the largest |mean| before one of n terms that are added to `count` terms of this sum.

    >>> farthest_mean(0, 0.0, [2.0, 4.0, 9.0])
    3.0
    """
    totals = np.cumsum(np.concatenate(([total], added[:-1])))  # one after another, as a loop sums
    return float(np.abs(totals / np.maximum(np.arange(count, count + len(added)), 1)).max())
