"""The coverage of calibrated regression forecasts: `docs/regression_measured.md`.

    python -m benchmarks.regression_coverage            # writes the tables into docs/regression_measured.md
    python -m benchmarks.regression_coverage --quick    # fewer rows: prints only

Synthetic forecasts are Normal(m, 1/c) of outcomes m + noise; forecasts of River's regression sets are those of River's
models, which go on learning. Every interval is predicted before its outcome is learned; the first 500 rows of a stream,
or the first half of a shorter one, are learned only.
"""

from __future__ import annotations

import argparse
import datetime
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from river import datasets, linear_model, preprocessing, tree

import streamcal
from streamcal import Decay
from streamcal.regression import (
    AdaptiveConformal,
    Composition,
    DistributionCalibrator,
    Normal,
    QuantileRecalibration,
    ScaleRecalibration,
)
from streamcal.river import CalibratedRegressor
from streamcal.river.regressor import _normal

PAGE = Path(__file__).resolve().parents[1] / "docs" / "regression_measured.md"
LEVELS = np.array([0.5, 0.8, 0.9, 0.95])
LEARNED, ROWS, SYNTHETIC_ROWS = 500, 2500, 4500
#: Deviations of a coverage from its level up to this are counted as reached.
GOAL = 0.02
METHODS: dict[str, Callable[[], DistributionCalibrator] | None] = {
    "as predicted": None,
    "uniform cells": lambda: QuantileRecalibration(1.0, resolution=64, scale="uniform"),
    "levels": lambda: QuantileRecalibration(1.0, resolution=64),
    "default": Composition,
}
#: Of the table of sharpness.
SHARPNESS: dict[str, Callable[[], DistributionCalibrator] | None] = {
    "as predicted": None,
    "without forgetting": lambda: Composition((ScaleRecalibration(), QuantileRecalibration(1.0, resolution=64))),
    "scale, shape": lambda: Composition(
        (
            ScaleRecalibration(forgetting=Decay(20)),
            QuantileRecalibration(1.0, resolution=64, forgetting=Decay(300)),
        )
    ),
    "default": Composition,
}
#: A log-likelihood below this counts as this: of forecasts that leave an outcome no mass.
LEAST = -50.0
NOISE: dict[str, Callable[[np.random.Generator, int], np.ndarray[Any, Any]]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "Student, 3 degrees of freedom": lambda rng, n: rng.standard_t(3, n),
    "Laplace": lambda rng, n: rng.laplace(size=n),
}
WIDTHS = (0.2, 0.5, 1.0, 2.0, 5.0, 20.0)

