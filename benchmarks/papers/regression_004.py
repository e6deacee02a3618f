"""Figures 1, 4, 5 and 6 of paper 004 (Song, Kull & Flach, "Non-Parametric Calibration of Probabilistic Regression").

    python -m benchmarks.papers.regression_004            # writes docs/papers/regression_004.md and its pictures
    python -m benchmarks.papers.regression_004 --quick    # a shortened run: prints only

Base models with normal forecasts are trained on two thirds of a training set, calibrators learn on the last third, in
turn, and the three calibrated densities are averaged, as in §6. All files but Diabetes are read from STREAMCAL_DATA.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import gzip
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import sklearn
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF as SklearnRBF
from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel
from sklearn.linear_model import BayesianRidge, LinearRegression
from sklearn.model_selection import KFold

import streamcal
from streamcal import Interval, Platt, Probability
from streamcal.regression import (
    RBF,
    ConformalPredictive,
    DistributionCalibrator,
    EmpiricalDensity,
    GaussianProcessCDF,
    IsotonicDistributional,
    Normal,
    QuantileRecalibration,
    VennAbersRegression,
)

Array = npt.NDArray[np.float64]
Support = tuple[float, float]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "papers" / "regression_004.md"
#: The paper has ten rounds of the cross-validation.
ROUNDS, FOLDS, INNER_FOLDS = 1, 5, 3
THRESHOLDS = (8, 16, 32, 48, 64)
#: Target values of the pictures, and where methods that have no K are compared with the others.
TOY_THRESHOLDS, COMPARED = 16, 32
TOY_ROWS, TOY_NOISE, TOY_BINS = 600, 0.5, 8
#: Share of a range by which the support goes beyond its ends (§6.2).
MARGIN = 0.5
#: An outcome that a density gives less than this, times one over the width of the support, counts as if it had this.
FLOOR = 1e-6
#: Rows on which the kernel of a Gaussian process regression is optimised; it is then conditioned on all.
OPTIMISED_ROWS = 250

#: File and target of each data set.
FILES = {
    "Boston": ("boston_housing", "MEDV"),
    "Airfoil": ("airfoil_self_noise", "sound_pressure_level_db"),
    "Forest Fires": ("forest_fires", "area"),
    "Concrete": ("concrete_strength", "compressive_strength_mpa"),
}
DATA_SETS = ("Diabetes", *FILES)

#: The kernels among which the classifier with the paper's mean of 0 chooses: its values reach log-odds of ±8.
ZERO_MEAN_KERNELS = tuple(
    RBF(variance, q, t) for variance in (4.0, 64.0) for q, t in ((0.5, 0.3), (0.25, 0.15), (0.15, 0.07))
)


def paper_gpc(thresholds: int, support: Support) -> GaussianProcessCDF:
    """The paper's: of q itself, with mean 0, averaged over the posterior."""
    options = {"mean": "zero", "point": "mean", "scale": Probability(), "kernel": ZERO_MEAN_KERNELS}
    return GaussianProcessCDF(thresholds, support=support, **options)


#: The methods of Figure 6: name → (K, support) → calibrator.
METHODS: dict[str, Callable[[int, Support], DistributionCalibrator]] = {
    "e-logistic": lambda k, support: EmpiricalDensity(Platt(scale=Interval(0.0, 1.0)), k, support=support),
    "e-beta": lambda k, support: EmpiricalDensity("beta", k, support=support),
    "GPC, paper": paper_gpc,
    "GPC": lambda k, support: GaussianProcessCDF(k, support=support),
}
#: Others of streamcal, at one K where they have thresholds.
OTHERS: dict[str, Callable[[int, Support], DistributionCalibrator]] = {
    "quantile recalibration": lambda k, support: QuantileRecalibration(1.0, resolution=64),
    "conformal predictive": lambda k, support: ConformalPredictive(resolution=64),
    "isotonic distributional": lambda k, support: IsotonicDistributional(k, support=support),
    "Venn-Abers regression": lambda k, support: VennAbersRegression(thresholds=k, support=support),
}


