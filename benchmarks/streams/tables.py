"""The real tables: features and labels in the order of their files (README: what is left out, shuffled, thinned)."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

#: Every so many-th row of covtype is taken: 58,102 of 581,012, from all of the file.
COVTYPE_STEP = 10
#: The same of the survey of the CDC: 50,736 of 253,680.
CDC_STEP = 5
SHUFFLE_SEED = 0


class Table(NamedTuple):
    """Features by column, and labels."""

    numbers: dict[str, Array]
    words: dict[str, list[str]]
    y: Flags


class Source(NamedTuple):
    """How a table is read: its files one after the other, its label, and which columns are words or left out."""

    files: tuple[str, ...]
    target: str
    positive: str
    words: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    #: Where given, all other columns are words.
    numbers: tuple[str, ...] = ()
    step: int = 1
    shuffled: bool = False


_BANK_WORDS = ("job", "marital", "education", "default", "housing", "loan", "contact", "month", "poutcome")

SOURCES = {
    "elec2": Source(("elec2",), "class", "UP", left_out=("date",)),
    "bank_full": Source(("bank_full",), "y", "yes", _BANK_WORDS, ("duration",)),
    "adult": Source(
        ("adult_train", "adult_test"),
        "income",
        ">50K",
        numbers=("age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"),
    ),
    "covtype": Source(("covtype",), "Cover_Type", "2", step=COVTYPE_STEP),
    "bank_additional": Source(("bank_additional_full",), "y", "yes", (*_BANK_WORDS, "day_of_week"), ("duration",)),
    "spambase": Source(("spambase",), "spam", "1", shuffled=True),
    "census": Source(
        ("census_income_kdd_test",),
        "income",
        "50000+",
        left_out=("instance_weight",),
        numbers=(
            *("age", "wage_per_hour", "capital_gains", "capital_losses", "dividends"),
            *("num_persons_worked_for_employer", "weeks_worked"),
        ),
    ),
    "dota2": Source(("dota2_train", "dota2_test"), "win", "1", ("cluster", "game_mode", "game_type")),
    # Not of the race: `benchmarks.ad_streams`.
    "open_bandit": Source(
        ("open_bandit_sample",),
        "click",
        "1",
        left_out=("timestamp", "propensity_score"),
        numbers=("shown_item_affinity",),
    ),
    # The same: `benchmarks.segments --pairs`.
    "cdc": Source(
        ("cdc_diabetes_brfss2015",), "Diabetes_binary", "1", ("GenHlth", "Age", "Education", "Income"), step=CDC_STEP
    ),
    "coil2000": Source(("coil2000_train", "coil2000_eval"), "CARAVAN", "1", ("MOSTYPE", "MOSHOOFD")),
}


def path_of(file: str) -> Path:
    """Return the file in `$STREAMCAL_DATA`; exit if the file is not there."""
    folder = os.environ.get("STREAMCAL_DATA")
    if not folder:
        raise SystemExit("set STREAMCAL_DATA to the folder of the data sets (benchmarks/streams/README.md)")
    path = Path(folder, f"{file}.csv.gz")
    if not path.is_file():
        raise SystemExit(f"{path.name} is not in STREAMCAL_DATA: put it there, or leave its streams out with --streams")
    return path


def rows_of(file: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a file, by column."""
    with gzip.open(path_of(file), "rt", encoding="utf-8", newline="") as text:
        yield from csv.DictReader(text)


def table(name: str, rows: int | None = None) -> Table:
    """Return a table, or its first `rows` rows."""
    source = SOURCES[name]
    read = islice(chain.from_iterable(map(rows_of, source.files)), 0, None, source.step)
    kept = list(read if source.shuffled else islice(read, rows))
    if source.shuffled:
        kept = [kept[i] for i in np.random.default_rng(SHUFFLE_SEED).permutation(len(kept))[:rows]]
    columns = [column for column in kept[0] if column != source.target and column not in source.left_out]
    words = [c for c in columns if (c not in source.numbers if source.numbers else c in source.words)]
    return Table(
        numbers={c: np.array([float(row[c]) for row in kept]) for c in columns if c not in words},
        words={c: [row[c] for row in kept] for c in words},
        y=np.array([row[source.target] == source.positive for row in kept]),
    )


def served(file: str, rows: int | None = None) -> tuple[Array, Flags]:
    """Return the click probabilities that a model served, and the clicks (iPinYou)."""
    kept = list(islice(rows_of(file), rows))
    return np.array([float(row["pctr"]) for row in kept]), np.array([row["click"] == "1" for row in kept])
