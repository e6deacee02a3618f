"""Synthetic drifting streams, each with a base model and with the probabilities of the best possible calibrator.

In every setting a base model is trained on the first steps and then frozen; the rest is the stream. The distribution
drifts: in the features (`cov`), in the labels given the features (`reg`), in the share of positives (`lab`), at once
(`abrupt`), periodically (`recurring`), to a shape that is not a sigmoid (`warp`), or in the rate of rare clicks
(`clicks`). The first three kinds follow Gupta and Ramdas, Online Platt Scaling with Calibeating, ICML 2023.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamcal.errors import StreamcalError
from streamcal.parameters.numbers import one_of, whole_number
from streamcal.parameters.types import FloatArray

if TYPE_CHECKING:
    from numpy.random import Generator

__all__ = ["SETTINGS", "SyntheticStream", "generate"]

#: Fresh draws of the features at each knot in time, from which the oracle is estimated.
ORACLE_SIZE = 40_000

DIMENSIONS = 10
STEPS, TRAIN = 6_000, 1_000
#: The step at which `abrupt` jumps.
ABRUPT = 3_500.0
#: Clicks are rare, so their streams are longer.
STEPS_CLICKS, TRAIN_CLICKS = 100_000, 20_000


class SyntheticStream(NamedTuple):
    """Scores, labels and the best possible probabilities; all of shape (n,), in the order of the stream.

    Attributes
    ----------
    scores : ndarray
        Probabilities of the frozen base model.
    y : ndarray of bool
        Labels.
    oracle : ndarray
        E[y | score, t], the best possible calibrator. Estimated, see `generate`.
    truth : ndarray
        P(y = 1 | x, t), the best possible model.
    """

    scores: FloatArray
    y: np.ndarray
    oracle: FloatArray
    truth: FloatArray


class Draw(NamedTuple):
    """Features of shape (n, d), labels, and P(y = 1 | x, t)."""

    x: FloatArray
    y: FloatArray
    p: FloatArray


#: Draws from the data-generating process at the times t, shape (n,): steps counted from the first of the training.
World = Callable[["Generator", FloatArray], Draw]


class Setting(NamedTuple):
    """A data-generating process, its base model, and how its oracle is estimated."""

    world: Callable[[Generator], World]
    base: str
    #: Steps between two knots of the oracle.
    every: int
    #: The oracle at a score is the mean over this share of the fresh draws, nearest in score: large where P(y = 1 | x)
    #: varies much at one score, small on the waves of `cov-1d`, where a neighbour in score may be far away in x.
    share: float
    steps: int = STEPS
    train: int = TRAIN
    #: Abrupt changes: the first step after each.
    jumps: tuple[float, ...] = ()


def generate(name: str, seed: int = 0, *, oracle_size: int = ORACLE_SIZE) -> SyntheticStream:
    """Generate the stream of a setting; the same name and seed give the same stream.

    Parameters
    ----------
    name : str
        One of `SETTINGS`.
    seed : int
        Seed ≥ 0 of the random numbers: the directions of drift, the base and the draws.
    oracle_size : int
        Draws of the features at each knot in time, at least 1,000. The oracle at a knot is the mean of P(y = 1 | x, t)
        over the draws nearest in score: 4 % of them where the base is a forest, 0.2 % on `cov-1d` and `reg-1d`, 1 %
        elsewhere, and over ties; it is linear between knots, which are 1 to 5 % of the stream apart. Its noise makes
        the loss of the oracle too high on average.

    Returns
    -------
    SyntheticStream

    Raises
    ------
    InputError
        For another name, seed or size.
    StreamcalError
        Without scikit-learn (the extra `sklearn`), which makes the base.

    Notes
    -----
    Cost: 2 s, or 15 s where the base is a forest.

    Examples
    --------
    >>> from streamcal.datasets.synthetic import generate
    >>> stream = generate("lab-1d", oracle_size=1_000)
    >>> len(stream.scores), bool(stream.y[0])
    (5000, True)
    """
    one_of(name, "name", SETTINGS)
    seed = whole_number(seed, "seed", 0)
    oracle_size = whole_number(oracle_size, "oracle_size", 1_000)
    setting = SETTINGS[name]
    number = list(SETTINGS).index(name)
    world_rng, draw_rng, oracle_rng = (np.random.default_rng([seed, number, part]) for part in range(3))
    world = setting.world(world_rng)
    t = np.arange(setting.steps, dtype=np.float64)
    drawn = world(draw_rng, t)
    k = setting.train
    base = BASES[setting.base](drawn.x[:k], drawn.y[:k], seed)
    scores = base(drawn.x[k:])
    knots = np.linspace(k, setting.steps - 1.0, math.ceil((setting.steps - k) / setting.every) + 1)
    jumps = np.array([jump - before for jump in setting.jumps for before in (1.0, 0.0)])
    knots = np.unique(np.concatenate((knots, jumps)))
    near = max(1, round(setting.share * oracle_size))
    oracle = _oracle(world, base, scores, t[k:], knots, oracle_size, near, oracle_rng)
    return SyntheticStream(scores, drawn.y[k:] == 1.0, oracle, drawn.p[k:])


def _oracle(
    world: World,
    base: Callable[[FloatArray], FloatArray],
    scores: FloatArray,
    t: FloatArray,
    knots: FloatArray,
    size: int,
    near: int,
    rng: Generator,
) -> FloatArray:
    """Return E[y | score, t] of each step: estimated at the knots from `size` fresh draws each, linear in between."""
    place = np.minimum(np.searchsorted(knots, t, side="right") - 1, len(knots) - 2)
    later = (t - knots[place]) / (knots[place + 1] - knots[place])
    oracle = np.zeros_like(scores)
    for number, knot in enumerate(knots):
        fresh = world(rng, np.full(size, knot))
        fresh_scores = base(fresh.x)
        for interval, weight in ((number, 1.0 - later), (number - 1, later)):
            inside = place == interval
            oracle[inside] += weight[inside] * _mean_near(fresh_scores, fresh.p, scores[inside], near)
    return oracle


def _mean_near(scores: FloatArray, p: FloatArray, at: FloatArray, near: int) -> FloatArray:
    """Average p over the `near` draws nearest in rank to each score of `at`, and over all that tie with it."""
    order = np.argsort(scores, kind="stable")
    ranked, sums = scores[order], np.concatenate(([0.0], np.cumsum(p[order])))
    first, last = np.searchsorted(ranked, at, side="left"), np.searchsorted(ranked, at, side="right")
    low = np.clip((first + last - near) // 2, 0, len(scores) - near)
    low, high = np.minimum(low, first), np.maximum(low + near, last)
    return (sums[high] - sums[low]) / (high - low)


# -- worlds of one dimension ---------------------------------------------------------------------------------------


def _stripes(x: FloatArray) -> FloatArray:
    """Return 0.1 or 0.9, alternating, on stripes of width 5."""
    return 0.1 + 0.8 * np.mod(np.floor(x / 5.0), 2.0)


def _cov_1d(rng: Generator, t: FloatArray) -> Draw:
    """Draw x ~ N(i/250, 4), which drifts over fixed stripes."""
    x = t / 250.0 + 2.0 * rng.standard_normal(len(t))
    return _labelled(rng, x[:, None], _stripes(x))


def _lab_1d(rng: Generator, t: FloatArray) -> Draw:
    """Let the share of positives fall from 0.95 to 0.05, with x ~ N(2y, 1)."""
    b = 0.95 - 0.9 * t / STEPS
    y = (rng.random(len(t)) < b).astype(np.float64)
    x = 2.0 * y + rng.standard_normal(len(t))
    return Draw(x[:, None], y, _sigmoid(np.log(b / (1.0 - b)) + 2.0 * x - 2.0))


def _reg_1d(rng: Generator, t: FloatArray) -> Draw:
    """Draw x ~ N(0, 10) over stripes that fade to ½ after the training."""
    x = math.sqrt(10.0) * rng.standard_normal(len(t))
    faded = np.maximum(0.0, t - TRAIN) / (STEPS - TRAIN)
    return _labelled(rng, x[:, None], (1.0 - faded) * _stripes(x) + faded / 2.0)


def _warp(rng: Generator, t: FloatArray) -> Draw:
    """Draw x ~ N(0, 4); after the training σ(x) becomes a wave of x, which no sigmoid of the score can follow."""
    x = 2.0 * rng.standard_normal(len(t))
    turned = np.maximum(0.0, t - TRAIN) / (STEPS - TRAIN)
    return _labelled(rng, x[:, None], (1.0 - turned) * _sigmoid(x) + turned * (0.5 + 0.45 * np.sin(2.0 * x)))


# -- worlds of ten dimensions --------------------------------------------------------------------------------------


def _quadratics(x: FloatArray) -> FloatArray:
    """Return the coordinates and their products, 65 for 10 coordinates: every monomial of degree 1 and 2."""
    first, second = np.triu_indices(x.shape[1])
    return np.concatenate((x, x[:, first] * x[:, second]), axis=1)


def _orthogonal(rng: Generator, v: FloatArray) -> FloatArray:
    """Draw a vector orthogonal to v and of the same length, in a uniformly distributed direction."""
    w = rng.standard_normal(len(v))
    w -= (w @ v) / (v @ v) * v
    return w * math.sqrt((v @ v) / (w @ w))


def _turning(degrees: float) -> Callable[[FloatArray], FloatArray]:
    """Return a function of time: an angle that grows linearly to `degrees` at the end."""
    return lambda t: math.radians(degrees) * t / STEPS


def _once(t: FloatArray) -> FloatArray:
    """Return the angle at time t: a quarter turn at step `ABRUPT`."""
    return np.where(t < ABRUPT, 0.0, math.radians(90.0))


def _to_and_fro(t: FloatArray) -> FloatArray:
    """Return 0 and a quarter turn, alternating every 1,000 steps; 0 while the base is trained."""
    return math.radians(90.0) * np.mod(np.floor(t / 1_000.0), 2.0)


def _reg_10d(world_rng: Generator, angle: Callable[[FloatArray], FloatArray]) -> World:
    """Draw x ~ N(0, I), y ~ σ(φ(x)·u); u turns by `angle` in a plane that contains a v ∈ {±1}⁶⁵."""
    v1 = world_rng.choice([-1.0, 1.0], DIMENSIONS * (DIMENSIONS + 3) // 2)
    v2 = _orthogonal(world_rng, v1)

    def draw(rng: Generator, t: FloatArray) -> Draw:
        x = rng.standard_normal((len(t), DIMENSIONS))
        features, theta = _quadratics(x), angle(t)
        return _labelled(rng, x, _sigmoid(np.cos(theta) * (features @ v1) + np.sin(theta) * (features @ v2)))

    return draw


def _cov_10d(world_rng: Generator, degrees: float) -> World:
    """Draw x = z + 10 u (u·z), z ~ N(0, I), y ~ σ(φ(x)·β), β ∈ {±1}⁶⁵; the unit vector u turns by `degrees` in all."""
    beta = world_rng.choice([-1.0, 1.0], DIMENSIONS * (DIMENSIONS + 3) // 2)
    v1 = world_rng.standard_normal(DIMENSIONS)
    v1 /= np.linalg.norm(v1)
    v2, angle = _orthogonal(world_rng, v1), _turning(degrees)

    def draw(rng: Generator, t: FloatArray) -> Draw:
        z, theta = rng.standard_normal((len(t), DIMENSIONS)), angle(t)
        u = np.cos(theta)[:, None] * v1 + np.sin(theta)[:, None] * v2
        x = z + 10.0 * u * np.sum(u * z, axis=1, keepdims=True)
        return _labelled(rng, x, _sigmoid(_quadratics(x) @ beta))

    return draw


def _lab_10d(rng: Generator, t: FloatArray, end: float) -> Draw:
    """Let P(y = 1) change from 0.5 to `end`, with normal features.

    For negatives, x₁ has deviation 2. For positives, x₁ has mean 1 and x₂ has deviation 2. Every other mean is 0 and
    every other deviation 1.
    """
    b = 0.5 + (end - 0.5) * t / STEPS
    y = (rng.random(len(t)) < b).astype(np.float64)
    x = rng.standard_normal((len(t), DIMENSIONS))
    x[:, 0] = np.where(y == 1.0, 1.0 + x[:, 0], 2.0 * x[:, 0])
    x[:, 1] *= 1.0 + y
    x1, x2 = x[:, 0], x[:, 1]
    # The deviations 1 and 2 change places, so that their factors cancel in the ratio of the densities.
    ratio = -0.5 * (x1 - 1.0) ** 2 - x2**2 / 8.0 + x1**2 / 8.0 + 0.5 * x2**2
    return Draw(x, y, _sigmoid(np.log(b / (1.0 - b)) + ratio))


def _clicks(world_rng: Generator, rate: float) -> World:
    """Draw clicks with log-odds a + v·x of N(0, 1) features, |v| = 1, where a and v change after the training.

    After the training, a swings by ½ with each tenth of the stream, v turns by 60 degrees, and at two thirds the rate
    doubles at once. `rate` is approximately the rate in the training: the mean of σ(a + v·x) for small rates.
    """
    v1 = world_rng.standard_normal(DIMENSIONS)
    v1 /= np.linalg.norm(v1)
    v2 = _orthogonal(world_rng, v1)
    offset = math.log(rate / (1.0 - rate)) - 0.5  # exp(½) is the mean of exp(v·x)

    def draw(rng: Generator, t: FloatArray) -> Draw:
        x = rng.standard_normal((len(t), DIMENSIONS))
        gone = np.maximum(0.0, t - TRAIN_CLICKS) / (STEPS_CLICKS - TRAIN_CLICKS)
        theta = math.radians(60.0) * gone
        moved = 0.5 * np.sin(20.0 * math.pi * gone) + math.log(2.0) * (gone > 2.0 / 3.0)
        z = offset + moved + np.cos(theta) * (x @ v1) + np.sin(theta) * (x @ v2)
        return _labelled(rng, x, _sigmoid(z))

    return draw


def _always(world: World) -> Callable[[Generator], World]:
    """Return what makes this world, whatever the random numbers."""
    return lambda _: world


def _labelled(rng: Generator, x: FloatArray, p: FloatArray) -> Draw:
    """Draw labels from p, and return them with x."""
    return Draw(x, (rng.random(len(p)) < p).astype(np.float64), p)


def _sigmoid(z: FloatArray) -> FloatArray:
    e = np.exp(-np.abs(z))
    return np.where(z >= 0.0, 1.0, e) / (1.0 + e)


# -- bases ---------------------------------------------------------------------------------------------------------


def _waves(x: FloatArray) -> FloatArray:
    """Return 48 features of one x: sin((x + πab)/b), a = 0, ¼, …, 1¾, b = 1, …, 6."""
    return np.concatenate([np.sin(x / b + math.pi * a / 4.0) for a in range(8) for b in range(1, 7)], axis=1)


def _logistic(features: Callable[[FloatArray], FloatArray]) -> Callable[..., Callable[[FloatArray], FloatArray]]:
    """Fit scikit-learn's logistic regression, at its defaults, to features of x."""

    def fit(x: FloatArray, y: FloatArray, seed: int) -> Callable[[FloatArray], FloatArray]:
        try:
            from sklearn.linear_model import LogisticRegression
        except ImportError as error:
            raise StreamcalError(_NEEDS_SKLEARN) from error
        model = LogisticRegression(max_iter=1_000).fit(features(x), y)
        return lambda x: np.asarray(model.predict_proba(features(x))[:, 1])

    return fit


