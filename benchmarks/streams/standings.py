"""Evaluation of the results: ranks, differences with their confidence sequences, largest losses, gaps closed."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from benchmarks.streams.catalogue import CATALOGUE, draws, stream
from benchmarks.streams.entrants import ENTRANTS
from benchmarks.streams.race import ORACLE, Key, Results
from benchmarks.streams.tables import Array
from streamcal.metrics import LogLossDifference
from streamcal.metrics.log_loss import LOG_LOSS_CLIP

#: What everything is compared with.
REFERENCE = "auto"
RAW, ONLINE_PLATT, TRACKING_OPS, SCORE_BLIND = "identity", "online-platt", "tracking-ops", "score-blind"
#: For the standard error of a difference of calibration errors: blocks of neighbours, drawn anew so many times.
BLOCKS, DRAWS, BINS = 100, 1_000, 15

Course = tuple[str, int]


class Difference(NamedTuple):
    """Log loss of the reference minus that of a rival: below 0 where the reference is better."""

    value: float
    low: float
    high: float

    @property
    def won(self) -> bool:
        return self.high < 0.0

    @property
    def lost(self) -> bool:
        return self.low > 0.0


class Standings:
    """The results on some streams, with all delays: a course is a stream with a delay."""

    def __init__(self, results: Results, streams: list[str]) -> None:
        self._results = results
        self.courses: list[Course] = [(name, delay) for name in streams for delay in CATALOGUE[name].delays]
        self.entrants = [name for name in ENTRANTS if any((*course, name) in results.found for course in self.courses)]
        self._differences: dict[Key, Difference | None] = {}

    def get(self, course: Course, entrant: str, measure: str) -> float | None:
        """Return one measure; None if the entrant did not run."""
        result = self._results.found.get(Key(*course, entrant))
        return None if result is None else result[measure]

    def predicted(self, course: Course, entrant: str) -> tuple[Array, Array] | None:
        """Return an entrant's predictions, and the labels; None if it did not run."""
        key = Key(*course, entrant)
        if key not in self._results.found:
            return None
        return self._results.predicted(key), stream(*course, self._results.rows).y

    @cached_property
    def ranked(self) -> list[str]:
        """Those that ran on every course."""
        return [e for e in self.entrants if all(Key(*c, e) in self._results.found for c in self.courses)]

    def mean_ranks(self, measure: str) -> dict[str, float]:
        """Return the mean over all courses of the rank among `ranked`, from 1; ties share a rank."""
        table = [[self.get(course, entrant, measure) for entrant in self.ranked] for course in self.courses]
        return dict(zip(self.ranked, np.mean([rankdata(row) for row in table], axis=0).tolist(), strict=True))

    def difference(self, course: Course, entrant: str) -> Difference | None:
        """Compare the reference with a rival by a confidence sequence; None if one of them did not run."""
        key = Key(*course, entrant)
        if key not in self._differences:
            self._differences[key] = self._compare(key)
        return self._differences[key]

    def _compare(self, key: Key) -> Difference | None:
        reference = key._replace(entrant=REFERENCE)
        if key not in self._results.found or reference not in self._results.found:
            return None
        difference = LogLossDifference()
        labels = stream(key.stream, key.delay, self._results.rows).y
        difference.update_many(labels, self._results.predicted(reference), self._results.predicted(key))
        assert difference.get() is not None
        return Difference(difference.get(), *difference.interval)

    def bootstrapped(self, course: Course, entrant: str) -> Difference | None:
        """Compare the reference with a rival, with a 95 % interval of a paired bootstrap over blocks of time.

        The interval is valid for one look at the end; the confidence sequence is valid at every time and is therefore
        wider. The bootstrap treats blocks as exchangeable: on a stream that drifts it measures the noise of this
        stream, not of another one.
        """
        mine, theirs = self.predicted(course, REFERENCE), self.predicted(course, entrant)
        if mine is None or theirs is None:
            return None
        more = _log_losses(*mine) - _log_losses(*theirs)
        sums = [part.sum() for part in np.array_split(more, BLOCKS)]
        counts = np.random.default_rng(0).multinomial(BLOCKS, np.full(BLOCKS, 1 / BLOCKS), DRAWS)
        low, high = np.quantile(counts @ sums, (0.025, 0.975)) / len(more)
        return Difference(float(more.mean()), float(low), float(high))

    def best_other(self, course: Course) -> str:
        """Return the entrant with the lowest log loss other than `auto`."""
        losses = {e: self.get(course, e, "log_loss") for e in self.entrants if e != REFERENCE}
        return min((e for e in losses if losses[e] is not None), key=lambda e: losses[e] or 0.0)

    def worst_harm(self, entrant: str, against: str) -> tuple[float, Course] | None:
        """Return the largest excess log loss in nats and its course; below 0 if always better, None if never run."""
        harms = [
            (mine - theirs, course)
            for course in self.courses
            if (mine := self.get(course, entrant, "log_loss")) is not None
            and (theirs := self.get(course, against, "log_loss")) is not None
        ]
        return max(harms, default=None)

    def gap_closed(self, course: Course, entrant: str) -> float | None:
        """Return the share of the gap in log loss from `online-platt` to the oracle; None where there is no gap."""
        return _closed([self._losses(course, entrant)])

    def gap_closed_in_all_draws(self, course: Course, entrant: str) -> float | None:
        """Return the closed share of the gap, summed over all draws of the generator; None unless all have run."""
        return _closed([self._losses((drawn, course[1]), entrant) for drawn in draws(course[0])])

    def median_gap_closed(self, entrant: str, delay: int, in_all_draws: bool = False) -> float | None:
        """Over the generators."""
        closed = self.gap_closed_in_all_draws if in_all_draws else self.gap_closed
        shares = [closed(course, entrant) for course in self.generated() if course[1] == delay]
        kept = [share for share in shares if share is not None]
        return float(np.median(kept)) if kept else None

    def _losses(self, course: Course, entrant: str) -> tuple[float, float, float] | None:
        """Log losses of `online-platt`, of an entrant and of the oracle; None where one of them did not run."""
        platt, mine, oracle = (self.get(course, name, "log_loss") for name in (ONLINE_PLATT, entrant, ORACLE))
        return None if platt is None or mine is None or oracle is None else (platt, mine, oracle)

    def less_calibrated(self, course: Course, than: str = TRACKING_OPS) -> bool | None:
        """Return whether the reference's squared calibration error is above the other's by two standard errors."""
        keys = [Key(*course, name) for name in (REFERENCE, than)]
        if any(key not in self._results.found for key in keys):
            return None
        labels = stream(*course, self._results.rows).y.astype(np.float64)
        rng = np.random.default_rng(0)
        counts = np.vstack((np.ones(BLOCKS), rng.multinomial(BLOCKS, np.full(BLOCKS, 1 / BLOCKS), DRAWS)))
        ours, theirs = (_squared_errors(self._results.predicted(key), labels, counts) for key in keys)
        seen, drawn = (ours - theirs)[0], (ours - theirs)[1:]
        return bool(seen > 2.0 * drawn.std())

    def generated(self) -> list[Course]:
        """Return the courses of generated streams."""
        return [course for course in self.courses if CATALOGUE[course[0]].generated]


