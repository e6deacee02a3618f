"""The multiclass methods on two real streams, with every probability predicted before its outcome was learned.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.multiclass            # writes docs/many_classes_measured.md
    python -m benchmarks.multiclass --rows 500                              # shortened, prints only

Cover types: a multinomial logistic regression is trained on the first 15,120 rows, in which the seven types are equally
frequent, and then served unchanged, while the frequencies in the stream differ. Image segments: a naive Bayes
classifier predicts each row, then learns it. No setting was chosen on these results: every method has its defaults, and
all methods that forget have the same window.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import gzip
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from river import datasets, naive_bayes, preprocessing
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import streamcal
from streamcal import Beta, Isotonic, Window
from streamcal.metrics import ClasswiseECE, MulticlassBrier, MulticlassLogLoss
from streamcal.multiclass import (
    Dirichlet,
    MulticlassCalibrator,
    MulticlassVennAbers,
    OneVsRest,
    OnlineVectorScaling,
    StructuredMatrixScaling,
    TemperatureScaling,
    VectorScaling,
)

PAGE = Path(__file__).resolve().parents[1] / "docs" / "many_classes_measured.md"
COVERTYPE = "covtype.csv.gz"
#: Rows the model of the cover types learns: they are balanced, the rest is not.
TRAINING = 15_120
COVERTYPE_ROWS = 20_000
WINDOW = Window(5_000)
Array = npt.NDArray[np.float64]
#: What the methods are compared with.
SCORES = "the scores"

METHODS: dict[str, Callable[[], MulticlassCalibrator]] = {
    "`OneVsRest(Beta)`": lambda: OneVsRest(Beta(forgetting=WINDOW)),
    "`OneVsRest(Isotonic)`": lambda: OneVsRest(Isotonic(forgetting=WINDOW)),
    '`OneVsRest("online-platt")`': lambda: OneVsRest("online-platt"),
    "`TemperatureScaling`": lambda: TemperatureScaling(forgetting=WINDOW),
    "`VectorScaling`": lambda: VectorScaling(forgetting=WINDOW),
    "`Dirichlet`": lambda: Dirichlet(forgetting=WINDOW),
    "`StructuredMatrixScaling`": lambda: StructuredMatrixScaling(forgetting=WINDOW),
    "`OnlineVectorScaling`": lambda: OnlineVectorScaling(),
    '`MulticlassVennAbers("ovr")`': lambda: MulticlassVennAbers("ovr", forgetting=WINDOW),
    '`MulticlassVennAbers("ovo")`': lambda: MulticlassVennAbers("ovo", forgetting=WINDOW),
}


#: The method that blocks harm most.
FOLLOWS = '`OneVsRest("online-platt")`'
#: The methods with a limit, and the limits that are compared.
LIMITED = (TemperatureScaling, VectorScaling, Dirichlet, StructuredMatrixScaling)
LIMITS = (500, 1_000, 2_000, None)


class Stream(NamedTuple):
    """Scores of shape (n, K), the labels of their columns, the labels that came, and rows predicted at a time."""

    scores: Array
    labels: list[Any]
    y: list[Any]
    block: int


def covertype(folder: Path, rows: int) -> Stream:
    """Return the scores of a model of the first, balanced rows, for the rows that follow."""
    with gzip.open(folder / COVERTYPE, "rt", newline="") as file:
        reader = csv.reader(file)
        next(reader)
        table = np.array([row for _, row in zip(range(TRAINING + rows), reader, strict=False)], dtype=np.float64)
    x, y = table[:, :-1], table[:, -1].astype(int)
    model = make_pipeline(StandardScaler(), LogisticRegression(solver="newton-cholesky")).fit(
        x[:TRAINING], y[:TRAINING]
    )
    return Stream(model.predict_proba(x[TRAINING:]), model.classes_.tolist(), y[TRAINING:].tolist(), 250)


def image_segments(rows: int) -> Stream:
    """Return the scores of a model that learns each row after predicting it; rows without a prediction are dropped."""
    model = preprocessing.StandardScaler() | naive_bayes.GaussianNB()
    found, y = [], []
    for x, label in datasets.ImageSegments().take(rows):
        scores = model.predict_proba_one(x)
        if scores:
            found.append(scores)
            y.append(label)
        model.learn_one(x, label)
    labels = sorted({label for scores in found for label in scores})
    return Stream(np.array([[scores.get(label, 0.0) for label in labels] for scores in found]), labels, y, 10)


def prequential(build: Callable[[], MulticlassCalibrator] | None, stream: Stream) -> tuple[Array, float]:
    """Return the probabilities, each block predicted and then learned, and the microseconds per row."""
    if build is None:
        return stream.scores, 0.0
    cal, predicted, start = build(), [], time.perf_counter()
    for first in range(0, len(stream.y), stream.block):
        rows = slice(first, first + stream.block)
        predicted.append(cal.predict_many(stream.scores[rows], labels=stream.labels))
        cal.learn_many(stream.scores[rows], stream.y[rows], labels=stream.labels)
    return np.concatenate(predicted), 1e6 * (time.perf_counter() - start) / len(stream.y)


class Row(NamedTuple):
    """The results of a method on a stream."""

    log_loss: float
    brier: float
    ece: float
    cost: float  #: microseconds a row


def measured(stream: Stream) -> dict[str, Row]:
    """Measure every method, and the raw scores."""
    rows = {}
    for name, build in {SCORES: None, **METHODS}.items():
        p, cost = prequential(build, stream)
        measures = (MulticlassLogLoss(), MulticlassBrier(), ClasswiseECE())
        for measure in measures:
            measure.update_many(stream.y, p, labels=stream.labels)
        rows[name] = Row(*(measure.get() for measure in measures), cost)
        print(line_of(name, rows[name]), flush=True)
    return rows


def line_of(name: str, row: Row) -> str:
    """Write a line of the table."""
    values = " | ".join(f"{value:.4f}" for value in row[:3])
    return f"| {name} | {values} | {'–' if name == SCORES else f'{row.cost:,.0f}'} |"


def table_of(rows: dict[str, Row]) -> str:
    """Write a table with a line for each method."""
    head = ["| | log loss | Brier | classwise ECE | µs a row |", "|---|---:|---:|---:|---:|"]
    return "\n".join([*head, *(line_of(*item) for item in rows.items())])


def by_limit(stream: Stream) -> str:
    """Log loss on a fifth of the rows after learning the others, in random order, for each limit of score vectors."""
    order = np.random.default_rng(0).permutation(len(stream.y))
    scores, y = stream.scores[order], [stream.y[place] for place in order]
    first = len(y) * 4 // 5
    lines = [
        "| | " + " | ".join(f"{limit:,}" if limit else "none" for limit in LIMITS) + " |",
        "|---|" + "---:|" * len(LIMITS),
    ]
    for method in LIMITED:
        losses = []
        for limit in LIMITS:
            cal, loss = method(limit=limit), MulticlassLogLoss()
            cal.learn_many(scores[:first], y[:first], labels=stream.labels)
            loss.update_many(y[first:], cal.predict_many(scores[first:], labels=stream.labels), labels=stream.labels)
            losses.append(f"{loss.get():.5f}")
        lines.append(f"| `{method.__name__}` | " + " | ".join(losses) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def row_by_row(cover: Stream, segments: Stream) -> str:
    """Write the log loss of `FOLLOWS` where each row is learned before the next is predicted."""
    losses = []
    for stream in (cover, segments):
        loss = MulticlassLogLoss()
        loss.update_many(stream.y, prequential(METHODS[FOLLOWS], stream._replace(block=1))[0], labels=stream.labels)
        losses.append(loss.get())
    return (
        f"{FOLLOWS} weighs its memories by what they predicted of the next row, and blocks hide the next rows. Row by "
        f"row its log loss is {losses[0]:.4f} on the cover types and {losses[1]:.4f} on the image segments."
    )


def reading(cover: dict[str, Row], segments: dict[str, Row]) -> str:
    """Write the summary below the tables, with its figures."""
    both = (("the cover types", cover), ("the image segments", segments))

    def lowest(measure: str) -> str:
        winners = ((where, min(METHODS, key=lambda name: getattr(rows[name], measure))) for where, rows in both)
        return ", ".join(f"{winner} on {where}" for where, winner in winners)

    def apart(one: str, other: str) -> str:
        gaps = ((where, rows[one].log_loss - rows[other].log_loss) for where, rows in both)
        return ", ".join(f"{gap:+.4f} on {where}" for where, gap in gaps)

    lines = [f"Lowest {name}: {lowest(measure)}." for measure, name in MEASURES.items()]
    lines += [f"Log loss of {one} less that of {other}: {apart(one, other)}. {why}" for one, other, why in PAIRS]
    return "\n".join(f"- {line}".rstrip() for line in lines)


PAGE_TEXT = """# Many classes: every method on two real streams

