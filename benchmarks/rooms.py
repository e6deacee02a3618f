"""What a step costs in the rooms beside one score: several scores, several classes, distributions.

`python -m benchmarks.methods` writes the table; this module has its streams and its subjects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from streamcal import fusion, multiclass, regression

SIZES = (1_000, 10_000, 100_000)
#: Classes of the multiclass streams.
CLASSES = 10
#: Where the thresholds of distributions lie: six standard deviations beyond the largest mean.
SUPPORT = (-8.0, 8.0)


class Observations(NamedTuple):
    """A stream as arrays for `learn_many` and, from the place `held` on, as arguments of `learn_one`."""

    start: tuple[Any, ...]
    named: dict[str, Any]  #: keyword arguments of `learn_many`
    arrivals: list[tuple[Any, Any]]


def scores(number: int, held: int, arrivals: int, rng: np.random.Generator) -> Observations:
    """Several noisy scores of a calibrated probability."""
    truth = rng.normal(0.0, 1.5, held + arrivals)
    noisy = truth[:, np.newaxis] + rng.normal(0.0, 1.0, (len(truth), number))
    s, y = 1.0 / (1.0 + np.exp(-noisy)), rng.random(len(truth)) < 1.0 / (1.0 + np.exp(-truth))
    return Observations((s[:held], y[:held]), {}, list(zip(s[held:].tolist(), y[held:].tolist(), strict=True)))


def classes(held: int, arrivals: int, rng: np.random.Generator) -> Observations:
    """Probability vectors of a calibrated model of ten classes."""
    e = np.exp(rng.normal(0.0, 1.5, (held + arrivals, CLASSES)))
    shares = e / e.sum(axis=1, keepdims=True)
    labels = [f"class {k}" for k in range(CLASSES)]
    places = np.minimum((rng.random((len(e), 1)) > np.cumsum(shares, axis=1)).sum(axis=1), CLASSES - 1)
    y = [labels[place] for place in places.tolist()]
    named = [dict(zip(labels, row, strict=True)) for row in shares[held:].tolist()]
    return Observations((shares[:held], y[:held]), {"labels": labels}, list(zip(named, y[held:], strict=True)))


def distributions(held: int, arrivals: int, rng: np.random.Generator) -> Observations:
    """Draw normal forecasts that are too narrow by a third, and outcomes."""
    means = rng.uniform(-2.0, 2.0, held + arrivals)
    y = rng.normal(means, 1.5).tolist()
    forecasts = [regression.Normal(mean, 1.0) for mean in means.tolist()]
    return Observations((forecasts[:held], y[:held]), {}, list(zip(forecasts[held:], y[held:], strict=True)))


class Subject(NamedTuple):
    """A method: how it is made, its stream, and what is done with a prediction."""

    make: Callable[[], Any]
    stream: Callable[[int, int, np.random.Generator], Observations]
    use: Callable[[Any], Any] | None = None

    def started(self, size: int, arrivals: int, seed: int) -> tuple[Any, Iterator[tuple[Any, Any, Any]]]:
        """Return the method after `size` observations, and (query, observation, outcome) of each arrival."""
        stream = self.stream(size, arrivals + 1, np.random.default_rng([seed, size]))
        cal = self.make()
        cal.learn_many(*stream.start, **stream.named)
        queries = (x for x, _ in stream.arrivals[1:])
        return cal, ((query, x, y) for query, (x, y) in zip(queries, stream.arrivals, strict=False))


def at_zero(forecast: Any) -> float:
    """Return the distribution function at 0, since an unused forecast may not have been computed."""
    return float(forecast.cdf(0.0))


#: The methods of distributions that need to know where outcomes may lie.
BOUNDED = ("empirical-density", "isotonic-distributional", "venn-abers-regression", "gaussian-process-cdf")


def _subjects() -> dict[str, Subject]:
    """Return all methods of these packages with default parameters, and some with a target of their own."""
    two, three = partial(scores, 2), partial(scores, 3)
    found = [
        {f"{method.__name__}()": Subject(method, two) for method in fusion.METHODS.values()},
        {f"{method.__name__}()": Subject(method, classes) for method in multiclass.METHODS.values()},
        {
            f"{method.__name__}()": Subject(
                partial(method, support=SUPPORT) if name in BOUNDED else method, distributions, at_zero
            )
            for name, method in regression.METHODS.items()
        },
    ]
    found[0]["BernsteinFusion(5)"] = Subject(partial(fusion.BernsteinFusion, 5), two)
    found[0]["BernsteinFusion(5, n_scores=3)"] = Subject(partial(fusion.BernsteinFusion, 5, 3), three)
    found[1]['OneVsRest("online-platt")'] = Subject(partial(multiclass.OneVsRest, "online-platt"), classes)
    segments = partial(regression.EmpiricalDensity, "online-platt", 16, support=SUPPORT)
    found[2]['EmpiricalDensity("online-platt", 16)'] = Subject(segments, distributions, at_zero)
    return {**found[0], **found[1], **found[2]}


SUBJECTS = _subjects()
