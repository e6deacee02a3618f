"""Operation counts of the hull tree: the figures of docs/implementation.md.

    python -m benchmarks.tree_counts            # two minutes
    python -m benchmarks.tree_counts --quick    # seconds

Counts, not times: the kernel is loaded as ordinary Python, compiled or not, and its own functions are wrapped.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import streamcal.kernels
from benchmarks.arrivals import KINDS, Array
from streamcal.kernels.tree import hull_nodes

SEED = 0
#: The hull tree, in the order in which its files import one another.
FILES = ("hull_nodes", "hull_search", "hull_pools", "hull_fits", "hull_changes", "hull_tree")
_LOADED = itertools.count()
#: Wrapped functions and methods of the kernel → what a call of each counts as.
COUNTED = {
    "settle": "pools on the path",
    "find_pool": "pools searched",
    "_find_end": "descents",
    "_step": "steps of Newton's method",
    "_newton": "fits",
}


def load_plain(**constants: float) -> ModuleType:
    """Load the hull tree as ordinary Python, with some constants replaced: a new module at every call."""
    made = f"plain_{next(_LOADED)}_"
    left = set(constants)
    for name in FILES:
        text = (Path(str(streamcal.kernels.__path__[0])) / "tree" / f"{name}.py").read_text(encoding="utf-8")
        text = text.replace("from cython.cimports.streamcal.", "from streamcal.")
        text = text.replace("from streamcal.kernels.tree.hull_", f"from {made}hull_")
        for constant in sorted(left):
            text, found = re.subn(
                rf"^{constant} = ", f"{constant} = {constants[constant]!r}  # ", text, flags=re.MULTILINE
            )
            left -= {constant} if found else set()
        module = sys.modules[made + name] = ModuleType(made + name)
        exec(compile(text, f"{name}.py (uncompiled)", "exec"), vars(module))
    assert not left, f"no such constants: {left}"
    return module


def replace(module: ModuleType, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Replace a function or method of a plain hull tree wherever it has this name; return the one that was there."""
    made = module.__name__.removesuffix("hull_tree")
    owners = [one for one in (module.HullTree, *(sys.modules[made + file] for file in FILES)) if hasattr(one, name)]
    inner: Callable[..., Any] = getattr(owners[0], name)
    for owner in owners:
        setattr(owner, name, function)
    return inner


class Counts:
    """Wraps the functions of a plain kernel; `seen` counts their calls, `longest` the steps of one search."""

    def __init__(self, module: ModuleType) -> None:
        self.seen: Counter[str] = Counter()
        self.longest = 0
        self._steps = 0
        for name in COUNTED:
            self._wrap(module, name)

    def _wrap(self, module: ModuleType, name: str) -> None:
        def wrapped(*arguments: Any) -> Any:
            self.seen[name] += 1
            if name in ("find_pool", "_newton"):
                self._steps = 0
            elif name == "_step":
                self._steps += 1
                self.longest = max(self.longest, self._steps)
            return inner(*arguments)

        inner = replace(module, name, wrapped)

    def take(self) -> tuple[Counter[str], int]:
        """Return the counts since the last call."""
        taken = self.seen, self.longest
        self.seen, self.longest = Counter(), 0
        return taken


def count_stream(kind: str, size: int, operations: int) -> None:
    """Count per operation on a tree of `size` scores: `operations` learned, predicted and removed again."""
    module = load_plain()
    counts, tree = Counts(module), module.HullTree()
    rng = np.random.default_rng(SEED)
    scores, labels = KINDS[kind](rng, size + operations)
    order = np.argsort(scores[:size])
    ones = np.ones(size)
    tree.rebuild(scores[order], ones, labels[order].astype(float), ones.astype(np.int64))
    steps = list(zip(scores[size:].tolist(), labels[size:].astype(float).tolist(), strict=True))
    counts.take()
    print(f"\n{kind}, {size:,} scores: calls per operation")
    for verb in ("update", "interval", "unlearn"):
        for score, y in steps:
            if verb == "interval":
                tree.interval(score * (1.0 - 1e-9), 1.0)
            else:
                getattr(tree, verb)(score, 1.0, y, 1)
        seen, longest = counts.take()
        per = ", ".join(f"{what} {seen[name] / operations:.2f}" for name, what in COUNTED.items() if seen[name])
        print(f"  {verb:9s} {per}; longest search {longest} steps")