Every probability was predicted before its outcome was learned, cold start included. All methods have their defaults
and, where they forget, a window of the last {window:,} observations. Log loss in nats (a loss is at most 13.8), Brier
score summed over the classes, classwise ECE over 15 bins of equal weight: lower is better.

## Cover types: class frequencies differ from training

{covertype_rows:,} rows, seven classes. A multinomial logistic regression was trained on the {training:,} rows before
them, in which all types are equally frequent; in the stream they are not.

{covertype}

## Image segments: a base model that keeps learning

{segments_rows:,} rows, seven classes. A Gaussian naive Bayes classifier on standardised features, overconfident by
nature, predicts each row and then learns it.

{segments}

## Fixed memory: the limit of distinct score vectors

Log loss on a fifth of the cover types, after the others in random order under `Forever()`, by `limit`: the score
vectors that are kept, beyond which they share cells. With "none" the fit is exact, and its time grows with the rows.

{limits}

## Reading

{reading}
- {row_by_row}

## How it was made

- Cover types are predicted in blocks of {covertype_block} rows, each learned as a whole afterwards; image segments in
  blocks of {segments_block}. Methods that solve for a map do so once a block.
- Microseconds of predicting and learning are means over the rows, on a machine shared with other work: orders of
  magnitude only.
- One pass over one order of each stream: differences in the third decimal are not reliable.
- `STREAMCAL_DATA=… python -m benchmarks.multiclass`, {date}, streamcal {streamcal}, numpy {numpy}.
"""

#: What is compared, by name.
MEASURES = {"log_loss": "log loss", "brier": "Brier score", "ece": "classwise ECE", "cost": "time a row"}
#: Two methods, and what to know of their difference.
PAIRS = (
    ("`OnlineVectorScaling`", "`VectorScaling`", "It stores only its parameters and their curvature."),
    ("`Dirichlet`", "`VectorScaling`", "It has 56 parameters for seven classes, and the other 14."),
    ("`StructuredMatrixScaling`", "`Dirichlet`", "It has a penalty for each level of the matrix."),
    ("`TemperatureScaling`", SCORES, "One slope cannot repair wrong class frequencies."),
    ("`OneVsRest(Beta)`", "`OneVsRest(Isotonic)`", ""),
    (
        '`MulticlassVennAbers("ovo")`',
        '`MulticlassVennAbers("ovr")`',
        "A pair learns from the rows that were one of the two: from two in seven, if types are equally frequent.",
    ),
)


def main() -> None:
    """Measure the methods on both streams, and write the page of a full run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, help="rows of each stream; nothing is written then")
    rows = parser.parse_args().rows
    segments = image_segments(rows or 10_000)
    segments_rows = measured(segments)
    if "STREAMCAL_DATA" not in os.environ:
        print("Set STREAMCAL_DATA to the folder of covtype.csv.gz for the cover types.")
        return
    cover = covertype(Path(os.environ["STREAMCAL_DATA"]), rows or COVERTYPE_ROWS)
    cover_rows = measured(cover)
    if rows is None:
        page = PAGE_TEXT.format(
            window=int(WINDOW.size),  # type: ignore[arg-type]
            training=TRAINING,
            covertype_rows=len(cover.y),
            covertype=table_of(cover_rows),
            covertype_block=cover.block,
            limits=by_limit(cover),
            segments_rows=len(segments.y),
            segments=table_of(segments_rows),
            segments_block=segments.block,
            reading=reading(cover_rows, segments_rows),
            row_by_row=row_by_row(cover, segments),
            date=datetime.date.today().isoformat(),
            streamcal=streamcal.__version__,
            numpy=np.__version__,
        )
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
