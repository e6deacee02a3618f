"""Where the time of a step goes: the public verb, and the kernel calls in it by themselves, batch by batch in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.plan import Plan
from benchmarks.streams import Part, Stream
from benchmarks.timing import Subject, arrivals, race
from streamcal import Bernstein, OnlinePlatt, VennAbers
from streamcal.kernels.bernstein import BernsteinSums, evaluate
from streamcal.kernels.hull_tree import HullTree
from streamcal.kernels.logistic import logit
from streamcal.kernels.monotone_qp import MonotoneQP
from streamcal.kernels.online_newton import OnlineNewton

Step = Callable[[float, float, bool], Any]


class Calls(Subject):
    """One kind of call, timed alone. `before` and `after` bring what it needs and undo what it did, untimed."""

    def __init__(self, call: Step, before: Step | None = None, after: Step | None = None) -> None:
        self.call, self.before, self.after = call, before, after
        self.warm_up = 0

    def run(self, part: Part) -> None:
        call = self.call
        for query, score, y in part.steps:
            call(query, score, y)

    def settle(self, part: Part) -> None:
        for step in part.steps if self.after else ():
            self.after(*step)  # type: ignore[misc]


def profile(plan: Plan) -> list[dict[str, Any]]:
    """Seconds of each verb: through the public interface, of the kernel calls in it, and the difference in per cent."""
    rows = []
    for size in plan.profile_sizes:
        stream = Stream(size, arrivals(plan.rounds), plan.seed)
        rows += _compared(f"VennAbers, {size:,} scores", _tree_calls(stream), stream, plan.rounds)
    stream = Stream(20_000, arrivals(plan.rounds), plan.seed)
    for degree in (20, 50):
        rows += _compared(f"Bernstein, degree {degree}", _bernstein_calls(stream, degree), stream, plan.rounds)
    return rows + _compared("OnlinePlatt", _platt_calls(stream), stream, plan.rounds)


def _compared(what: str, calls: dict[str, tuple[Subject, Subject]], stream: Stream, rounds: int) -> list[dict[str, Any]]:
    subjects = {"wrapper": Calls(lambda query, score, y: None)}
    for verb, (public, kernel) in calls.items():
        subjects |= {f"{verb} public": public, f"{verb} kernel": kernel}  # type: ignore[dict-item]
    found = race(subjects, stream, rounds)
    wrapper = found["wrapper"].median  # the lambda around each call
    rows = []
    for verb in calls:
        public, kernel = (max(found[f"{verb} {side}"].median - wrapper, 1e-9) for side in ("public", "kernel"))
        rows.append({"what": what, "verb": verb, "public": public, "kernel": kernel})
    return rows


def _tree_calls(stream: Stream) -> dict[str, tuple[Subject, Subject]]:
    """`after` takes back what was learned, or learns again what was taken back."""
    cal, tree = VennAbers(), HullTree()
    scores, labels = stream.start()
    order = np.argsort(scores)
    ones = np.ones(len(scores))
    cal.learn_many(scores, labels)
    tree.rebuild(scores[order], ones, labels[order].astype(np.float64), ones.astype(np.int64))

    def add(_query: float, score: float, y: bool) -> None:
        tree.update(score, 1.0, float(y), 1)

    def take(_query: float, score: float, y: bool) -> None:
        tree.revert(score, 1.0, float(y), 1)

    learn: Step = lambda _query, score, y: cal.learn_one(score, y)  # noqa: E731
    unlearn: Step = lambda _query, score, y: cal.unlearn_one(score, y)  # noqa: E731
    return {
        "learn_one": (
            Calls(learn, after=unlearn),
            Calls(lambda _query, score, y: tree.update(score, 1.0, 1.0, 1), after=lambda _q, s, y: tree.revert(s, 1.0, 1.0, 1)),
        ),
        "predict_interval_one": (
            Calls(lambda query, _score, _y: cal.predict_interval_one(query)),
            Calls(lambda query, _score, _y: tree.interval(query, 1.0)),
        ),
        "unlearn_one": (Taken(unlearn, before=learn), Taken(take, before=add)),
    }