SETS: dict[str, Callable[[int], Any]] = {
    "TrumpApproval": lambda rows: datasets.TrumpApproval(),
    "ChickWeights": lambda rows: datasets.ChickWeights(),
    "Friedman": lambda rows: datasets.synth.Friedman(seed=1).take(rows),
    "Friedman, drifting": lambda rows: datasets.synth.FriedmanDrift("gra", (rows // 3, 2 * rows // 3), seed=1).take(
        rows
    ),
    "Planes2D": lambda rows: datasets.synth.Planes2D(seed=1).take(rows),
}
MODELS: dict[str, Callable[[], CalibratedRegressor]] = {
    "Bayesian linear": lambda: CalibratedRegressor(
        preprocessing.StandardScaler() | linear_model.BayesianLinearRegression(), ScaleRecalibration()
    ),
    "linear": lambda: CalibratedRegressor(
        preprocessing.StandardScaler() | linear_model.LinearRegression(), ScaleRecalibration()
    ),
    "linear, half-life 50": lambda: CalibratedRegressor(
        preprocessing.StandardScaler() | linear_model.LinearRegression(), ScaleRecalibration(), half_life=50
    ),
    "tree": lambda: CalibratedRegressor(tree.HoeffdingTreeRegressor(), ScaleRecalibration()),
    "tree, half-life 50": lambda: CalibratedRegressor(
        tree.HoeffdingTreeRegressor(), ScaleRecalibration(), half_life=50
    ),
}

#: Forecasts and their outcomes.
Rows = list[tuple[Normal, float]]


def synthetic(noise: str, c: float, rows: int) -> Rows:
    """Draw normal forecasts whose width is wrong by a factor, and outcomes with one kind of noise."""
    rng = np.random.default_rng(0)
    m = rng.normal(size=rows)
    y = m + NOISE[noise](rng, rows)
    return [(Normal(one, 1.0 / c), outcome) for one, outcome in zip(m.tolist(), y.tolist(), strict=True)]


def forecast(data: str, model: str, rows: int) -> Rows:
    """Return the forecasts that a model of River made for the rows of a set, before each outcome."""
    base, found = MODELS[model](), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of trees, on constant features
        for x, y in islice(SETS[data](rows), rows):
            numbers = {name: value for name, value in x.items() if isinstance(value, (int, float))}
            one = _normal(*base._predicted(numbers))
            if one is not None:
                found.append((one, float(y)))
            base.learn_one(numbers, y)
    return found


def coverage(rows: Rows, make: Callable[[], DistributionCalibrator] | None) -> np.ndarray[Any, Any]:
    """Return the share of outcomes in the central interval of each level."""
    cal, hits = make() if make else None, []
    after = LEARNED if len(rows) >= 2 * LEARNED else len(rows) // 2
    for i, (one, y) in enumerate(rows):
        if i >= after:
            predicted = one if cal is None else cal.predict_one(one)
            hits.append(np.abs(predicted.cdf(y) - 0.5) <= LEVELS / 2.0)
        if cal is not None:
            cal.learn_one(one, y)
    return np.mean(hits, axis=0)


def by_level(rows: Rows, make: Callable[[float], DistributionCalibrator]) -> np.ndarray[Any, Any]:
    """Return the coverage of an interval of each level, by a calibrator made for the level."""
    shares = [coverage(rows, lambda level=level: make(level))[i] for i, level in enumerate(LEVELS.tolist())]  # type: ignore[misc]
    return np.array(shares)


def sharpness(rows: Rows, make: Callable[[], DistributionCalibrator] | None) -> tuple[float, float]:
    """Return the mean log-likelihood and the mean CRPS of the forecasts that `coverage` counts."""
    cal, logs, scores = make() if make else None, [], []
    after = LEARNED if len(rows) >= 2 * LEARNED else len(rows) // 2
    for i, (one, y) in enumerate(rows):
        if i >= after:
            predicted = one if cal is None else cal.predict_one(one)
            logs.append(max(predicted.log_prob(y), LEAST))
            scores.append(predicted.crps(y))
        if cal is not None:
            cal.learn_one(one, y)
    return float(np.mean(logs)), float(np.mean(scores))


def cells(found: np.ndarray[Any, Any]) -> str:
    """Write the shares as cells of a table, in bold if the goal is reached."""
    return " | ".join(
        f"**{share:.3f}**" if abs(share - level) <= GOAL else f"{share:.3f}"
        for share, level in zip(found.tolist(), LEVELS.tolist(), strict=True)
    )


def heading(first: str) -> list[str]:
    """Return the heading of a table of coverages."""
    return [f"| {first} | method | 50 % | 80 % | 90 % | 95 % |", "|---|---|---:|---:|---:|---:|"]


def synthetic_tables(rows: int) -> Iterator[str]:
    """Yield a table of coverages for each kind of noise."""
    for noise in NOISE:
        lines = heading(f"{noise}: c")
        for c in WIDTHS:
            data = synthetic(noise, c, rows)
            lines += [f"| {c:g} | {name} | {cells(coverage(data, make))} |" for name, make in METHODS.items()]
        yield "\n".join(lines)


def river_table(rows: int, sets: list[str]) -> str:
    """Write the table of coverages of River's models."""
    lines = heading("set, model")
    for data in sets:
        for model in MODELS:
            made = forecast(data, model, rows)
            for name in ("as predicted", "uniform cells", "default"):
                lines.append(f"| {data}, {model} | {name} | {cells(coverage(made, METHODS[name]))} |")
            lines.append(f"| {data}, {model} | adaptive | {cells(by_level(made, AdaptiveConformal))} |")
    return "\n".join(lines)


def sharpness_table(rows: int, sets: list[str]) -> str:
    """Log-likelihood and CRPS; trees are left out on TrumpApproval, where they diverge."""
    streams = {f"{noise}, c = 1": synthetic(noise, 1.0, rows) for noise in NOISE}
    streams |= {f"{data}, {model}": forecast(data, model, rows) for data in sets for model in MODELS}
    names = list(SHARPNESS)
    lines = ["| log-likelihood, CRPS | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for name, data in streams.items():
        if not name.startswith("TrumpApproval, tree"):
            found = (sharpness(data, make) for make in SHARPNESS.values())
            lines.append(f"| {name} | " + " | ".join(f"{log:.3f}, {crps:.4g}" for log, crps in found) + " |")
    return "\n".join(lines)


START, END = "<!-- coverage -->", "<!-- end of coverage -->"


def main(arguments: list[str] | None = None) -> None:
    """Measure the coverages, and write the page of a full run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows and sets: prints, writes nothing")
    quick = parser.parse_args(arguments).quick
    tables = [*synthetic_tables(1100 if quick else SYNTHETIC_ROWS)]
    tables.append(river_table(1100 if quick else ROWS, ["TrumpApproval"] if quick else list(SETS)))
    tables.append(sharpness_table(1100 if quick else ROWS, ["TrumpApproval"] if quick else list(SETS)))
    stamp = (
        f"`python -m benchmarks.regression_coverage`, {datetime.date.today().isoformat()}, streamcal "
        f"{streamcal.__version__}, numpy {np.__version__}."
    )
    text = "\n\n".join([*tables, stamp])
    print(text)
    if not quick:
        page = PAGE.read_text(encoding="utf-8")
        before, after = page.split(START)[0], page.split(END)[1]
        PAGE.write_text(f"{before}{START}\n{text}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
