"""`DelayCurve`: the share of clicks that are known early, estimated while later clicks are still missing."""

from __future__ import annotations

import math
from typing import Any, Self

from streamcal.kernels.pending.pending_steps import CLICKS
from streamcal.states import ensure, flag, numbers, record, whole

#: Cells of the delays from `early` to `horizon`, evenly spaced in their logarithm.
CELLS = 8
#: In every cell, the weight in clicks of the share that was expected. Eight such cells are worth some two clicks.
PRIOR_CLICKS = 2.0
#: The smallest part of the clicks of a delay up to the end of a cell that is earlier than the cell: shares are divided
#: by, and cells in which all clicks lie would make them 0.
LEAST = 0.05
#: Below the first share, labels are learned at the horizon, since early ones tell too little; above the second, early
#: again.
TOO_FEW, ENOUGH = 0.1, 0.2
#: Labels are not learned early before the share rests on this many clicks at each age, up to the horizon. Until then a
#: small share cannot be told from scores that are far too high. Ten, which have faded a little.
FIRST_CLICKS = 9.9


class DelayCurve:
    """The share S of the clicks known within `horizon` seconds that are known within `early` seconds.

    The delay of a click is the time until it is known to the join, which is when early labels are learned. A click is
    seen only if its delay is no longer than the age of its impression: delays are truncated on the right. So the
    estimate is the Kaplan–Meier product in reversed time. With cells of delays (eₖ₋₁, eₖ], e₀ = early and
    e_K = horizon,

        S = Πₖ (1 − Dₖ/Nₖ),

    Nₖ being the number of clicks with a delay up to eₖ and Dₖ those of them in the cell, of impressions older than eₖ.
    It does not depend on how traffic is spread over the day, and every cell is estimated as soon as impressions have
    its age. Sums fade with the clicks that are added.

    While `waits` is True, labels are learned at the horizon: at first, until 10 clicks are known of each cell and S is
    above 0.2, and whenever S has fallen below 0.1, until it is above 0.2 again.

    Parameters
    ----------
    early, horizon : float
        Seconds, 0 < early < horizon.
    expected : float
        The share before any click, 0 < expected < 1.

    Notes
    -----
    Each factor has a beta posterior whose prior has the mean that makes the product of the inverses 1/expected, and the
    weight of `PRIOR_CLICKS`. Cost: O(1) a click and cell, O(cells) for the share.

    References
    ----------
    S. W. Lagakos, L. M. Barraj and V. De Gruttola, Nonparametric analysis of truncated survival data, with application
    to AIDS, Biometrika 75, 1988.

    Examples
    --------
    >>> curve = DelayCurve(900.0, 21_600.0, 0.75)
    >>> round(1.0 / curve.inverse, 12)
    0.75
    >>> for _ in range(100):  # of 100 clicks each, 99 came before the cell and one in it
    ...     for cell in range(1, len(curve.edges)):
    ...         for click in range(100):
    ...             curve.add(cell, inside=click == 50)
    >>> round(0.99**8, 2), round(1.0 / curve.inverse, 2)
    (0.92, 0.92)
    """

    def __init__(self, early: float, horizon: float, expected: float) -> None:
        step = math.log(horizon / early) / CELLS
        self.edges = [early * math.exp(k * step) for k in range(CELLS)] + [horizon]
        self._before = PRIOR_CLICKS * expected ** (1.0 / CELLS)
        self._keep = math.exp(-1.0 / CLICKS)
        self._known = [0.0] * (CELLS + 1)  # Nₖ, and Dₖ below; the first is not used
        self._inside = [0.0] * (CELLS + 1)
        self._inverses = [1.0] * (CELLS + 1)  # Nₖ/(Nₖ − Dₖ)
        for cell in range(1, CELLS + 1):
            self._divide(cell)
        self.waits = True  #: whether labels are learned at the horizon
        self.since = 0  #: the number of the first prediction that was issued since `waits` last changed

    def add(self, cell: int, inside: bool) -> None:
        """Add a click of an impression older than the end of the cell, whose delay is in the cell or before it."""
        self._known[cell] = self._known[cell] * self._keep + 1.0
        self._inside[cell] = self._inside[cell] * self._keep + inside
        self._divide(cell)

    def _sums(self, cell: int) -> tuple[float, float]:
        """Return the clicks known of a cell, and those before the cell; both with the prior."""
        known, inside = self._known[cell], self._inside[cell]
        return known + PRIOR_CLICKS, known - inside + self._before

    def _divide(self, cell: int) -> None:
        """Compute the factor of 1/S of a cell."""
        known, before = self._sums(cell)
        self._inverses[cell] = known / max(before, LEAST * known)

    @property
    def inverse(self) -> float:
        """The posterior mean of 1/S: by this the rate of early clicks is multiplied."""
        return math.prod(self._inverses)

    @property
    def factor(self) -> float:
        """The share of clicks that the labels learned now have; of labels learned at the horizon, 1."""
        return 1.0 if self.waits else 1.0 / self.inverse

    @property
    def hold(self) -> float:
        """The age, in seconds, at which labels are learned now."""
        return self.edges[-1] if self.waits else self.edges[0]

    @property
    def has_few(self) -> bool:
        """Whether the share is too small for early labels, as 10 clicks or more show."""
        return 1.0 / self.inverse < TOO_FEW and max(self._known) >= FIRST_CLICKS

    def turn(self, number: int) -> None:
        """Decide when labels are learned; `number` is that of the next prediction."""
        share = 1.0 / self.inverse
        if (share >= ENOUGH and min(self._known[1:]) >= FIRST_CLICKS) if self.waits else share < TOO_FEW:
            self.waits, self.since = not self.waits, number

    def share(self) -> tuple[float, float]:
        """Return 1/`inverse`, and its standard error (Greenwood's formula)."""
        share = 1.0 / self.inverse
        sums = map(self._sums, range(1, CELLS + 1))
        terms = [(known - before) / (known * max(before, LEAST * known)) for known, before in sums]
        return share, share * math.sqrt(sum(terms))

    def state(self) -> dict[str, Any]:
        """Return plain data for `loaded`."""
        sums = {"known": self._known[1:], "inside": self._inside[1:]}
        return {**sums, "waits": self.waits, "since": self.since}

    @classmethod
    def loaded(cls, state: Any, early: float, horizon: float, expected: float) -> Self:
        """Return the curve with these parameters that `state` wrote; `StateError` for anything else."""
        sums = numbers(CELLS, least=0.0, most=CLICKS + 1.0)
        read = record({"known": sums, "inside": sums, "waits": flag, "since": whole()})(state)
        ensure((read["inside"] <= read["known"]).all(), "more clicks are in a cell than are known")
        curve = cls(early, horizon, expected)
        curve.waits, curve.since = read["waits"], read["since"]
        curve._known, curve._inside = [0.0, *read["known"].tolist()], [0.0, *read["inside"].tolist()]
        for cell in range(1, CELLS + 1):
            curve._divide(cell)
        return curve
