"""All experts of `Auto` side by side, at one state of knowledge.

They forecast at the same knots, equally spaced in log-odds; `Auto` is linear in log-odds between them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamcal.calibrators.auto.experts import (
    ANCHOR,
    ANCHORED,
    BEGINS,
    EXPERTS,
    LABEL_MEANS,
    PLACES,
    WHOLE,
    Kind,
    Regression,
    Smoother,
)
from streamcal.calibrators.protected import jumper_state, new_jumper
from streamcal.kernels.bernstein import evaluate_many
from streamcal.kernels.cubic import slopes, values_at
from streamcal.kernels.ensemble import Experts, FadingMoments, RecentScores
from streamcal.kernels.expert_panel import Panel
from streamcal.kernels.logistic import sigmoids
from streamcal.kernels.monotone_qp import SOLVED, MonotoneQP
from streamcal.memories.decay import RESCALE_HALF_LIVES, CountDecay
from streamcal.memories.memory import OUTWEIGHING, OUTWEIGHING_ONE
from streamcal.memories.windows import CountWindow
from streamcal.parameters.inputs import LARGEST_WEIGHT
from streamcal.parameters.scales import LOGIT_LIMIT, Logit, Probability
from streamcal.parameters.types import FloatArray
from streamcal.states import (
    HEAVIEST,
    ROUNDING,
    Fields,
    Reader,
    Rows,
    ensure,
    flag,
    listed,
    number,
    numbers,
    record,
    row,
    unread,
    whole,
)
from streamcal.statistics.bernstein_moments import BernsteinMoments
from streamcal.statistics.score_tree import ScoreTree

#: Knots in a unit of log-odds. Between two, log-odds are linear: a sigmoid map is exact, and of any other the log loss
#: is off by at most (1/8)²/32 of the square of its slope.
KNOTS_A_UNIT = 8
KNOTS: FloatArray = np.linspace(-LOGIT_LIMIT, LOGIT_LIMIT, round(2 * LOGIT_LIMIT * KNOTS_A_UNIT) + 1)
SCORES: FloatArray = sigmoids(KNOTS)

#: Observations in the window of the isotonic experts; half-life of the sums of the Bernstein polynomial.
MEMORY = 1_000
DEGREE = 12
#: The curves of the isotonic and the Bernstein expert are fitted again after so many observations.
REFRESH = 64
#: Places of the experts that are curves.
CURVES = [PLACES[expert.name] for expert in EXPERTS if expert.kind in (Kind.CURVE, Kind.WHOLE)]
#: As in the kernel: scores in the first mean, and the largest unit of a smoother.
FIRST, FULL = 10, 1e100
#: A of a regression sums up to 10⁶-fold observations, and the squares of features up to 16; it fades towards A₀. θ
#: moves while a forecast is within log-odds ±16.
LARGEST_CURVATURE, SMALLEST_CURVATURE, LARGEST_COORDINATE = 1e25, 1e-12, 1e9


class ExpertPanel:
    """Every expert, at one state of knowledge. `delay` is the label delay, in observations.

    O(1) per observation, and now and then a fit at 257 knots; memory for the last 1,000 observations. `kernel` does
    what every observation needs; here is what few need.
    """

    def __init__(self, delay: int) -> None:
        self._delay = delay
        self._panel = _panel(delay)
        self._jumper = new_jumper()
        self._tree = ScoreTree(scale=Logit())
        self._scores = RecentScores(self._tree.tree, MEMORY, OUTWEIGHING, OUTWEIGHING_ONE)
        self._sums = BernsteinMoments(DEGREE, Probability())
        self._moments = FadingMoments(self._sums.sums, MEMORY, RESCALE_HALF_LIVES)
        self._qp = MonotoneQP(DEGREE)
        self.kernel = Experts(
            panel=self._panel,
            jumper=self._jumper,
            scores=self._scores,
            moments=self._moments,
            knots_a_unit=KNOTS_A_UNIT,
            every=REFRESH,
            draw=self._draw,
            draw_whole=self._draw_whole,
            sum_anew=self._sum_anew,
        )

    def forecast(self, knot: int, out: FloatArray) -> None:
        """Write the log-odds of each expert at a knot to `out`, at its place in `PLACES`."""
        self.kernel.forecast(knot, out)

    def _draw(self) -> None:
        """Fit the curves of the smooth isotonic and of the Bernstein expert again."""
        _, _, centre, value = self._tree.centred_blocks()
        smooth = values_at(KNOTS, centre, value, *slopes(centre, value))
        self._panel.draw_beside_the_score(PLACES["smooth-isotonic"], smooth, self._tree.n)
        sums = self._sums.sums
        if self._qp.solve(sums.moments, sums.cross, sums.weight) == SOLVED:  # else the last curve stays
            polynomial = evaluate_many(self._qp.coefficients, SCORES)
            self._panel.draw_beside_the_score(PLACES["bernstein"], polynomial, self._moments.n)

    def _draw_whole(self) -> None:
        """Fit the curve of all observations again."""
        negative, positive = np.asarray(self.kernel.whole)
        held = np.flatnonzero(negative + positive)
        tree = ScoreTree(scale=Logit())
        tree.add_sorted(KNOTS[held], (negative + positive)[held], positive[held], np.ones(len(held), dtype=np.int64))
        lower, upper = tree.intervals(KNOTS, 1.0)
        with np.errstate(divide="ignore"):  # of weights that are 1e16 times that of an observation
            self._panel.draw(PLACES[WHOLE], np.log(upper) - np.log1p(-lower))
        self._panel.drawn = True

    def _sum_anew(self) -> None:
        """Make the tree of the recent scores anew, without the rounding errors of what has left it."""
        self._tree.restore(self._tree.empty().state())
        self._tree.update_many(*self._scores.held().T.copy())
        self._scores.summed_anew()

    def state(self) -> dict[str, Any]:
        """Everything learned, as plain data, for `restore`.

        Recent scores and moments are written as the memories write theirs.
        """
        nothing = {"missed": 0, "late": 0}
        moments, tree = self._sums.state(), self._tree.state()  # of a tree that may find its sums exact
        sums = {"sums": [self._scores.evicted, tree]} if self._tree.drifts else {}
        clock = {"clock": self._moments.clock, "landmark": 0.0, "halvings": self._moments.halvings}
        return {
            "panel": self._panel.state(),
            "jumper": list(self._jumper.state()),
            "window": {**nothing, "buffer": Rows(list(self._scores.held().T)), **sums},
            "decay": {**nothing, **clock, "statistic": moments},
            "whole": {
                "sums": np.asarray(self.kernel.whole).tolist(),
                "labels": [self.kernel.negatives, self.kernel.positives],
                "due": self.kernel.due,
            },
            "learned": self.learned,
            "active": list(self._qp.active_set()),
        }

    def restore(self, state: Any) -> None:
        """Take over what `state` wrote; called on a new panel. `StateError` for anything else."""
        fields = {
            "panel": record(self._panel_fields(), {"ahead": whole()}),
            "jumper": jumper_state(),
            "learned": whole(),
        }
        active = row(listed(whole(0, DEGREE), most=DEGREE + 1), flag)
        sums = numbers(2, len(KNOTS), least=0.0, most=HEAVIEST)
        later = {"active": active, "whole": record({"sums": sums, "labels": row(whole(), whole()), "due": whole()})}
        read = record({**fields, "window": unread, "decay": unread}, later)(state)
        panel, learned = read["panel"], read["learned"]
        if read["whole"] is None:  # of an earlier version
            panel["curves"] = np.vstack([panel["curves"], np.zeros(len(KNOTS))])
        ensure(len(panel["curves"]) == len(CURVES), "another number of curves")
        ensure(panel["learned"] == learned, "the numbers of observations differ")
        ensure(panel["first"][0] <= min(FIRST, learned), "more scores are in the first mean than were learned")
        ensure(panel["ahead"] is None or self._delay == 0, "the delay is known twice")
        ensure((panel["ahead"] or 0) <= learned, "a label is later than there are labels")
        self._panel.load(panel)
        self._jumper.load(*read["jumper"])
        window, decay = CountWindow(self._tree, None, MEMORY), CountDecay(self._sums, None, MEMORY)
        window.restore(read["window"])
        decay.restore(read["decay"])
        ensure(self._tree.count == min(learned, MEMORY), "the window holds another number of observations")
        self._scores.load(*window.held())
        self._moments.load(decay.clock, decay.halvings)
        self.kernel.learned = learned
        self._restore_whole(read["whole"])
        if read["active"] is not None:
            self._qp.set_active_set(*read["active"])

    def _restore_whole(self, saved: dict[str, Any] | None) -> None:
        """Take over what was saved of all observations; of an earlier version there are recent ones alone."""
        kernel, held = self.kernel, np.asarray(self.kernel.whole)
        if saved is None:
            x, y, w = self._scores.held().T
            np.add.at(held, (y.astype(int), np.searchsorted(KNOTS, x)), w)
            kernel.positives = int(y.sum())
            kernel.negatives = len(y) - kernel.positives
            kernel.fit_whole()
            return
        sums, (negatives, positives), due = saved["sums"], saved["labels"], saved["due"]
        ensure(negatives + positives <= kernel.learned, "there are more labels than observations")
        ensure(((sums.sum(axis=1) > 0.0) == [negatives > 0, positives > 0]).all(), "labels and their weights differ")
        ensure(due == 0 or due > kernel.learned, "a curve was to be fitted before")
        held[:] = sums
        kernel.negatives, kernel.positives, kernel.due = negatives, positives, due
        self._panel.drawn = due > 0

    @property
    def late(self) -> int:
        """How many labels ahead is forecast: as many as the last ones were late."""
        return int(self._panel.ahead)

    @property
    def learned(self) -> int:
        """Number of observations learned."""
        return int(self.kernel.learned)

    def _panel_fields(self) -> Fields:
        """What reads the state of the kernel."""
        knots, smoothers = len(KNOTS), len(of_kind(Smoother))
        means = numbers(len(LABEL_MEANS), least=-1.0 - ROUNDING, most=1.0 + ROUNDING)
        regressions = [regression_state(kind.made().size) for kind in of_kind(Regression)]
        return {
            "trackers": row(*regressions),
            "means": means,
            "then": means,
            "waiting": listed(row(number(0.0, 1.0), number(0.0, LARGEST_WEIGHT)), length=self._delay),
            "learned": whole(),
            "first": row(whole(0, FIRST), number(-FIRST * LOGIT_LIMIT, FIRST * LOGIT_LIMIT)),
            "units": numbers(smoothers, least=1.0, most=FULL),
            "sums": numbers(smoothers, 2, knots, least=0.0, most=HEAVIEST * FULL),
            "curves": numbers(None, knots, least=-LOGIT_LIMIT, most=LOGIT_LIMIT),
        }


def of_kind(kind: type) -> list[Any]:
    """The kinds of all experts that are of this type, in their order."""
    return [expert.kind for expert in EXPERTS if isinstance(expert.kind, kind)]


def regression_state(size: int) -> Reader:
    """What reads the state of a `ForgettingRegression` of so many coordinates: θ, and a symmetric A."""
    most = LARGEST_CURVATURE
    reader = row(
        numbers(size, least=-LARGEST_COORDINATE, most=LARGEST_COORDINATE), numbers(size, size, least=-most, most=most)
    )

    def read(value: Any) -> tuple[FloatArray, FloatArray]:
        theta, a = reader(value)
        diagonal = np.diag(a)
        ensure((diagonal >= SMALLEST_CURVATURE).all(), "a curvature is too small")
        root = np.sqrt(diagonal)
        scaled = a / np.outer(root, root)
        ensure((np.abs(scaled - scaled.T) <= ROUNDING).all(), "a curvature is not symmetric")
        ensure(np.linalg.eigvalsh(scaled)[0] >= -ROUNDING, "a curvature is below 0")
        return theta, a

    return read


def _panel(delay: int) -> Panel:
    """The kernel of the experts in the table."""
    kinds = {PLACES[expert.name]: expert.kind for expert in EXPERTS}
    alone = {kind: place for place, kind in kinds.items() if isinstance(kind, Kind)}
    return Panel(
        regressions={place: kind.made() for place, kind in kinds.items() if isinstance(kind, Regression)},
        smoothers={place: tuple(kind) for place, kind in kinds.items() if isinstance(kind, Smoother)},
        curves=CURVES,
        whole=PLACES[WHOLE],
        until_drawn=PLACES[BEGINS],
        interval=alone[Kind.VENN_ABERS],
        protected=alone[Kind.PROTECTED],
        score=alone[Kind.SCORE],
        anchor=PLACES[ANCHOR],
        anchored=ANCHORED,
        label_rates=list(LABEL_MEANS.values()),
        knots_a_unit=KNOTS_A_UNIT,
        delay=delay,
    )
