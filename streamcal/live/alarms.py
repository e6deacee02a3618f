"""`Alarm`: the result of a monitor, and the bets that tell what has moved."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from streamcal.kernels.mixture.change_bets import ChangeBets

#: A field and its level, such as ("campaign", "c17").
Segment = tuple[str, str | int]

#: The bets: log-odds higher or lower by up to 1, or up to 2.5 times as far from their mean, and their priors. For
#: distributions: normal scores shifted by as much, or with up to 2.5 times the standard deviation. Chosen on other
#: streams than those of `docs/monitors_measured.md`; delays hardly depend on them.
LEVELS = (-1.0, -0.5, -0.25, 0.25, 0.5, 1.0) + 6 * (0.0,)
SLOPES = 6 * (0.0,) + (-0.6, -0.4, -0.2, 0.25, 0.6, 1.5)
PRIOR = 2 * (1 / 16, 2 / 16, 1 / 16, 1 / 16, 2 / 16, 1 / 16)
#: The prior probability that predictions are wrong from the start, and the number of outcomes by which half of the
#: later changes have come. Chosen on the same streams, for changes from the start and after thousands of outcomes.
IMMEDIATE, HORIZON = 0.25, 2000.0

#: What each bet bets on.
KINDS: tuple[tuple[Literal["level", "slope"], Literal["higher", "lower"]], ...] = tuple(
    ("level" if level else "slope", "higher" if level + slope > 0.0 else "lower")
    for level, slope in zip(LEVELS, SLOPES, strict=True)
)
#: What the bets bet on where outcomes are normal scores.
OF_SCORES: dict[Literal["level", "slope"], Literal["location", "spread"]] = {"level": "location", "slope": "spread"}
#: What each kind of change means, in messages.
MEANING = {
    ("location", "higher"): "outcomes are higher than predicted",
    ("location", "lower"): "outcomes are lower than predicted",
    ("spread", "higher"): "outcomes scatter more than predicted (distributions are too narrow)",
    ("spread", "lower"): "outcomes scatter less than predicted (distributions are too wide)",
    ("level", "higher"): "events are more frequent than predicted",
    ("level", "lower"): "events are rarer than predicted",
    ("slope", "higher"): "predictions differ too little (slope above 1)",
    ("slope", "lower"): "predictions differ too much (slope below 1)",
    ("certainty", "higher"): "an event of probability 0 came",
    ("certainty", "lower"): "an event of probability 1 did not come",
}


class Alarm(NamedTuple):
    """An alarm: the kind of change, the segment, the direction, and the start.

    Parameters
    ----------
    segment : tuple or None
        Field and level, such as ("campaign", "c17"); None for all outcomes together.
    moved : {"level", "slope", "certainty", "location", "spread"}
        The frequency of events; how strongly they depend on the prediction; or an outcome whose probability was 0. Of
        distributions: where outcomes lie, or how far they scatter.
    direction : {"higher", "lower"}
        Whether the moved quantity is above or below the prediction. An overconfident model has a "lower" slope, or a
        "higher" spread.
    since : int
        The number of the outcome, counted from 1 over all segments, at which the change most probably began.
    n : int
        The number of the outcome at which the alarm was raised.
    e_value : float
        The e-value at the alarm (the value of the e-detector, with `run_length`); infinite for "certainty".

    Examples
    --------
    >>> print(Alarm(("campaign", "c17"), "level", "higher", 5012, 5890, 412.6))
    events are more frequent than predicted where campaign is 'c17', since outcome 5012 (e-value 413 at outcome 5890)
    """

    segment: Segment | None
    moved: Literal["level", "slope", "certainty", "location", "spread"]
    direction: Literal["higher", "lower"]
    since: int
    n: int
    e_value: float

    def __str__(self) -> str:
        where = f" where {self.segment[0]} is {self.segment[1]!r}" if self.segment else ""
        evidence = f"since outcome {self.since} (e-value {self.e_value:.3g} at outcome {self.n})"
        return f"{MEANING[self.moved, self.direction]}{where}, {evidence}"


def new_bets(restarting: bool) -> ChangeBets:
    """Return a new e-process, or a new detector that restarts at every outcome."""
    return ChangeBets(LEVELS, SLOPES, PRIOR, IMMEDIATE, 0.0 if restarting else HORIZON)


def stepped(bets: ChangeBets, p: float, y: float | None, now: int) -> float:
    """Update bets by the label y of the probability p, or by the normal score p if y is None; return their value."""
    return float(bets.step_score(p, now) if y is None else bets.step(p, y, now))


def alarm_of(bets: ChangeBets, segment: Segment | None, p: float, of_scores: bool, n: int) -> Alarm:
    """Return the alarm of bets that have won after outcome number n, whose prediction or normal score was p.

    The kind of change is the one whose bets have the most wealth together. The change starts where the bet of this
    kind with the largest product of likelihood ratios starts.
    """
    if bets.contradicted:
        return Alarm(segment, "certainty", "higher" if p <= 0.0 else "lower", n, n, bets.value())
    wealth, (longest, since) = np.array(bets.wealth()), bets.runs()
    of_kind = {kind: np.array([other == kind for other in KINDS]) for kind in KINDS}
    moved, direction = kind = max(of_kind, key=lambda one: float(wealth[of_kind[one]].sum()))
    best = int(np.argmax(np.where(of_kind[kind], longest, 0.0)))
    what = OF_SCORES[moved] if of_scores else moved
    return Alarm(segment, what, direction, int(since[best]), n, bets.value())