def _forest(x: FloatArray, y: FloatArray, seed: int) -> Callable[[FloatArray], FloatArray]:
    """Fit scikit-learn's random forest, at its defaults: scores are shares of 100 trees, including 0 and 1."""
    try:
        from sklearn.ensemble import RandomForestClassifier
    except ImportError as error:
        raise StreamcalError(_NEEDS_SKLEARN) from error
    model = RandomForestClassifier(random_state=seed).fit(x, y)
    return lambda x: np.asarray(model.predict_proba(x)[:, 1])


_NEEDS_SKLEARN = "the base models of streamcal.datasets.synthetic need scikit-learn: pip install '.[sklearn]'"

BASES: dict[str, Callable[..., Callable[[FloatArray], FloatArray]]] = {
    "waves": _logistic(_waves),
    "logistic": _logistic(lambda x: x),
    "forest": _forest,
}

#: Every setting by name; the number at the end of a name is δ in degrees, f, or the click rate.
SETTINGS: dict[str, Setting] = {
    "cov-1d": Setting(_always(_cov_1d), "waves", 50, 0.002),
    "lab-1d": Setting(_always(_lab_1d), "logistic", 50, 0.01),
    "reg-1d": Setting(_always(_reg_1d), "waves", 50, 0.002),
    **{
        f"reg-10d-{degrees}": Setting(partial(_reg_10d, angle=_turning(degrees)), "forest", 250, 0.04)
        for degrees in (0, 30, 60, 90)
    },
    **{
        f"cov-10d-{degrees}": Setting(partial(_cov_10d, degrees=degrees), "forest", 250, 0.04)
        for degrees in (0, 60, 120, 180)
    },
    **{
        f"lab-10d-{end}": Setting(_always(partial(_lab_10d, end=end)), "forest", 250, 0.04)
        for end in (0.5, 0.6, 0.7, 0.9)
    },
    "abrupt": Setting(partial(_reg_10d, angle=_once), "forest", 250, 0.04, jumps=(ABRUPT,)),
    "recurring": Setting(partial(_reg_10d, angle=_to_and_fro), "forest", 250, 0.04, jumps=(2e3, 3e3, 4e3, 5e3)),
    "warp": Setting(_always(_warp), "logistic", 50, 0.01),
    **{
        f"clicks-{rate}": Setting(partial(_clicks, rate=rate), "logistic", 1_000, 0.01, STEPS_CLICKS, TRAIN_CLICKS)
        for rate in (0.0005, 0.005, 0.05)
    },
}