def _closed(losses: list[tuple[float, float, float] | None]) -> float | None:
    """Return the share of the gap between the first and the third that the second closes, all summed."""
    known = [one for one in losses if one is not None]
    if len(known) < len(losses):
        return None
    platt, mine, oracle = np.sum(known, axis=0)
    return float((platt - mine) / (platt - oracle)) if platt > oracle else None


def _log_losses(p: Array, y: Array) -> Array:
    """Return the log loss of each label, capped as in `LogLoss`."""
    return np.asarray(-np.log(np.maximum(np.where(y, p, 1.0 - p), LOG_LOSS_CLIP)))


def _squared_errors(p: Array, y: Array, counts: Array) -> Array:
    """Return the debiased squared calibration error for each row of `counts`.

    `counts` gives how often each block of neighbours in time counts. Bins have equal mass as in `DebiasedECE`, cut
    once between distinct probabilities.
    """
    _, place, mass = np.unique(p, return_inverse=True, return_counts=True)
    middle = np.cumsum(mass) - mass / 2.0
    group = np.minimum((BINS * middle / len(p)).astype(int), BINS - 1)[place]
    cell = np.arange(len(p)) * BLOCKS // len(p) * BINS + group
    n, predicted, positive = (
        counts @ np.bincount(cell, weights, BLOCKS * BINS).reshape(BLOCKS, BINS) for weights in (None, p, y)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        frequency = positive / n
        terms = n * ((predicted / n - frequency) ** 2 - frequency * (1.0 - frequency) / (n - 1.0))
    return np.asarray(np.where(n > 1.0, terms, 0.0).sum(axis=1) / n.sum(axis=1))
