"""Public data sets, whose origin, licence and changes are in the README of this folder; and simulated ones."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from streamcal.datasets.ads import AdClicks, ad_click_chunks, ad_clicks
from streamcal.datasets.fetching import fetch

__all__ = ["BANK_CATEGORICAL", "BANK_NUMERIC", "BANK_ROWS", "AdClicks", "ad_click_chunks", "ad_clicks", "bank", "fetch"]

#: Numeric columns of `bank`; the others are categorical.
BANK_NUMERIC = (
    "age",
    "campaign",
    "pdays",
    "previous",
    "emp.var.rate",
    "cons.price.idx",
    "cons.conf.idx",
    "euribor3m",
    "nr.employed",
)
BANK_CATEGORICAL = (
    "job",
    "marital",
    "education",
    "default",
    "housing",
    "loan",
    "contact",
    "month",
    "day_of_week",
    "poutcome",
)
BANK_ROWS = 41_188


def bank() -> Iterator[tuple[dict[Any, float | str], bool]]:
    """Stream UCI Bank Marketing: features of a phone call, and whether the client subscribed.

    41,188 calls in date order, May 2008 to November 2010, 4,640 of them positive; the rate drifts from below 3 % to
    above 40 %. The column `duration`, known only after the outcome, is left out. Licence CC BY 4.0.

    Yields
    ------
    tuple of (dict, bool)
        Features, floats for the names of `BANK_NUMERIC` and strings for those of `BANK_CATEGORICAL` ("unknown" is a
        category), and the label.

    Notes
    -----
    Cost: about 0.2 s for the whole stream. It is read lazily, with memory for one row.

    References
    ----------
    S. Moro, P. Cortez and P. Rita, A data-driven approach to predict the success of bank telemarketing, Decision
    Support Systems 62, 2014.

    Examples
    --------
    >>> features, y = next(bank())
    >>> features["age"], features["job"], y
    (56.0, 'housemaid', False)
    """
    with (
        files(__name__).joinpath("bank.csv.gz").open("rb") as packed,
        gzip.open(packed, "rt", encoding="utf-8", newline="") as text,
    ):
        rows = csv.reader(text)
        header = next(rows)
        numeric = [(name, header.index(name)) for name in BANK_NUMERIC]
        words = [(name, header.index(name)) for name in BANK_CATEGORICAL]
        for row in rows:
            features: dict[str, float | str] = {name: float(row[i]) for name, i in numeric}
            features.update((name, row[i]) for name, i in words)
            yield features, row[-1] == "yes"
