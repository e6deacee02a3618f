"""`OnlinePlatt`: Platt scaling on a stream, at every memory or by the online Newton step of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamcal.calibrators.newton import INITIAL_CURVATURE, new_newton, newton_state
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.errors import InputError
from streamcal.kernels.mixture.line_ladder import LineLadder
from streamcal.maps.sigmoids import SigmoidMap, SigmoidMixtureMap
from streamcal.parameters.inputs import check_score
from streamcal.parameters.numbers import real_number
from streamcal.parameters.scales import LOGIT_LIMIT, Logit
from streamcal.parameters.types import Label, Time, Times
from streamcal.states import HEAVIEST, ROUNDING, Reader, ensure, number, numbers, row, weight_scale_state

#: The memories of the lines in units of information, 4p(1 − p) a label; 0 is all, and −0.2 a fifth of what was learned.
MEMORIES = (0.0, -0.2, 10.0, 100.0, 1e3, 1e4, 1e5)
#: The line that forgets a fifth counts for four: with late labels there is little evidence which memory is right.
MEMORY_PRIOR = (1.0, 4.0, 1.0, 1.0, 1.0, 1.0, 1.0)
#: A line whose coefficients are larger has left every score.
LARGEST_COEFFICIENT = 1e9
#: As in the kernel: a line enters when the information learned is this part of its memory.
ENTERS = 0.1


class OnlinePlatt(SequentialCalibrator):
    """Online Platt scaling: p = Σ vₖ·σ(aₖ·logit(s) + bₖ), a mixture of sigmoid maps with memories of many lengths.

    The maps are lines in log-odds. Five forget within 10, 100, 10³, 10⁴ and 10⁵ units of information, one remembers the
    last fifth of all information, and one forgets nothing. A label counts 4p(1 − p) units if p was predicted: 1 at even
    odds. Each outcome moves all lines by a Newton step, and multiplies the weight vₖ of each by the probability that it
    gave. The line of memory m enters after m/10 units. All lines start at the score, with a prior worth one event at
    the scores so far.

    With a `discount`, it is online Platt scaling (OPS) as published: one line, moved by the online Newton step. With
    z = (logit s, 1), g = (p − y)·z:  A ← A + r·g gᵀ,  θ ← Π_A(θ − r·A⁻¹ g / γ), Π_A being the projection on the ball
    of radius 100 in the norm of A. γ = 0.1 and A₀ = 100·I. It starts at the identity (1, 0), which is ours; the
    authors' code starts at (0, 0). r is the relative weight.

    Slopes may become negative, so the map need not be monotone.

    Parameters
    ----------
    discount : float or None
        None, the default, for every memory; 1 for OPS. Below 1, 0 excluded, OPS follows drift with a memory of about
        1/(1 − d) observations: A ← d·A + (1 − d)·A₀ + r·g gᵀ. What A knew fades back to A₀, which keeps every step
        bounded.

    Notes
    -----
    **Cost.** O(1) per observation, scalar arithmetic: 0.4 µs to predict and learn, 0.2 µs a row in
    `predict_learn_many`; half of that with a `discount`. The kernel's object takes 0.6 kB. log s and log(1 − s) are
    clamped at log-odds ±16 (`Logit`).

    **Weights.** A weight counts relative to the running mean of all weights, so that multiplying all weights by one
    number changes nothing. A heavy observation is learned in several steps, each at its own prediction, which do not
    overshoot (Karampatziakis and Langford, Online importance weight aware updates, UAI 2011).

    **Late labels.** With `issue` and `settle`, and in a `LabelJoin`, a label judges what each line predicted when the
    prediction was issued, at the learning rate (1 + d)^-5/8, d being the information learned since. Late labels also
    draw slopes towards 1, since scores may have moved to places without labels. In a loop of `predict_one` and
    `learn_one`, a label judges the present predictions. If labels are late and persist, these favour short memories too
    much: issue and settle, or give a `discount`.

    **Memory.** With labels in time, the summed log loss exceeds that of a line by at most ln(1/prior) + ln(1 + U/10⁴)
    nats after U units of information. A sequence of k changes between N lines costs about k·(ln U + ln N) nats more.
    `kernels.mixture.late_weights.LateWeights` has the bound.

    References
    ----------
    Gupta and Ramdas, Online Platt scaling with calibeating, ICML 2023, algorithm 1. Raftery, Kárný and Ettler, Online
    prediction under model uncertainty via dynamic model averaging, Technometrics 52, 2010: the mixture.

    Examples
    --------
    >>> cal = OnlinePlatt()
    >>> round(cal.predict_one(0.8), 12)
    0.8
    >>> for _ in range(200):
    ...     cal.learn_one(0.8, False)
    >>> cal.predict_one(0.8) < 0.05
    True
    """

    name = "online-platt"
    summary = "online Platt scaling at every memory, O(1), follows drift"
    monotone = False

    def __init__(self, *, discount: float | None = None) -> None:
        self.discount = discount
        if discount is not None:
            allowed = "a number above 0 and at most 1, or None for every memory"
            self.discount = real_number(discount, "discount", allowed, above=0.0, most=1.0)
        self.scale = Logit()
        self._ladder: LineLadder | None = None
        if self.discount is None:
            self._kernel = self._ladder = LineLadder(MEMORIES, MEMORY_PRIOR, LOGIT_LIMIT)
        else:
            self._kernel = new_newton((1.0, 0.0), INITIAL_CURVATURE, self.discount)
        super().__init__()

    def map(self) -> SigmoidMap | SigmoidMixtureMap:
        if self._ladder is None:
            return SigmoidMap(self.scale, *self._kernel.parameters())
        weights, slopes, offsets = self._ladder.lines()
        return SigmoidMixtureMap(self.scale, np.array(weights), slopes, offsets)

    def _learn_at_once(self, x: float, keys: Any, y: Label, w: float, t: Time | None) -> None:
        self.learn_one(x, y, w, t)  # a label in time judges the present prediction

    def _learn_many_at_once(
        self, scores: ArrayLike, keys: Any, y: ArrayLike, w: ArrayLike | None, t: Times | None
    ) -> None:
        self.learn_many(scores, y, w, t)

    def _issue(self, x: float, t: float) -> list[float] | None:
        return None if self._ladder is None else self._ladder.issue(x)

    def _learn_issued(self, x: float, y: float, w: float, t: float, record: Sequence[float] | None) -> None:
        if self._ladder is None or record is None:
            self._learn(x, y, w, t)
        elif w > 0.0:
            self._ladder.learn_issued(x, y, w, _record(record))

    # A join keeps the record as bytes, which are read beside the probability issued, or hold it too.

    def _issue_packed(self, score: float, t: Time | None, apart: bool) -> tuple[float, bytes | None]:
        """Predict at a score; return the bytes of what the label will judge, which need nothing else if `apart`."""
        if self._ladder is None:
            return self.predict_one(score, t), None
        content = self._ladder.issue_bytes(self.scale.coordinate(check_score(score)), apart)
        return self._ladder.issued, content

    def _unpacked(self, x: float, p: float, content: bytes) -> list[float]:
        """Return the record that `_issue_packed` returned for the prediction p at the log-odds x."""
        record: list[float] = [] if self._ladder is None else self._ladder.unpacked(content, p)
        if not record:
            raise InputError(f"{len(content)} bytes are not what was issued with a prediction")
        return record

    def _column_steps(self) -> Any:
        return self._kernel

    def _require_issued(self, record: Sequence[float] | None) -> None:
        if self._ladder is not None and record is not None:
            _record(record)

    def _kernel_state(self) -> Reader:
        return newton_state(2, INITIAL_CURVATURE) if self._ladder is None else ladder_state


def _record(numbers: Sequence[float]) -> list[float]:
    """Return the issued numbers; raise `InputError` if no `_issue` can have returned them."""
    record = [float(number) for number in numbers]
    known = len(record) == len(MEMORIES) + 2 and 0.0 <= record[0] <= HEAVIEST
    if not (known and all(0.0 <= p <= 1.0 for p in record[1:])):
        raise InputError(f"these are not the numbers that were issued with the prediction: {record}")
    return record


def ladder_state(value: Any) -> list[Any]:
    """Check the state of a `LineLadder`; `StateError` if no ladder can have it."""
    coefficients, mass = numbers(None, least=-LARGEST_COEFFICIENT, most=LARGEST_COEFFICIENT), number(0.0, HEAVIEST)
    read = row(
        coefficients,
        coefficients,
        numbers(None, least=-HEAVIEST, most=HEAVIEST),
        numbers(None, least=0.0, most=1.0 + ROUNDING),
        numbers(3, least=-HEAVIEST, most=HEAVIEST),
        row(mass, mass),
        weight_scale_state,
    )(value)
    slopes, offsets, curvatures, weights, places, (_, information), _ = read
    lines = sum(information >= ENTERS * memory for memory in MEMORIES)
    sizes = [len(slopes), len(offsets), len(curvatures), len(weights)]
    ensure(sizes == [lines, lines, 3 * lines, lines], f"{information} units of information let {lines} lines enter")
    ensure(abs(weights.sum() - 1.0) <= ROUNDING, "the weights do not sum to 1")
    for sums in (*curvatures.reshape(lines, 3), places):
        ensure(min(sums[0], sums[2]) >= 0.0, "a sum of squares is below 0")
        ensure(sums[1] ** 2 <= sums[0] * sums[2] * (1.0 + ROUNDING) + ROUNDING, "a sum of products is not possible")
    ensure((places[0] > 0.0) == (information > 0.0), "the places are of other information")
    return list(read)
