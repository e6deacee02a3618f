"""What `Auto` loses in the 300 steps after an abrupt change, and how much less if it is told that there was one.

    python -m benchmarks.recovery

Streams: `abrupt` of `streamcal.datasets.synthetic` (a development stream of the race), and four whose scores are
calibrated up to the change; ten draws of each, 5,000 rows, with the change in the middle; up to 93 rows are left out in
front, so that no draw changes at the place of another in the schedule of what begins anew. The loss is the expected log
loss above that of the oracle, Σ KL(oracle ‖ forecast), in nats. At the change, parts of an `Auto` without lines
that begin anew are put back to how a new one starts. The last rows are told nothing: such an `Auto` is mixed with whole
ones that begin anew again and again, and are given a small part of all weight each time; and `Auto` as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.environment import require_compiled

DRAWS, ROWS, CHANGE, AFTER = 10, 5_000, 2_500, 300
#: Parts of the state of the mixtures, in its order.
PARTS = ("experts", "stacked", "corrected", "stack", "by score", "by forecast", "switch")
#: Log-odds of the weight of the score: it has none.
SWITCHED = -1e300
#: What is begun anew at the change: the experts (`panel`), specialists, and parts of the mixtures.
TOLD: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "weights": ("experts", "stacked", "corrected", "switch"),
    "stack, corrections and their weights": ("stack", "by score", "by forecast", "stacked", "corrected"),
    "experts": ("panel",),
    "all but weights": ("panel", "stack", "by score", "by forecast", "specialists"),
    "all": ("panel", "specialists", *PARTS),
    "all, and the score has no weight": ("panel", "specialists", *PARTS),
}
#: `Auto` is begun anew every so many steps, in the steps from `FROM` on; the weight given in each step.
FROM, EVERY, RATE = 1_500, 10, 1e-4

#: Name → log-odds of the probability after the change, of the log-odds of the score.
CHANGES: dict[str, Callable[[Any], Any]] = {
    "offset −1.2": lambda x: x - 1.2,
    "slope .4": lambda x: 0.4 * x,
    "slope −.6": lambda x: -0.6 * x,
    "a wave": lambda x: 2.0 * np.cos(1.5 * x) - 0.5,
}


def streams() -> Iterator[tuple[str, int, Any, Any, Any]]:
    """Name, the place of the change, scores, labels, and probabilities of each stream."""
    for count, (name, *columns) in enumerate(whole_streams()):
        left_out = 7 * count % 100
        yield name, CHANGE - left_out, *(column[left_out:] for column in columns)


def whole_streams() -> Iterator[tuple[str, Any, Any, Any]]:
    """Name, scores, labels, and probabilities of each stream, which changes at `CHANGE`."""
    from streamcal.datasets.synthetic import generate

    for draw in range(DRAWS):
        made = generate("abrupt", draw)
        yield "`abrupt`", made.scores, made.y, made.oracle
    for number, (name, after) in enumerate(CHANGES.items()):
        for draw in range(DRAWS):
            rng = np.random.default_rng([draw, 77, number])
            x = rng.normal(-0.5, 1.5, ROWS)
            p = sigmoids(np.where(np.arange(ROWS) < CHANGE, x, after(x)))
            yield name, sigmoids(x), rng.random(ROWS) < p, p


def sigmoids(z: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-z))


def regret(oracle: Any, p: Any) -> float:
    """Expected log loss of the first forecasts above that of the oracle, in nats."""
    o, q = (np.clip(one[:AFTER], 1e-9, 1.0 - 1e-9) for one in (oracle, p))
    return float(np.sum(o * np.log(o / q) + (1.0 - o) * np.log((1.0 - o) / (1.0 - q))))


def told(before: Any, anew: str) -> Any:
    """`Auto` after the change, with what is named begun anew."""
    from streamcal import Auto
    from streamcal.calibrators.auto.specialists import restored

    cal, state, new = Auto(), copy.deepcopy(before._state()), Auto()._state()
    for part in TOLD[anew]:
        if part == "panel":
            state["live"]["panel"] = new["live"]["panel"]
        elif part == "specialists":
            state["specialists"] = new["specialists"]
        else:
            state["live"]["mixture"][PARTS.index(part)] = new["live"]["mixture"][PARTS.index(part)]
    if anew.endswith("no weight"):
        state["live"]["mixture"][PARTS.index("switch")] = [SWITCHED]
    cal._live.restore(state["live"])
    restored(cal._last, state["specialists"]["now"])
    return cal


def mixed_with_autos(base: Any, scores: Any, y: Any) -> Any:
    """The forecasts `base`, mixed with those of an `Auto` that begins anew every `EVERY` steps; all are kept."""
    from streamcal import Auto

    said, weights = np.zeros((0, len(y))), np.array([1.0])
    mixed = base.copy()
    for i in range(len(y)):
        if i % EVERY == 0:
            begun = np.zeros(len(y))
            cal = Auto()
            *parts, _, lines, lined = cal._live._mixture.state()
            cal._live._mixture.load([*parts, [SWITCHED], lines, lined])
            begun[i:] = cal.predict_learn_many(scores[i:], y[i:])
            said = np.vstack([said, begun])
            weights = np.append(weights * (1.0 - RATE * EVERY), RATE * EVERY)
        p = np.append(base[i], said[:, i])
        mixed[i] = weights @ p
        weights *= p if y[i] else 1.0 - p
        weights /= weights.sum()
    return mixed


def measured(change: int, scores: Any, y: Any, oracle: Any) -> dict[str, float]:
    """What each variant loses after the change."""
    from streamcal import Auto

    later, near = slice(change, change + AFTER), slice(FROM, change + AFTER)
    with mock.patch("streamcal.calibrators.auto.mixture.ANEW_EVERY", 10**12):
        cal = Auto()
        base = cal.predict_learn_many(scores[:change], y[:change])
        found = {anew: told(cal, anew).predict_learn_many(scores[later], y[later]) for anew in TOLD}
        base = np.concatenate([base[FROM:], found["nothing"]])
        found["untold: all, every 10 steps"] = mixed_with_autos(base, scores[near], y[near])[-AFTER:]
    end = change + AFTER
    found["untold: `Auto()`"] = Auto().predict_learn_many(scores[:end], y[:end])[change:]
    return {name: regret(oracle[later], p) for name, p in found.items()}


def main() -> None:
    require_compiled()
    lost: dict[str, list[dict[str, float]]] = {}
    for name, *stream in streams():
        lost.setdefault(name, []).append(measured(*stream))
    print(f"| begun anew at the change | {' | '.join(lost)} |\n|---|{'---|' * len(lost)}")
    for anew in next(iter(lost.values()))[0]:
        cells = []
        for draws in lost.values():
            plain, now = (np.array([draw[which] for draw in draws]) for which in ("nothing", anew))
            error = (now if anew == "nothing" else now - plain).std(ddof=1) / len(now) ** 0.5
            gained = "" if anew == "nothing" else f", {100 * (now.mean() / plain.mean() - 1):+.0f} %"
            cells.append(f"{now.mean():.1f} ± {error:.1f}{gained}")
        print(f"| {anew} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