# -- data --------------------------------------------------------------------------------------------------------


class Data(NamedTuple):
    """Features, shape (n, m), and outcomes, shape (n,)."""

    x: Array
    y: Array

    def take(self, rows: npt.NDArray[np.intp]) -> Data:
        return Data(self.x[rows], self.y[rows])


def toy(rows: int, seed: int) -> Data:
    """Half of the outcomes on an ascending line, half on a flat one; normal noise."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 10.0, rows)
    line = np.where(rng.random(rows) < 0.5, x, 0.0)
    return Data(x[:, None], line + TOY_NOISE * rng.normal(size=rows))


def toy_density(x: Array, t: Array) -> Array:
    """The true density of the toy outcomes at every t (rows) for every x (columns)."""
    lines = (x[None, :], np.zeros((1, len(x))))
    return sum(0.5 * norm.pdf(t[:, None], line, TOY_NOISE) for line in lines)


def read(name: str) -> Data:
    """A data set; columns of words become a column for each word."""
    if name == "Diabetes":
        return Data(*load_diabetes(return_X_y=True))
    file, target = FILES[name]
    with gzip.open(path_of(file), "rt", newline="") as lines:
        rows = list(csv.DictReader(lines))
    columns = []
    for column in rows[0]:
        values = np.array([row[column] for row in rows])
        if column == target:
            y = values.astype(np.float64)
        elif values[0].isalpha():
            columns += [(values == word).astype(np.float64) for word in np.unique(values)]
        else:
            columns.append(values.astype(np.float64))
    return Data(np.column_stack(columns), y)


def path_of(file: str) -> Path:
    """A file in `$STREAMCAL_DATA`; the script ends without it."""
    folder = os.environ.get("STREAMCAL_DATA")
    path = Path(folder or ".") / f"{file}.csv.gz"
    if folder is None or not path.is_file():
        raise SystemExit(f"{path.name} is needed: put it into a folder, and set STREAMCAL_DATA to that")
    return path


# -- base models -------------------------------------------------------------------------------------------------

#: A trained base model: features → normal forecasts.
Model = Callable[[Array], list[Normal]]


def ols(data: Data) -> Model:
    """Least squares; the standard deviation is that of the residuals, the same for all."""
    fitted = LinearRegression().fit(data.x, data.y)
    sd = float(np.sqrt(np.mean((data.y - fitted.predict(data.x)) ** 2)))
    return lambda x: [Normal(mean, sd) for mean in fitted.predict(x)]


def bayesian_ridge(data: Data) -> Model:
    fitted = BayesianRidge().fit(data.x, data.y)
    return lambda x: normals(*fitted.predict(x, return_std=True))


def gaussian_process(data: Data) -> Model:
    """A squared-exponential kernel and noise, on the one feature of the largest variance, as in the paper."""
    place = int(np.argmax(data.x.var(axis=0)))
    centre, width = data.x[:, place].mean(), data.x[:, place].std()

    def feature(x: Array) -> Array:
        return (x[:, [place]] - centre) / width

    kernel = ConstantKernel(1.0) * SklearnRBF(1.0) + WhiteKernel(0.5)
    few = np.random.default_rng(0).permutation(len(data.y))[:OPTIMISED_ROWS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a parameter at its bound
        few_fitted = GaussianProcessRegressor(kernel, normalize_y=True).fit(feature(data.x[few]), data.y[few])
    fitted = GaussianProcessRegressor(few_fitted.kernel_, optimizer=None, normalize_y=True)
    fitted.fit(feature(data.x), data.y)
    return lambda x: normals(*fitted.predict(feature(x), return_std=True))


def normals(mean: Array, sd: Array) -> list[Normal]:
    return [Normal(*one) for one in zip(mean.tolist(), sd.tolist(), strict=True)]


BASES: dict[str, Callable[[Data], Model]] = {"OLS": ols, "BRR": bayesian_ridge, "GPR": gaussian_process}


def support_of(y: Array) -> Support:
    margin = MARGIN * float(y.max() - y.min())
    return float(y.min()) - margin, float(y.max()) + margin


# -- the experiment of Figure 6 ----------------------------------------------------------------------------------


class Calibrated(NamedTuple):
    """A third of a training set: what the base trained on the others says of it, and of the test set."""

    known: list[Normal]
    y: Array
    asked: list[Normal]


class Found(NamedTuple):
    """Means over test outcomes: log-likelihood, CRPS over the support; how many were below the floor; seconds."""

    log_likelihood: float
    crps: float
    floored: int
    seconds: float


class Task(NamedTuple):
    """One base model on one data set, in one round."""

    data_set: str
    base: str
    round: int
    folds: int
    thresholds: tuple[int, ...]


#: (method, K) → a result for each fold; the bare base models have K = 0.
Results = dict[tuple[str, int], list[Found]]


def folds_of(data: Data, task: Task) -> Iterator[tuple[Data, Data]]:
    """Training and test parts."""
    splits = KFold(FOLDS, shuffle=True, random_state=task.round).split(data.x)
    for train, test in list(splits)[: task.folds]:
        yield data.take(train), data.take(test)


def thirds(train: Data, test: Data, base: Callable[[Data], Model], seed: int) -> list[Calibrated]:
    parts = []
    for rest, third in KFold(INNER_FOLDS, shuffle=True, random_state=seed).split(train.x):
        model = base(train.take(rest))
        parts.append(Calibrated(model(train.x[third]), train.y[third], model(test.x)))
    return parts


def assessed(forecasts: list[list[Any]], y: Array, support: Support, seconds: float) -> Found:
    """The average of several models' forecasts of each test outcome. CRPS by the trapezoid rule over the support."""
    knots = np.linspace(*support, 513)
    floor = np.log(FLOOR / (support[1] - support[0]))
    logs, scores, floored = [], [], 0
    for outcome, together in zip(y.tolist(), zip(*forecasts, strict=True), strict=True):
        density = np.mean([np.exp(one.log_prob(outcome)) for one in together])
        logs.append(max(np.log(density), floor) if density > 0.0 else floor)
        floored += logs[-1] == floor
        cdf = np.mean([one.cdf(knots) for one in together], axis=0)
        scores.append(np.trapezoid((cdf - (outcome <= knots)) ** 2, knots))
    return Found(float(np.mean(logs)), float(np.mean(scores)), floored, seconds)


