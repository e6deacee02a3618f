"""What the tables of paper 000 are computed from: five public data sets, and the scores of two small networks on them.

One round draws three samples of 500 rows: the first trains network 1, the second network 2, the third is for the
calibrating functions; all other rows are the test. A network has one hidden layer; its width and its weight decay are
chosen by five-fold cross-validation on its own sample.
"""

from __future__ import annotations

import csv
import gzip
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.neural_network import MLPClassifier

Array = npt.NDArray[np.float64]

SAMPLE, ROUNDS, FOLDS = 500, 10, 5
#: Width of the hidden layer, and weight decay: what the paper tried is not said.
GRID = [(width, decay) for width in (10, 20) for decay in (1.0, 10.0, 100.0)]
#: Rows that are made dense at a time.
CHUNK = 20_000

SUSY_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/00279/SUSY.csv.gz"
SUSY_ROWS, SUSY_COLUMNS = 5_000_000, 19
TIMEOUT = 30.0


class Rows(NamedTuple):
    """Numbers, to be standardised; categories, one column for each value; and labels."""

    numbers: npt.NDArray[np.float32]
    categories: sparse.csr_array
    y: Array


class Round(NamedTuple):
    """Scores of shape (n, 2) and labels: those of the calibration sample, and of the test."""

    scores: Array
    y: Array
    test_scores: Array
    test_y: Array


def local(name: str) -> Path:
    """Return a file of the folder named by STREAMCAL_DATA; exit if the file is not there."""
    path = Path(os.environ.get("STREAMCAL_DATA", "."), name)
    if not path.is_file():
        raise SystemExit(f"{path} is not there; set STREAMCAL_DATA to the folder that has {name}")
    return path


def read(names: tuple[str, ...]) -> tuple[list[str], npt.NDArray[np.str_]]:
    """Header and cells of files with one header, below each other."""
    cells: list[list[str]] = []
    header: list[str] = []
    for name in names:
        with gzip.open(local(f"{name}.csv.gz"), "rt", newline="") as file:
            rows = csv.reader(file)
            header = next(rows)
            cells += rows
    return header, np.array(cells)


def tabled(
    names: tuple[str, ...], target: str, positive: str, numerical: Callable[[str], bool], unused: tuple[str, ...] = ()
) -> Rows:
    """Return a data set with numerical columns as `numerical` decides, and categories in the other columns."""
    header, cells = read(names)
    numbers = [k for k, column in enumerate(header) if numerical(column) and column not in (target, *unused)]
    others = [k for k, column in enumerate(header) if k not in numbers and column not in (target, *unused)]
    blocks = []
    for k in others:
        values, place = np.unique(cells[:, k], return_inverse=True)
        ones = np.ones(len(place), dtype=np.float32), (np.arange(len(place)), place)
        blocks.append(sparse.csr_array(ones, shape=(len(place), len(values))))
    empty = sparse.csr_array((len(cells), 0), dtype=np.float32)
    return Rows(
        cells[:, numbers].astype(np.float32),
        sparse.hstack(blocks, format="csr") if blocks else empty,
        (cells[:, header.index(target)] == positive).astype(np.float64),
    )


ADULT_NUMBERS = {"age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"}
CENSUS_NUMBERS = {
    "age",
    "wage_per_hour",
    "capital_gains",
    "capital_losses",
    "dividends",
    "num_persons_worked_for_employer",
    "weeks_worked",
}


def adult() -> Rows:
    """UCI Adult, both files."""
    return tabled(("adult_train", "adult_test"), "income", ">50K", ADULT_NUMBERS.__contains__)


def census() -> Rows:
    """UCI Census-Income (KDD), the test file; the survey weight is no feature."""
    name = "census_income_kdd_test"
    return tabled((name,), "income", "50000+", CENSUS_NUMBERS.__contains__, ("instance_weight",))


def covertype() -> Rows:
    """Lodgepole Pine, class 2, against the rest."""
    return tabled(("covtype",), "Cover_Type", "2", lambda column: True)


def dota2() -> Rows:
    """Both files; region, mode and type of a game are categories."""
    categories = {"cluster", "game_mode", "game_type"}
    return tabled(("dota2_train", "dota2_test"), "win", "1", lambda column: column not in categories)


