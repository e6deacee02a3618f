"""`compare`: several methods over one stream, prequentially and in one pass, with what can be concluded from it."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.registry import COMPARED, REGISTRY
from streamcal.calibrators.registry import RAW as RAW
from streamcal.errors import InputError, warn
from streamcal.learners.choosing import chosen
from streamcal.learners.learner import Learner
from streamcal.live.keyed import Entrant
from streamcal.live.levels import Field, check_fields, names_of
from streamcal.live.multicalibrated import Multicalibrated
from streamcal.live.segmented import Effect, Segmented
from streamcal.metrics import CORP, Brier, CalibrationRatio, DebiasedECE, LogLoss, LogLossDifference
from streamcal.metrics.cells import Forecasts
from streamcal.names import did_you_mean, suggesting
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.scales import LOGIT_LIMIT
from streamcal.parameters.showing import html_table
from streamcal.parameters.types import FloatArray
from streamcal.stream.as_issued import Horizon, Judged
from streamcal.stream.by_segment import MISSING, OTHERS, BySegment, field_text, level_text
from streamcal.stream.columns import Columns, Observations
from streamcal.stream.entrants import Certified, Ended, Group, Last, Step, group
from streamcal.stream.history import History
from streamcal.stream.prequential import StreamSample
from streamcal.stream.records import label_text
from streamcal.stream.sources import Source, opened
from streamcal.stream.times import TimeOrder

IDENTITY = "identity"
#: The suffix of the name of a method that is corrected for segments.
BY_SEGMENT = " by segment"
#: The suffix of the name of a method that is kept calibrated in groups.
MULTICALIBRATED = ", multicalibrated"
#: Levels of each field whose effects are kept: the heaviest, and those farthest from what each series predicted.
MOST_EFFECTS, MOST_WORST = 40, 12
#: Methods do not distinguish scores below this, nor scores above 1 minus this.
LEAST_SCORE = 1.0 / (1.0 + math.exp(LOGIT_LIMIT))
#: The probability with which all confidence sequences hold together.
CONFIDENCE = 0.95
#: Bins of equal mass at whose mean scores the last map is kept.
MAPPED = 100
#: Parameters of methods given by name that would otherwise grow with the stream, or solve for tenths of a millisecond
#: or more at every row.
RESOLUTION, REFRESH_EVERY = 4096, 100
SLOW = ("monotone-polynomial", "bbq", "near-isotonic", "enir", "linear-trend", "elite")

#: The types that are compared.
Method: TypeAlias = Entrant
Verdict = Literal["better", "worse", "no difference shown"]


class Difference(NamedTuple):
    """A difference of mean log losses in nats, below 0 where the first is better, and its confidence sequence."""

    value: float
    low: float
    high: float

    @property
    def verdict(self) -> Verdict:
        """Whether the first is better or worse: whether 0 lies outside the interval."""
        return "better" if self.high < 0.0 else "worse" if self.low > 0.0 else "no difference shown"


class Recommendation(NamedTuple):
    """What to take, and why; not decided where the base predicts too many or too few positives, and none is better."""

    method: str
    reason: str
    decided: bool = True


@dataclass
class Standing:
    """The measures of one method, or of the score itself."""

    name: str  #: as given, or "raw"
    shown: str  #: the calibrator with its parameters, before it has learned
    #: The measures of its predictions.
    log_loss: LogLoss = field(default_factory=LogLoss)
    brier: Brier = field(default_factory=Brier)
    debiased_ece: DebiasedECE = field(default_factory=DebiasedECE)
    ratio: CalibrationRatio = field(default_factory=CalibrationRatio)
    corp: CORP = field(default_factory=CORP)
    seconds: float = 0.0  #: processor time to predict and to learn
    bytes: int | None = None  #: size of its saved state at the end; None before, and for the score itself
    failure: str | None = None  #: the error that ended it; it is not compared from then on
    #: Scores and what the method makes of them at the end, in ascending order; empty before, and of the score itself.
    #: Of a method with segments, for a row that has none.
    mapped: tuple[tuple[float, float], ...] = ()
    #: By field, the effects that a method with segments adds for the heaviest levels, at the end.
    effects: dict[Field, list[Effect]] = field(default_factory=dict)
    #: The report of a `Multicalibrated` at the end: certificate, width of bins, and the groups with most evidence.
    certified: Certified | None = None

    def add(self, forecasts: Forecasts) -> None:
        """Measure predictions."""
        for metric in (self.log_loss, self.brier, self.debiased_ece, self.ratio, self.corp):
            metric.update_forecasts(forecasts)


class Comparison:
    """Several methods over one stream; `compare` makes one, and `run` reads the stream.

    Every observation is predicted by each method before it is learned. Two methods are compared by the confidence
    sequence of the difference of their log losses (`LogLossDifference(adaptive=True)`), rows by their weights. Those of
    all pairs hold together, at every time, with a probability of 95 %: each has the error probability .05 / pairs. So
    the best of the methods may be chosen by looking at the data, and the stream may be stopped by looking at it.

    Attributes
    ----------
    standings : dict of Standing
        By name, "raw" first.
    rows, positives : int
        Number of observations, and of positive ones.
    seconds : float
        Elapsed time.
    order : TimeOrder
        The times read, and whether they are in order.
    issued : int
        Number of predictions; more than `rows` where the horizons of the last have not passed.
    delay : int
        Number of observations after which a label is known.
    horizon : Horizon or None
        When labels are known, where they come late.
    base : str
        The name that methods have to be better than.
    history : History
        Predictions, losses, evidence and alarms over time.
    source : str
        The name of the data.
    fields : tuple
        The fields of segments, and of groups in which methods are kept calibrated.
    segments : BySegment
        Predictions by level of these fields.
    """

    def __init__(
        self,
        methods: Mapping[str, Method] | Sequence[str | Method] | None = None,
        *,
        delay: int = 0,
        base: str = RAW,
        segments: Sequence[Field] = (),
        multicalibrate: Sequence[Field] = (),
        horizon: Horizon | None = None,
    ) -> None:
        self.horizon = horizon
        self.delay = whole_number(delay, "delay", 0, allowed="a whole number of observations, such as 500")
        by, groups = (check_fields(fields) if fields else () for fields in (segments, multicalibrate))
        self.fields = tuple(dict.fromkeys((*by, *groups)))
        if horizon is not None and self.delay:
            raise InputError(f"delay={delay!r} and a horizon exclude each other: give the one by which labels come")
        plain = named(COMPARED if methods is None else methods, self.delay if horizon is None else None)
        self._calibrators = with_groups(with_segments(plain, by), groups)
        self.standings = {RAW: Standing(RAW, "the score itself")}
        self.standings |= {name: Standing(name, repr(calibrator)) for name, calibrator in self._calibrators.items()}
        if base == IDENTITY:
            base = RAW
        if base not in self.standings:
            known = ", ".join(self.standings)
            raise InputError(f"base={base!r} is not compared{did_you_mean(base, self.standings)}; compared are {known}")
        self.base = base
        pairs = list(itertools.combinations(self.standings, 2))
        level = 1.0 - (1.0 - CONFIDENCE) / max(len(pairs), 1)
        others = [pair for pair in pairs if base not in pair]  # the history has those with the base
        self._differences = {pair: LogLossDifference(level, adaptive=True) for pair in others}
        self.history = History(list(self.standings), base, level)
        self.segments = BySegment(self.fields, list(self.standings))
        self.rows = self.positives = self.measured = self._issued = 0
        self.sample = StreamSample()
        self.extreme = 0  # scores beyond log-odds ±16, at whose ends methods keep them
        self.seconds = 0.0
        self.order = TimeOrder()
        self.source = ""

    @property
    def read(self) -> tuple[Field, ...]:
        """The fields of segments that methods read, and those that are measured."""
        return (*self.fields, *(field for calibrator in self._calibrators.values() for field in calibrator.fields))

    @property
    def issued(self) -> int:
        """Number of predictions, also of rows that are not judged yet."""
        return max(self._issued, self.rows)

    # -- the pass over the stream ----------------------------------------------------------------------------------

    def run(
        self,
        source: Source,
        processes: int = 1,
        progress: Callable[[Comparison, float | None], object] = lambda comparison, share: None,
    ) -> None:
        """Read a stream to its end. `progress(comparison, share of it or None)` is called after every piece."""
        if self.rows:
            raise InputError("this comparison has read a stream; make another one")
        begun, self.source = time.perf_counter(), source.name
        entrants = group(self._calibrators, self.delay, processes, self.horizon)
        try:
            for piece, steps, share in _together(source, entrants):
                self._take(piece, steps)
                self._issued = piece.issued if isinstance(piece, Judged) else self.rows
                self.seconds = time.perf_counter() - begun
                progress(self, share)
            self.finish(entrants.end)
        finally:
            self.seconds = time.perf_counter() - begun
            entrants.close()

    def finish(self, ask: Callable[[Last], Mapping[str, Ended | None]]) -> None:
        """Ask for what is left of the methods: the map at the scores that came, their bins' means and both ends."""
        if not self.names:
            return
        bins = self.standings[RAW].debiased_ece.reliability(bins=MAPPED).bins
        scores = np.unique([bins[0].low, *(bin.prediction for bin in bins), bins[-1].high])
        levels = {field: self._levels(field) for field in self.fields}
        for name, left in ask(Last(scores, levels)).items():
            if left is not None:
                standing = self.standings[name]
                standing.bytes, standing.effects, standing.certified = left.bytes, left.effects, left.certified
                standing.mapped = tuple(zip(scores.tolist(), left.mapped.tolist(), strict=True))

    def _levels(self, field: Field) -> list[Any]:
        worst = [level for name in self.names for level in self.segments.worst(field, name, MOST_WORST)]
        levels = dict.fromkeys([*self.segments.heaviest(field, MOST_EFFECTS), *worst])
        return [level for level in levels if level not in (OTHERS, MISSING)]

    def _take(self, piece: Observations | Judged, steps: Mapping[str, Step]) -> None:
        """Measure what all said to a piece."""
        piece = piece.observations if isinstance(piece, Judged) else piece
        predicted = {RAW: piece.scores}
        for name, step in steps.items():
            standing = self.standings[name]
            standing.seconds, standing.failure = step.seconds, step.failure
            if step.predicted is not None:
                predicted[name] = step.predicted
        w = np.ones(len(piece.labels)) if piece.weights is None else piece.weights
        self.measure(predicted, piece.labels, w, piece.keys, piece.times)

    def measure(
        self,
        predicted: Mapping[str, FloatArray],
        labels: NDArray[np.bool_],
        w: FloatArray,
        keys: Mapping[str, Any] | None = None,
        times: FloatArray | None = None,
    ) -> None:
        """Measure the next predictions of every series, the score itself first; `keys` are columns of levels.

        What `run` does after each piece, for predictions that are made elsewhere.
        """
        if times is not None:
            self.order.add(times)
        y = labels.astype(np.float64)
        self.rows += len(y)
        self.positives += int(np.count_nonzero(y))
        self.measured += int(np.count_nonzero(w))
        forecasts = {name: Forecasts.of(p, y, w) for name, p in predicted.items()}
        self.sample.add(forecasts[RAW].p, forecasts[RAW].y)
        self.extreme += int(np.count_nonzero(np.abs(forecasts[RAW].p - 0.5) > 0.5 - LEAST_SCORE))
        if not len(forecasts[RAW].p):
            return
        for name, forecast in forecasts.items():
            self.standings[name].add(forecast)
        for (first, second), difference in self._differences.items():
            if first in forecasts and second in forecasts:
                difference.update_forecasts(forecasts[first], forecasts[second])
        self.history.add(forecasts, None if times is None else times[w > 0.0])
        if keys is not None:
            self.segments.add(keys, w, forecasts)

    # -- what follows from it --------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Those that were compared over the whole stream, by log loss, the best first; empty before the first row."""
        if not self.standings[RAW].log_loss.n:
            return []
        losses = {
            name: standing.log_loss.get() for name, standing in self.standings.items() if standing.failure is None
        }
        return sorted((name for name, loss in losses.items() if loss is not None), key=lambda name: losses[name] or 0.0)

    @property
    def best(self) -> str | None:
        """The name with the lowest log loss; None before the first row."""
        return next(iter(self.names), None)

    def difference(self, first: str, second: str) -> Difference:
        """Return the log loss of the first minus that of the second."""
        if first == second:
            return Difference(0.0, 0.0, 0.0)
        measured = self._differences.get((first, second))
        measured = self.history.differences.get(first) if measured is None and second == self.base else measured
        if measured is not None:
            return Difference(measured.get() or 0.0, *measured.interval)
        if not {first, second} <= self.standings.keys():
            known = ", ".join(self.standings)
            raise InputError(f"{first!r} and {second!r} are not both compared; compared are {known}")
        value, low, high = self.difference(second, first)
        return Difference(-value, -high, -low)

    @property
    def improves(self) -> bool:
        """Whether some method is shown to be better than the base."""
        return any(self._is_better(name) for name in self.names if name != self.base)

    def _is_better(self, name: str) -> bool:
        return self.base in self.names and self.difference(name, self.base).verdict == "better"

    @property
    def recommendation(self) -> Recommendation | None:
        """The method with the lowest log loss of those shown better than the base, else the base; None without rows."""
        better = [name for name in self.names if name != self.base and self._is_better(name)]
        best = next(iter(better), self.best)
        if best is None:
            return None
        if self.base not in self.names:
            return Recommendation(best, f"{best} has the lowest log loss, and {self.base} failed")
        if best == self.base:
            return Recommendation(best, f"no method has a lower log loss than {_named(best)}")
        difference = self.difference(best, self.base)
        if difference.verdict != "better":
            why = f"by {self.rows:,} row{'s' * (self.rows > 1)}"
            miscalibrated = self._miscalibrated()
            if miscalibrated is None:
                reason = f"{best} has the lowest log loss, but no difference from {_named(self.base)} is shown {why}"
                return Recommendation(self.base, reason)
            reason = f"{miscalibrated}. Undecided {why}: which log loss is lower"
            return Recommendation(self.base, reason, decided=False)
        lowest = "the lowest log loss" if best == self.best else "the lowest log loss of those shown better"
        reason = f"{best} has {lowest}, {-difference.value:.2g} below {_named(self.base)}"
        return Recommendation(best, f"{reason} (confidence sequence: {-difference.high:.2g} to {-difference.low:.2g})")

    def _miscalibrated(self) -> str | None:
        """Describe that the base predicts too many or too few positives, and which method repairs that, if it is so."""
        ratio, (low, high) = self.standings[self.base].ratio.get(), self.standings[self.base].ratio.interval()
        if ratio is None or low <= 1.0 <= high:
            return None
        times = f"{ratio:.3g} times the" if 0.0 < ratio < math.inf else "none of the" if not ratio else "too many"
        interval = f" ({low:.3g} to {high:.3g})" if 0.0 < ratio < math.inf else ""
        for name in self.names:
            own, (low, high) = self.standings[name].ratio.get(), self.standings[name].ratio.interval()
            if name not in (RAW, self.base) and low <= 1.0 <= high:
                repaired = f", and {name} repairs the total" + ("" if own is None else f" ({own:.3g})")
                return f"{_named(self.base)} predicts {times} positives{interval}{repaired}"
        return f"{_named(self.base)} predicts {times} positives{interval}"

    def cheaper(self) -> dict[str, float]:
        """Return faster methods from which the best is not shown to differ, and which are better than the base.

        Each name has how many times faster than the best it is, the fastest first.
        """
        advice = self.recommendation
        best = None if advice is None else advice.method
        if best is None or best == RAW:
            return {}
        mine = self.standings[best].seconds
        speedups = {
            name: mine / max(self.standings[name].seconds, 1e-9)
            for name in self.names
            if name not in (best, self.base, RAW)
            and self.difference(name, best).verdict == "no difference shown"
            and self.difference(name, self.base).verdict == "better"
        }
        ordered = sorted(speedups.items(), key=lambda item: -item[1])
        return {name: times for name, times in ordered if times >= 2.0}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data that `json` can write; numbers that are not finite are None."""
        best, advice = self.best, self.recommendation
        return {
            "source": self.source,
            "rows": self.rows,
            "issued": self.issued,
            "positives": self.positives,
            "seconds": round(self.seconds, 3),
            "delay": self.delay,
            "horizon": None if self.horizon is None else self.horizon.horizon,
            "early": None if self.horizon is None else self.horizon.early,
            "base": self.base,
            "confidence": CONFIDENCE,
            "best": best,
            "recommendation": None if advice is None else advice._asdict(),
            "improves": self.improves,
            "methods": {name: self._measures(name) for name in [*self.names, *self.failed()]},
            "segments": {field_text(field): self._of_segments(field) for field in self.fields},
            "multicalibrated": {name: self._of_groups(name) for name in self.names if self.standings[name].certified},
        }

    def _of_groups(self, name: str) -> dict[str, Any]:
        """Return what a method certifies, and its groups with most evidence."""
        certified = self.standings[name].certified
        assert certified is not None
        groups = [gap._asdict() for gap in certified.groups]
        return certified.certificate._asdict() | {"bins": certified.bins, "groups": groups}

    def _of_segments(self, field: Field) -> dict[str, Any]:
        """Return the errors by level of a field, and its levels, the heaviest first."""
        errors = {name: self.segments.errors[name][field] for name in self.names}
        rows = self.segments.rows(field, self.segments.heaviest(field, MOST_EFFECTS)) if errors else []
        effects = {name: self.standings[name].effects.get(field, []) for name in self.names}
        return {
            "methods": {
                name: {
                    "field_ece": error.get(),
                    "floor": error.floor,
                    "chi_square": finite(error.chi_square),
                    "degrees": error.degrees,
                }
                for name, error in errors.items()
            },
            "levels": [
                row._asdict() | {"level": level_text(row.level), "z": {name: finite(z) for name, z in row.z.items()}}
                for row in rows
            ],
            "effects": {
                name: [effect._asdict() | {"level": level_text(effect.level)} for effect in levels]
                for name, levels in effects.items()
                if levels
            },
        }

    def failed(self) -> list[str]:
        """Return the names of methods that ended with an error."""
        return [name for name, standing in self.standings.items() if standing.failure is not None]

    def _measures(self, name: str) -> dict[str, Any]:
        standing = self.standings[name]
        if standing.failure is not None:
            return {"method": standing.shown, "failure": standing.failure}
        parts = standing.corp.decomposition
        return {
            "method": standing.shown,
            "log_loss": standing.log_loss.get(),
            "infinite": standing.log_loss.infinite,
            "brier": standing.brier.get(),
            "debiased_ece": standing.debiased_ece.get(),
            "debiased_ece_floor": standing.debiased_ece.floor,
            "miscalibration": None if parts is None else parts.miscalibration,
            "discrimination": None if parts is None else parts.discrimination,
            "uncertainty": None if parts is None else parts.uncertainty,
            "ratio": finite(standing.ratio.get()),
            "ratio_interval": [finite(end) for end in standing.ratio.interval()],
            "alarms": self.history.alarms_in_all[name],
            "microseconds": None if name == RAW or not self.issued else 1e6 * standing.seconds / self.issued,
            "bytes": standing.bytes,
            "against_base": self._against(name, self.base),
            "against_best": self._against(name, self.best),
        }

    def _against(self, name: str, other: str | None) -> dict[str, Any] | None:
        if other is None or other == name or other not in self.names:
            return None
        difference = self.difference(name, other)
        return {name: finite(value) for name, value in difference._asdict().items()} | {"verdict": difference.verdict}

    def _repr_html_(self) -> str:
        """Return HTML for notebooks: the recommendation, and the log loss and verdict of each method."""
        advice = self.recommendation
        rows = {"recommended": f"{advice.method}: {advice.reason}"} if advice is not None else {}
        for name in self.names:
            verdict = "" if name == self.base else f", {self.difference(name, self.base).verdict} against {self.base}"
            rows[name] = f"log loss {self.standings[name].log_loss.get():.6g}{verdict}"
        return html_table(f"Comparison over {self.rows:,} rows", rows)

    def __str__(self) -> str:
        """Write the methods, the best first, with their losses and verdicts against the base, and the advice."""
        lines = [f"{'method':20} {'log loss':>10} {'Brier':>10} {'ratio':>7}  against {self.base}"]
        for name in self.names:
            standing, ratio = self.standings[name], self.standings[name].ratio.get()
            verdict = "" if name == self.base else self.difference(name, self.base).verdict
            shown = "" if ratio is None else f"{ratio:7.3f}"
            lines.append(
                f"{name:20} {standing.log_loss.get():10.6f} {standing.brier.get():10.6f} {shown:>7}  {verdict}".rstrip()
            )
        advice = self.recommendation
        return "\n".join([*lines, *([] if advice is None else [f"{advice.method}: {advice.reason}"])])

    def __repr__(self) -> str:
        return f"Comparison({list(self.standings)}, rows={self.rows}, best={self.best!r})"


@suggesting
def compare(
    data: Any,
    *,
    score: str = "score",
    label: str = "label",
    methods: Mapping[str, Method] | Sequence[str | Method] | None = None,
    delay: int = 0,
    base: str = RAW,
    segments: Sequence[Field] = (),
    multicalibrate: Sequence[Field] = (),
    weight: str | None = None,
    time: str | None = None,
    positive: Any = None,
    scale: Literal["percent", "logit"] | None = None,
    format: str | None = None,
    delimiter: str | None = None,
    processes: int = 1,
    progress: Callable[[Comparison, float | None], object] = lambda comparison, share: None,
) -> Comparison:
    """Calibrate a stream by several methods in one pass, each row predicted first and learned afterwards.

    Parameters
    ----------
    data : str, path, list of these, DataFrame, Table or tuple of arrays
        Files that `streamcal run` reads, in bounded memory: names, globs and folders. Or a table of pandas, polars or
        Arrow, or one that Arrow can read. Or arrays (scores, labels), (scores, labels, weights) or (scores, labels,
        weights, times).
    score, label, weight, time : str
        Columns of a file or a table. Scores are probabilities.
    methods : sequence of str, Calibrator, Segmented or Multicalibrated, or mapping of name to these
        Default `COMPARED`. Those given by name have bounded memory (`resolution=4096`), and `refresh_every=100` where
        they solve for milliseconds; those given as objects are cloned. The score itself is always compared, as "raw".
    delay : int
        The label of a row is learned before the prediction of the row `delay` + 1 later. A method given by name gets
        the delay if it has a parameter `delay`.
    base : str
        The name that a method has to be better than: "raw", or one of the methods.
    segments : sequence of str and of tuples of str
        Columns of a file or a table with segments, such as campaigns, the coarsest first; a tuple is a field whose
        levels are tuples. Every method then runs twice: as it is, and corrected for them by `Segmented`, which has
        " by segment" added to its name. `Comparison.segments` has the predictions by level.
    multicalibrate : sequence of str and of tuples of str
        Columns whose levels are groups. Every method runs once more, kept calibrated in the groups by
        `Multicalibrated`; with `segments`, those corrected by segment too. The names then end in ", multicalibrated".
    positive : optional
        The positive label, if labels are other words than those of `streamcal run`.
    scale : {"percent", "logit"}, optional
        Scores of a file or a table are percentages or log-odds.
    format, delimiter : str, optional
        Those of a file whose name and header do not show them.
    processes : int
        Number of processes that share the methods; 1 is this one. More need a main module that can be imported
        (`if __name__ == "__main__":`), as everywhere with `multiprocessing`.
    progress : callable, optional
        Called with the comparison so far and the share of the data that was read (None where unknown), every 8,192
        rows or fewer.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        Where something cannot be read or used.
    StreamcalError
        If a process ends before its results.

    Warns
    -----
    RuntimeWarning
        If scores fall with the label or are classes, and if rows are sorted by label or score.

    Notes
    -----
    Cost: that of the methods, and O(1) a row for each of them and for each pair. A method that fails is left out from
    then on, and its error is reported; the others continue.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(4_000)
    >>> comparison = compare((p, rng.random(4_000) < p**3), methods=["online-platt", "isotonic"])
    >>> comparison.recommendation.method, comparison.difference("isotonic", "raw").verdict
    ('online-platt', 'better')
    """
    comparison = Comparison(methods, delay=delay, base=base, segments=segments, multicalibrate=multicalibrate)
    names = names_of(comparison.read)
    columns = Columns(score, label, time, weight, None if positive is None else label_text(positive), names)
    with opened(data, columns, unit=scale, format=format, delimiter=delimiter) as source:
        comparison.run(source, processes, progress)
    auc, odd = comparison.sample.auc_if_falling(), comparison.sample.odd_rows()
    if auc is not None:
        odd = f"higher scores have fewer positives (AUC {auc:.3f}): give the score of the other class, 1 − score"
    if odd is not None:
        warn(odd)
    return comparison


def named(methods: Mapping[str, Method] | Sequence[str | Method], delay: int | None) -> dict[str, Method]:
    """Return new calibrators by name; `InputError` for a name that is unknown or given twice."""
    if isinstance(methods, (str, Learner)):
        raise InputError(f"methods={methods!r} is one method; give a list, such as ['online-platt', 'venn-abers']")
    if isinstance(methods, Mapping):
        calibrators = {str(name): method(asked, delay) for name, asked in methods.items()}
    else:
        calibrators = {}
        for asked in (asked for asked in methods if asked != RAW):
            calibrator = method(asked, delay)
            name = asked if isinstance(asked, str) else calibrator.name
            if name in calibrators:
                raise InputError(f"the method {name!r} is given twice; give a mapping of names to calibrators")
            calibrators[name] = calibrator
    if RAW in calibrators:
        raise InputError(f"{RAW!r} is the name of the score itself; give another name")
    calibrators.pop(IDENTITY, None)  # which is the score itself, as "raw" in a list is
    if not calibrators:
        raise InputError("there is nothing to compare with the score: give at least one method")
    return calibrators


def with_segments(calibrators: dict[str, Method], fields: tuple[Field, ...]) -> dict[str, Method]:
    """Return the methods, and a corrected copy of each that is not yet corrected for segments."""
    plain = {
        name: calibrator for name, calibrator in calibrators.items() if fields and isinstance(calibrator, Calibrator)
    }
    corrected = {name + BY_SEGMENT: Segmented(calibrator, fields) for name, calibrator in plain.items()}
    if doubled := corrected.keys() & calibrators.keys():
        raise InputError(f"{min(doubled)!r} is the name of another method with segments; give another name")
    return {**calibrators, **corrected}


def with_groups(calibrators: dict[str, Method], fields: tuple[Field, ...]) -> dict[str, Method]:
    """Return the methods, and some of them once more kept calibrated in groups.

    These are the methods corrected for segments, or all methods if none is.
    """
    if not fields:
        return calibrators
    corrected = {name: calibrator for name, calibrator in calibrators.items() if isinstance(calibrator, Segmented)}
    plain = {name: calibrator for name, calibrator in calibrators.items() if isinstance(calibrator, Calibrator)}
    in_groups = {
        name + MULTICALIBRATED: Multicalibrated(calibrator, fields) for name, calibrator in (corrected or plain).items()
    }
    if doubled := in_groups.keys() & calibrators.keys():
        raise InputError(f"{min(doubled)!r} is the name of another method; give another name")
    return {**calibrators, **in_groups}


def method(asked: str | Method, delay: int | None) -> Method:
    """Return a clone of a calibrator, or a new one of this name, in bounded memory and with a known delay."""
    if not isinstance(asked, str) or asked not in REGISTRY:
        calibrator: Method = chosen(asked, Entrant, REGISTRY, parameter="methods")
        return calibrator.clone()
    declared = signature(REGISTRY[asked]).parameters
    wanted = {"delay": delay} if "delay" in declared and delay is not None else {}
    if "resolution" in declared and declared["resolution"].default is None:
        wanted["resolution"] = RESOLUTION
    if REGISTRY.called(asked) in SLOW:
        wanted["refresh_every"] = REFRESH_EVERY
    return REGISTRY[asked](**wanted)


def finite(value: float | None) -> float | None:
    """Return the number, or None if it is not finite."""
    return value if value is not None and math.isfinite(value) else None


def _together(source: Source, entrants: Group) -> Iterator[tuple[Observations | Judged, dict[str, Step], float | None]]:
    """Yield each piece with the entrants' predictions for it, and the share of the source up to it.

    The next piece is read, and the last is measured, while entrants work.
    """
    before: tuple[Observations | Judged, float | None] | None = None
    for piece in source:
        now = piece, source.share()
        steps = entrants.receive() if before is not None else {}
        entrants.send(piece.arrivals if isinstance(piece, Judged) else piece)
        if before is not None:
            yield before[0], steps, before[1]
        before = now
    if before is not None:
        yield before[0], entrants.receive(), before[1]


def _named(name: str) -> str:
    return "the raw score" if name == RAW else name
