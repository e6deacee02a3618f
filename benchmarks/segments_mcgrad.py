"""MCGrad, multicalibration by gradient boosting, as a rival of `Segmented`: a table of segments_measured.md.

    pip install mcgrad                                                           # 0.1.5, MIT; brings PyTorch
    STREAMCAL_DATA=/path/to/data python -m benchmarks.segments_mcgrad            # half an hour; writes the table
    STREAMCAL_DATA=/path/to/data python -m benchmarks.segments_mcgrad --rows 8000 --names adult    # prints only

MCGrad (Tax and others, KDD 2026, arXiv 2509.19884) is fitted to a batch. Here it is fitted anew after every tenth of a
stream, to all rows before, with its default parameters, the raw score and the same four fields, and predicts the next
tenth; `Auto` and `Segmented` go through the same stream, and the first tenth is not counted for anyone. "On `Auto`" it
takes the forecasts of `Auto` in place of the raw score, as `Segmented` does.
"""

from __future__ import annotations

import argparse
import datetime
import logging
import re
import time
import warnings
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pandas as pd

import streamcal
from benchmarks.segments import MARKS, PAGE, Stream, nats, segmented, shown, streams
from benchmarks.streams.tables import Array
from streamcal import Auto

PARTS = 10


def tenths(n: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of each tenth but the first."""
    edges = [n * k // PARTS for k in range(PARTS + 1)]
    yield from pairwise(edges[1:])


def mcgrad(stream: Stream, scores: Array) -> Array:
    """Forecasts of all rows but those of the first tenth, where they are NaN."""
    from mcgrad import methods

    table = pd.DataFrame({name: [str(value) for value in values] for name, values in stream.fields.items()})
    table["score"], table["label"] = scores, stream.y.astype(int)
    names, p = list(stream.fields), np.full(len(scores), np.nan)
    for start, end in tenths(len(scores)):
        model = methods.MCGrad()
        before, after = table.iloc[:start], table.iloc[start:end]
        model.fit(before, "score", "label", categorical_feature_column_names=names)
        p[start:end] = model.predict(after, "score", categorical_feature_column_names=names)
    return p


def row(name: str, stream: Stream) -> str:
    """Nats against `Auto`, ± a standard error, and the processor minutes of the first column of MCGrad."""
    base = Auto().predict_learn_many(stream.scores, stream.y)
    start = time.process_time()
    found = [mcgrad(stream, stream.scores)]
    minutes = (time.process_time() - start) / 60.0
    found += [mcgrad(stream, base), segmented(stream, base), segmented(stream, base, pairs=True)]
    found.append(segmented(stream, base, chosen=True))
    counted = slice(len(base) // PARTS, None)
    against = (nats(p[counted], base[counted], stream.y[counted]) for p in found)
    return f"| {name} | {' | '.join(shown([one]) for one in against)} | {minutes:.1f} |"


def main(arguments: list[str] | None = None) -> None:
    """Measure MCGrad beside `Segmented`, and write the table of a full run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--rows", type=int, help="of each table; prints, writes nothing")
    parser.add_argument("--names", nargs="+", help="streams whose name begins so; prints, writes nothing")
    given = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    lines = [
        "| stream | MCGrad | MCGrad on `Auto` | `Segmented` | pairs named | `pairs=True` | minutes of MCGrad |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, parts in streams(given.rows, 1):
        if given.names is None or name.startswith(tuple(given.names)):
            lines.append(row(name, parts[0]))
            print(lines[-1], flush=True)
    lines += [
        "",
        f"`python -m benchmarks.segments_mcgrad`, streamcal {streamcal.__version__}, {datetime.date.today()}.",
    ]
    if given.rows is None and given.names is None:
        text = PAGE.read_text(encoding="utf-8")
        pattern = MARKS.format("mcgrad", "mcgrad")
        PAGE.write_text(re.sub(pattern, lambda _: "\n".join(lines) + "\n", text, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
