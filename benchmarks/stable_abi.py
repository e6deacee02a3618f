"""What the kernels would lose if they were compiled for the stable ABI of Python (abi3): one wheel for all versions.

    python -m benchmarks.stable_abi             # two minutes to compile, two to time
    python -m benchmarks.stable_abi --rounds 1  # a smoke run

Copies the package twice into a temporary folder, compiles one copy as usual and the other with Cython's limited API,
and times a step (predict one, learn one) of the fastest methods in processes of their own, in turn. Prints the seconds
per step, their ratio (the median of the ratios of the rounds) and the size of the compiled files.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from streamcal import Bernstein, Calibrator, Isotonic, OnlinePlatt, VennAbers

ROOT = Path(__file__).resolve().parents[1]
#: 3.11 is the first version whose stable ABI has the buffers that memoryviews need.
FORMS = {"usual": "", "stable ABI": "-DCYTHON_LIMITED_API=1 -DPy_LIMITED_API=0x030B0000"}
HELD = 10_000
BATCH = 1_000

SUBJECTS: dict[str, Callable[[], Calibrator]] = {
    "online Platt": OnlinePlatt,
    "Venn-Abers": VennAbers,
    "isotonic": Isotonic,
    "Bernstein, degree 20": lambda: Bernstein(20),
}


def main(arguments: list[str] | None = None) -> None:
    """Compare steps of both forms in separate processes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stable_abi", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="processes of each form")
    parser.add_argument("--time", action="store_true", help=argparse.SUPPRESS)  # what a process of one form does
    given = parser.parse_args(arguments)
    if given.time:
        print(json.dumps({name: seconds_per_step(make) for name, make in SUBJECTS.items()}))
        return
    with tempfile.TemporaryDirectory() as folder:
        trees = {form: compiled(Path(folder) / form.replace(" ", "-"), flags) for form, flags in FORMS.items()}
        rounds = [{form: timed(tree) for form, tree in trees.items()} for _ in range(given.rounds)]
        report(rounds, trees)


def compiled(tree: Path, flags: str) -> Path:
    """Compile a copy of the package in place with these flags."""
    shutil.copytree(ROOT / "streamcal", tree / "streamcal", ignore=shutil.ignore_patterns("*.so", "*.pyd"))
    shutil.copytree(ROOT / "benchmarks", tree / "benchmarks", ignore=shutil.ignore_patterns("papers", "streams"))
    for file in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, tree)
    build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(build, cwd=tree, env={**os.environ, "CFLAGS": flags}, check=True, capture_output=True)
    return tree


def timed(tree: Path) -> dict[str, float]:
    """Subject → seconds per step, from a new process."""
    code = (
        "from benchmarks.environment import require_compiled; require_compiled();"
        "from benchmarks.stable_abi import main; main(['--time'])"
    )
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tree, env=environment, check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(run.stdout)
    return found


def seconds_per_step(make: Callable[[], Calibrator], batches: int = 40) -> float:
    """Return the fastest of some batches of steps, at ten thousand distinct scores or a few more."""
    rng = np.random.default_rng(3)
    scores = rng.random(HELD + batches * BATCH)
    labels = rng.random(len(scores)) < scores
    cal = make()
    cal.learn_many(scores[:HELD], labels[:HELD])
    predict, learn = getattr(cal, "predict_interval_one", cal.predict_one), cal.learn_one
    taken = []
    for first in range(HELD, len(scores), BATCH):
        part = slice(first, first + BATCH)
        steps = list(zip(scores[part].tolist(), labels[part].tolist(), strict=True))
        start = perf_counter()
        for score, y in steps:
            predict(score)
            learn(score, y)
        taken.append(perf_counter() - start)
    return min(taken) / BATCH


def report(rounds: list[dict[str, dict[str, float]]], trees: dict[str, Path]) -> None:
    """Print the steps of both forms and the sizes of the kernels."""
    print("| a step of | usual, µs | stable ABI, µs | ratio |\n|---|---:|---:|---:|")
    for name in SUBJECTS:
        usual, stable = ([turn[form][name] for turn in rounds] for form in FORMS)
        ratio = median(b / a for a, b in zip(usual, stable, strict=True))
        print(f"| {name} | {median(usual) * 1e6:.3f} | {median(stable) * 1e6:.3f} | {ratio:.2f} |")
    for form, tree in trees.items():
        size = sum(file.stat().st_size for file in (tree / "streamcal" / "kernels").rglob("*") if is_compiled(file))
        print(f"compiled files, {form}: {size / 1e6:.2f} MB")


def is_compiled(file: Path) -> bool:
    """Return whether a file is a compiled extension module."""
    return file.suffix in {".so", ".pyd"}


if __name__ == "__main__":
    main()