def susy() -> Rows:
    """UCI SUSY: `SUSY.csv.gz`, label first, no header; downloaded (880 MB) into STREAMCAL_DATA if it is not there.

    Its checksum is not known to us; the numbers of rows and columns are looked at.
    """
    path = Path(os.environ.get("STREAMCAL_DATA", "."), "SUSY.csv.gz")
    if not path.is_file():
        unfinished = path.with_suffix(".part")
        try:
            with urlopen(SUSY_URL, timeout=TIMEOUT) as response, unfinished.open("wb") as file:
                shutil.copyfileobj(response, file)
        except (URLError, OSError) as error:
            raise SystemExit(f"SUSY is not in {path.parent}, and {SUSY_URL} cannot be had ({error})") from None
        unfinished.rename(path)
    with gzip.open(path, "rt") as file:
        cells = np.loadtxt(file, delimiter=",", dtype=np.float32)
    if cells.shape != (SUSY_ROWS, SUSY_COLUMNS):
        raise SystemExit(f"{path} has shape {cells.shape}, SUSY has {(SUSY_ROWS, SUSY_COLUMNS)}")
    empty = sparse.csr_array((SUSY_ROWS, 0), dtype=np.float32)
    return Rows(np.ascontiguousarray(cells[:, 1:]), empty, cells[:, 0].astype(np.float64))


SETS: dict[str, Callable[[], Rows]] = {
    "Adult": adult,
    "Census": census,
    "Covertypes": covertype,
    "Dota2": dota2,
    "SUSY": susy,
}


class Network:
    """One hidden layer of tanh units, on numbers standardised by its own sample."""

    def __init__(self, rows: Rows, sample: npt.NDArray[np.intp], grid: list[tuple[int, float]], seed: int) -> None:
        self._rows = rows
        self._mean = rows.numbers[sample].mean(axis=0)
        spread = rows.numbers[sample].std(axis=0)
        self._spread = np.where(spread > 0.0, spread, 1.0)
        x, y = self._features(sample), rows.y[sample]
        self.parameters = grid[0] if len(grid) == 1 else min(grid, key=lambda p: crossed(p, x, y, seed))
        self._network = fitted(self.parameters, x, y, seed)

    def scores(self, places: npt.NDArray[np.intp]) -> Array:
        """P(True) of rows."""
        parts = [places[start : start + CHUNK] for start in range(0, len(places), CHUNK)]
        return np.concatenate([self._network.predict_proba(self._features(part))[:, 1] for part in parts])

    def _features(self, places: npt.NDArray[np.intp]) -> npt.NDArray[np.float32]:
        numbers = (self._rows.numbers[places] - self._mean) / self._spread
        return np.hstack([numbers, self._rows.categories[places].toarray()])


def fitted(parameters: tuple[int, float], x: npt.NDArray[np.float32], y: Array, seed: int) -> MLPClassifier:
    """Train a network of one hidden layer."""
    width, decay = parameters
    network = MLPClassifier((width,), activation="tanh", solver="lbfgs", alpha=decay, max_iter=200, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 200 steps are the budget
        return network.fit(x, y)


def crossed(parameters: tuple[int, float], x: npt.NDArray[np.float32], y: Array, seed: int) -> float:
    """Return the Brier loss of cross-validation."""
    loss = 0.0
    for train, rest in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(x, y):
        p = fitted(parameters, x[train], y[train], seed).predict_proba(x[rest])[:, 1]
        loss += float(np.sum((p - y[rest]) ** 2))
    return loss


def played(rows: Rows, seed: int, grid: list[tuple[int, float]] = GRID) -> Round:
    """Play one round: draw the samples, train the networks, score the rest."""
    order = np.random.default_rng(seed).permutation(len(rows.y))
    first, second, third, rest = np.split(order, [SAMPLE, 2 * SAMPLE, 3 * SAMPLE])
    networks = [Network(rows, first, grid, seed), Network(rows, second, grid, seed)]
    scores, test = (np.column_stack([one.scores(places) for one in networks]) for places in (third, rest))
    return Round(scores, rows.y[third], test, rows.y[rest])