def misleading(rng: np.random.Generator, n: int) -> dict[str, tuple[Array, Array, Array, float]]:
    """Name → (scores, weights, labels or fractions of the weight, weight of the test object)."""
    u, ones, ranks = rng.random(n), np.ones(n), np.arange(min(n, 1000), dtype=float)
    coin = (rng.random(n) < 0.5).astype(float)
    true = (rng.random(n) < u).astype(float)
    spread = 10.0 ** (26.0 * rng.random(n))
    few = len(ranks)
    return {
        "0/1 labels, calibrated": (u, ones, true, 1.0),
        "0/1 labels, a coin": (u, ones, coin, 1.0),
        "0/1 labels, falling": (u, ones, (rng.random(n) > u).astype(float), 1.0),
        "no pools: the fit is the data": (u, ones, u, 1.0),
        "no pools, steep": (u, ones, u**20, 1.0),
        "no pools, heavy test object": (u, ones, u, 1e4),
        "weights at random over 1e26": (u, spread, u, 1e20),
        "decay over 1e26": (u, np.logspace(0, 26, n), true, 1e26),
        "decay over 1e100": (u, np.logspace(0, 100, n), true, 1e50),
        "decay over 1e100, a coin": (u, np.logspace(0, 100, n), coin, 1e100),
        "geometric weights": (ranks / few, 2.0 ** (ranks / 10.0), ranks / few, 2.0**50),
        "geometric slopes": (ranks / few, ones[:few], 2.0 ** (ranks - few), 1e-3),
        "both geometric": (ranks / few, 2.0 ** ((few - ranks) / 4.0), 2.0 ** ((ranks - few) / 2.0), 1.0),
    }


def count_misleading(size: int, queries: int) -> None:
    """Count steps of Newton's method on streams made to mislead it."""
    module = load_plain()
    counts = Counts(module)
    rng = np.random.default_rng(SEED)
    print(f"\nsteps of Newton's method, {size:,} arrivals: mean and longest of a search in learn; of a fit in interval")
    for name, (scores, weights, labels, test) in misleading(rng, size).items():
        tree = module.HullTree()
        for score, w, y in zip(scores.tolist(), weights.tolist(), labels.tolist(), strict=True):
            tree.update(score, w, w * y, 1)
        learn, longest = counts.take()
        for score in rng.random(queries).tolist():
            tree.interval(score, test)
        ask, longest_fit = counts.take()
        print(
            f"  {name:30s} {learn['_step'] / learn['find_pool']:6.2f} {longest:4d}"
            f"  {ask['_step'] / ask['_newton']:6.2f} {longest_fit:4d}"
        )


def print_memory(size: int) -> None:
    """Bytes per distinct score, from the sizes of the compiled objects and the number of leaves."""
    sizes = [getattr(hull_nodes, name).__basicsize__ for name in ("Leaf", "Inner")]
    print(f"\nbytes of a leaf and of an inner node: {sizes}")
    module = load_plain()
    scores = np.random.default_rng(SEED).random(size)
    for name, arrivals in (("random", scores), ("sorted", np.sort(scores))):
        tree = module.HullTree()
        for score in arrivals.tolist():
            tree.update(score, 1.0, 0.0, 1)
        leaves = tree._root.leaves
        full = size / leaves / hull_nodes.LEAF_CAPACITY
        per = (leaves * sizes[0] + (leaves - 1) * sizes[1]) / size
        print(f"  {name} arrivals: leaves {full:.0%} full, {per:.0f} bytes per score")


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    for kind in ("uniform", "clicks"):
        for size in (2_000,) if quick else (100_000, 1_000_000):
            count_stream(kind, size, 200 if quick else 5_000)
    count_misleading(500 if quick else 20_000, 50 if quick else 1_000)
    print_memory(2_000 if quick else 50_000)


if __name__ == "__main__":
    main()