def run(task: Task) -> Results:
    """All methods on all folds of one task."""
    results: Results = {}
    base, data = BASES[task.base], read(task.data_set)
    for train, test in folds_of(data, task):
        support = support_of(train.y)
        parts = thirds(train, test, base, task.round)
        results.setdefault(("base", 0), []).append(assessed([base(train)(test.x)], test.y, support, 0.0))
        results.setdefault(("base, averaged", 0), []).append(
            assessed([part.asked for part in parts], test.y, support, 0.0)
        )
        jobs = [(name, k, make) for name, make in METHODS.items() for k in task.thresholds]
        jobs += [(name, COMPARED, make) for name, make in OTHERS.items()]
        for name, k, make in jobs:
            start = time.process_time()
            forecasts = [calibrated(make(k, support), part) for part in parts]
            seconds = time.process_time() - start
            results.setdefault((name, k), []).append(assessed(forecasts, test.y, support, seconds))
    return results


def calibrated(calibrator: DistributionCalibrator, part: Calibrated) -> list[Any]:
    calibrator.learn_many(part.known, part.y)
    forecasts: list[Any] = calibrator.predict_many(part.asked)
    return forecasts


def resumed(task: Task, folder: Path | None) -> Results:
    """`run`, or what an earlier run left in the folder."""
    if folder is None:
        return run(task)
    path = folder / f"{task.data_set}-{task.base}-{task.round}-{task.folds}-{len(task.thresholds)}.json"
    if not path.exists():
        plain = [[name, k, [list(one) for one in found]] for (name, k), found in run(task).items()]
        path.write_text(json.dumps(plain), encoding="utf-8")
    return {(name, k): [Found(*one) for one in found] for name, k, found in json.loads(path.read_text())}
