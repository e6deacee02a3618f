"""The goals of `auto`, and the results."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.streams.catalogue import DELAYS
from benchmarks.streams.standings import ONLINE_PLATT, RAW, REFERENCE, TRACKING_OPS, Course, Standings

#: In nats.
LARGEST_HARM = 0.002
SMALLEST_SHARE = 0.40
ELEC2, ELEC2_GOAL = "elec2 frozen", 0.36


class Goal(NamedTuple):
    """A goal, the result, and whether it is met."""

    what: str
    seen: str
    met: bool


def goals(standings: Standings) -> list[Goal]:
    """Return the goals that can be evaluated on the given courses."""
    found = [_first(standings, "log_loss", "log loss"), _first(standings, "brier", "Brier score")]
    found += [_harmless(standings, against) for against in (RAW, ONLINE_PLATT)]
    found.append(_calibrated(standings))
    if standings.median_gap_closed(REFERENCE, 0) is not None:
        found.append(_gap(standings))
    if (ELEC2, 0) in standings.courses:
        found += _elec2(standings)
    return found


def _first(standings: Standings, measure: str, words: str) -> Goal:
    ranks = standings.mean_ranks(measure)
    best = min(ranks, key=lambda entrant: ranks[entrant])
    seen = f"{ranks[REFERENCE]:.1f}" + ("" if best == REFERENCE else f"; {best} has {ranks[best]:.1f}")
    return Goal(f"best mean rank in {words}", seen, best == REFERENCE)


def _harmless(standings: Standings, against: str) -> Goal:
    worst = standings.worst_harm(REFERENCE, against)
    assert worst is not None
    words = "the raw score" if against == RAW else f"`{against}`"
    seen = f"{worst[0]:+.4f}, {_words(worst[1])}"
    return Goal(f"nowhere more than {LARGEST_HARM} nats worse than {words}", seen, worst[0] <= LARGEST_HARM)


def _calibrated(standings: Standings) -> Goal:
    above = [course for course in standings.courses if standings.less_calibrated(course)]
    words = ": " + "; ".join(map(_words, above)) if above else ""
    seen = f"above on {len(above)} of {len(standings.courses)} courses{words}"
    return Goal(f"debiased calibration error not significantly above that of `{TRACKING_OPS}`", seen, not above)


def _gap(standings: Standings) -> Goal:
    """Judge the gap in all draws, since one draw of a small gap is mostly noise; without them, that of the first."""
    pooled, first = (
        [standings.median_gap_closed(REFERENCE, delay, in_all_draws) for delay in DELAYS]
        for in_all_draws in (True, False)
    )
    judged = first if None in pooled else pooled
    met = all(median is not None and median >= SMALLEST_SHARE for median in judged)
    what = f"generators: at least {100 * SMALLEST_SHARE:.0f} % of the gap closed, median of the settings"
    all_draws = "" if judged is first else f"all draws: {_percents(pooled)}; "
    return Goal(what, f"{all_draws}the first: {_percents(first)}", met)


def _percents(shares: list[float | None]) -> str:
    """Write the share at each delay."""
    return ", ".join(
        f"{'–' if share is None else f'{100 * share:.1f} %'} at delay {delay}"
        for share, delay in zip(shares, DELAYS, strict=True)
    )


def _elec2(standings: Standings) -> list[Goal]:
    """Delay 0 against a figure, delay 48 against every other entrant."""
    now, late = ((ELEC2, delay) for delay in (0, 48))
    loss, loss_late = (standings.get(course, REFERENCE, "log_loss") for course in (now, late))
    best = standings.best_other(late)
    theirs = standings.get(late, best, "log_loss")
    assert loss is not None
    assert loss_late is not None
    assert theirs is not None
    return [
        Goal(f"{ELEC2}: at most {ELEC2_GOAL} at delay 0", f"{loss:.4f}", loss <= ELEC2_GOAL),
        Goal(
            f"{ELEC2}: better than every rival at delay 48", f"{loss_late:.4f}; {best} {theirs:.4f}", loss_late < theirs
        ),
    ]


def _words(course: Course) -> str:
    return f"{course[0]}, delay {course[1]}"
