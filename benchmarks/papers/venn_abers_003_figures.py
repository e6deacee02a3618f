"""Figures 1 to 14 of paper 003 (Vovk, Petej and Fedorova 2015): losses against the split of the training set.

    python -m benchmarks.papers.venn_abers_003_figures --jobs 16                        # the paper's sizes: many hours
    python -m benchmarks.papers.venn_abers_003_figures --rows 1000 --grid 2             # smaller training sets
    python -m benchmarks.papers.venn_abers_003_figures --sets German Spambase           # these alone; others stay
    python -m benchmarks.papers.venn_abers_003_figures --draw-only                      # from the kept results
    python -m benchmarks.papers.venn_abers_003_figures --sets German --learners logistic --rows 120 --print-only

Six data sets; Adult a second time, permuted and with more splits. The result of a split is kept in `--results` as soon
as it is there, so that a run goes on where the last one ended; with other `--rows` or `--grid` than before, a data set
begins anew. What has not been computed at all splits of a base learner and a data set is left out of the page, which
says so.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import gzip
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning

import streamcal
from benchmarks.papers import save
from benchmarks.papers import venn_abers_003 as tables
from benchmarks.papers.fusion_data import local
from benchmarks.papers.venn_abers_003 import LEARNERS, Learner, Loss, Rows, brier, loss, scores
from streamcal import CrossVennAbers, Interval, VennAbers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "papers" / "venn_abers_003_figures.md"
RESULTS = PAGE.with_suffix(".json")
#: What is permuted or drawn is so by this seed.
SEED = 0
#: Proper training set : calibration set. CVAP has as many folds as the sum.
RATIOS = ("1:1", "2:1", "3:1", "4:1")
#: The column in which the whole training set is both; CVAP has none.
ALL = "all"
WIDE = (*(f"1:{k}" for k in range(9, 0, -1)), *(f"{k}:1" for k in range(2, 10)))
METHODS = ("Underlying", "Platt", "Isotonic", "IVAP", "CVAP")
#: Colours of Okabe and Ito, which colour-blind readers can tell apart, and a marker for each method.
STYLES = {
    "Underlying": ("#000000", "s", ":"),
    "Platt": ("#e69f00", "^", "--"),
    "Isotonic": ("#56b4e9", "v", "--"),
    "IVAP": ("#0072b2", "o", "-"),
    "CVAP": ("#d55e00", "D", "-"),
}


#: The warning of the networks, which are meant to end after 60 passes.
MEANT_TO_STOP = "Stochastic Optimizer"


class Source(NamedTuple):
    """A data set of the figures: training and test set, the numbers of its figures, and its columns."""

    read: Callable[[], tuple[Rows, Rows]]
    figures: str
    columns: tuple[str, ...]


#: data set → base learner → column → method → log loss and Brier loss. An infinite log loss is None.
Results = dict[str, dict[str, dict[str, dict[str, list[float | None]]]]]


# -- data --------------------------------------------------------------------------------------------------------


def table(names: tuple[str, ...], target: str, positive: str, nominal: Callable[[str, str], bool]) -> Rows:
    """Files with one header below each other; a column is nominal where the function says so of name and first cell."""
    cells: list[list[str]] = []
    header: list[str] = []
    for name in names:
        with gzip.open(local(f"{name}.csv.gz"), "rt", newline="") as file:
            header, *more = csv.reader(file)
        cells += more
    columns = {name: list(column) for name, column in zip(header, zip(*cells, strict=True), strict=True)}
    y = np.array([value == positive for value in columns.pop(target)], dtype=np.float64)
    words = [name for name, column in columns.items() if nominal(name, column[0])]
    x = [np.array(column, dtype=np.float64) for name, column in columns.items() if name not in words]
    values = []
    for name in words:
        known, place = np.unique(columns[name], return_inverse=True)
        x.append(place.astype(np.float64))
        values.append(len(known))
    return Rows(np.column_stack(x), y, values)


def is_text(name: str, cell: str) -> bool:
    """Return whether a cell is no number."""
    return not cell.removeprefix("-").replace(".", "", 1).isdigit()


def two_to_one(rows: Rows) -> tuple[Rows, Rows]:
    """Split into the first two thirds and the rest, in the order of the file."""
    size = math.ceil(2 * len(rows.y) / 3)
    return rows.take(slice(0, size)), rows.take(slice(size, None))


def permuted(rows: Rows) -> Rows:
    """Return the rows in random order."""
    return rows.take(np.random.default_rng(SEED).permutation(len(rows.y)))


def adult() -> Rows:
    """Read the Adult data set."""
    return tables.read(ADULT_TRAIN)


def adult_split(rows: Rows) -> tuple[Rows, Rows]:
    """Split the Adult data set into its training and test rows."""
    return rows.take(slice(0, ADULT_TRAIN)), rows.take(slice(ADULT_TRAIN, None))


def covertype() -> tuple[Rows, Rows]:
    """Return the largest class against the rest: 5,000 random rows to train, 25,000 to test."""
    rows = permuted(table(("covtype",), "Cover_Type", "2", lambda name, cell: False))
    return rows.take(slice(0, 5_000)), rows.take(slice(5_000, 30_000))


def insurance() -> tuple[Rows, Rows]:
    """Both files of COIL 2000; the types of customers are nominal."""
    names = ("coil2000_train", "coil2000_eval")
    return two_to_one(table(names, "CARAVAN", "1", lambda name, cell: name in ("MOSTYPE", "MOSHOOFD")))


ADULT_TRAIN = 32_561
SOURCES = {
    "Adult": Source(lambda: adult_split(adult()), "1 and 2", (*RATIOS, ALL)),
    "Covertype": Source(covertype, "3 and 4", (*RATIOS, ALL)),
    "Insurance": Source(insurance, "5 and 6", (*RATIOS, ALL)),
    "Bank": Source(lambda: two_to_one(table(("bank_full",), "y", "yes", is_text)), "7 and 8", (*RATIOS, ALL)),
    # The file begins with all of the spam: in its order every test row would be no spam.
    "Spambase": Source(
        lambda: two_to_one(permuted(table(("spambase",), "spam", "1", is_text))), "9 and 10", (*RATIOS, ALL)
    ),
    "German": Source(
        lambda: two_to_one(table(("german_credit",), "credit_risk", "1", is_text)), "11 and 12", (*RATIOS, ALL)
    ),
    "Adult, permuted": Source(lambda: adult_split(permuted(adult())), "13 and 14", WIDE),
}


def some(rows: Rows, most: int | None) -> Rows:
    """Draw at most `most` rows at random, and keep their order."""
    if most is None or len(rows.y) <= most:
        return rows
    return rows.take(np.sort(np.random.default_rng(SEED).choice(len(rows.y), most, replace=False)))


# -- losses ------------------------------------------------------------------------------------------------------


def of_methods(learner: Learner, proper: Rows, rest: Rows, test: Rows) -> Iterator[tuple[str, Loss]]:
    """Yield the losses of the base and of each method with one calibration set, tuned by Brier loss on that set."""
    bases = [learner.make(p, SEED, proper).fit(proper.x, proper.y) for p in learner.grid]
    seen = [scores(base, rest.x) for base in bases]
    if hasattr(bases[0], "predict_proba"):
        best = bases[int(np.argmin([brier(at, rest.y) for at in seen]))]
        yield "Underlying", loss(scores(best, test.x), test.y)
    for name, make in zip(("Platt", "Isotonic", "IVAP"), tables.SINGLE.values(), strict=True):
        fitted = []
        for at in seen:
            fitted.append(make())
            fitted[-1].learn_many(at, rest.y)
        own = [brier(cal.predict_many(at), rest.y) for cal, at in zip(fitted, seen, strict=True)]
        best_place = int(np.argmin(own))
        yield name, loss(fitted[best_place].predict_many(scores(bases[best_place], test.x)), test.y)


def of_cvap(learner: Learner, train: Rows, test: Rows, first: int, second: int) -> Loss:
    """CVAP at `first`:`second`, one of which is 1; at 1:k a fold is the proper training set, the rest calibrates."""
    folds = np.array_split(np.arange(len(train.y)), first + second)
    found: list[tuple[float, int, CrossVennAbers, list[Any]]] = []
    for parameter in learner.grid:
        cal, bases, own = CrossVennAbers(folds=len(folds), scale=Interval()), [], 0.0
        for k, fold in enumerate(folds):
            others = np.setdiff1d(np.arange(len(train.y)), fold)
            proper, held = (fold, others) if second > first else (others, fold)
            bases.append(learner.make(parameter, SEED, train).fit(train.x[proper], train.y[proper]))
            at = scores(bases[-1], train.x[held])
            cal.learn_many(at, train.y[held], fold=k)
            alone = VennAbers(scale=Interval())
            alone.learn_many(at, train.y[held])
            own += float(np.sum((alone.predict_many(at) - train.y[held]) ** 2))
        found.append((own, len(found), cal, bases))
    _, _, cal, bases = min(found, key=lambda choice: choice[:2])
    return loss(cal.predict_many(np.column_stack([scores(base, test.x) for base in bases])), test.y)


def at_column(learner: Learner, train: Rows, test: Rows, column: str) -> dict[str, list[float | None]]:
    """Log and Brier loss of every method at one split."""
    if column == ALL:
        found = dict(of_methods(learner, train, train, test))
    else:
        first, second = map(int, column.split(":"))
        size = math.ceil(len(train.y) * first / (first + second))
        found = dict(of_methods(learner, train.take(slice(0, size)), train.take(slice(size, None)), test))
        found["CVAP"] = of_cvap(learner, train, test, first, second)
    return {
        name: [None if math.isinf(one.log) else round(one.log, DIGITS), round(one.brier, DIGITS)]
        for name, one in found.items()
    }


class Split(NamedTuple):
    """A base learner on a data set at one split; at most so many rows and parameters."""

    data_set: str
    learner: str
    column: str
    rows: int | None
    grid: int | None


class Computed(NamedTuple):
    """The losses of every method, seconds of processor time, and how many fits warned that they had not converged."""

    losses: dict[str, list[float | None]]
    seconds: float
    warned: int


@cache
def read(name: str, rows: int | None) -> tuple[Rows, Rows]:
    """Training and test set."""
    train, test = SOURCES[name].read()
    return some(train, rows), some(test, None if rows is None else TESTED * rows)


def computed(split: Split) -> Computed:
    """Compute the losses of one split."""
    start = time.process_time()
    learner = LEARNERS[split.learner]
    shorter = learner._replace(grid=thinned(learner.grid, split.grid))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        losses = at_column(shorter, *read(split.data_set, split.rows), split.column)
    warned = sum(
        issubclass(one.category, ConvergenceWarning) and not str(one.message).startswith(MEANT_TO_STOP)
        for one in caught
    )
    return Computed(losses, time.process_time() - start, warned)


def run(given: argparse.Namespace, found: Results) -> Iterator[tuple[Split, Computed]]:
    """Yield all splits that are not found yet, as they are computed."""
    splits = [
        Split(name, learner, column, given.rows, given.grid)
        for learner in given.learners
        for name in given.sets
        for column in SOURCES[name].columns
        if column not in found.get(name, {}).get(learner, {})
    ]
    with ProcessPoolExecutor(given.jobs) as pool:
        tasks = {pool.submit(computed, split): split for split in splits}
        for task in as_completed(tasks):
            yield tasks[task], task.result()


#: Test rows for each training row of a smaller run, and the digits of a loss that are kept.
TESTED, DIGITS = 5, 5


def thinned(grid: list[Any], most: int | None) -> list[Any]:
    """Return at most `most` parameters, spread over the grid."""
    if most is None or len(grid) <= most:
        return grid
    return [grid[round((k + 0.5) * len(grid) / most - 0.5)] for k in range(most)]


# -- figures -----------------------------------------------------------------------------------------------------


def drawn(of_set: dict[str, dict[str, dict[str, list[float | None]]]], path: Path) -> None:
    """Log losses above, Brier losses below, one column of axes for each base learner."""
    figure = Figure(figsize=(2.45 * len(of_set), 5.0), layout="constrained")
    axes = figure.subplots(2, len(of_set), squeeze=False)
    for place, (learner, columns) in enumerate(of_set.items()):
        for kind, name in enumerate(("log loss", "Brier loss")):
            panel(axes[kind, place], columns, kind)
            axes[kind, place].set_title(f"{learner}\n{name}" if kind == 0 else name, fontsize=9)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(METHODS), frameon=False)
    save(figure, path, dpi=75)


def panel(axis: Any, columns: dict[str, dict[str, list[float | None]]], kind: int) -> None:
    """Draw one base learner and one loss; the axis cuts off values far above the median."""
    names, shown = list(columns), []
    for method in METHODS:
        colour, marker, line = STYLES[method]
        values = [columns[name].get(method, [None, None])[kind] for name in names]
        points = [math.nan if value is None else value for value in values]
        axis.plot(names, points, color=colour, marker=marker, ls=line, ms=3.5, lw=1.2, label=method)
        shown += [value for value in values if value is not None]
    low, middle = min(shown), float(np.median(shown))
    axis.set_ylim(low - 0.15 * (middle - low) - 1e-3, middle + 2.5 * (middle - low) + 1e-3)
    axis.tick_params(labelsize=7)
    axis.tick_params(axis="x", rotation=90 if len(names) > 6 else 0)


# -- the page ----------------------------------------------------------------------------------------------------


def at_four_to_one(found: Results, kind: int) -> str:
    """Write the losses at 4:1, by data set and base learner."""
    lines = [f"| {('log loss', 'Brier loss')[kind]} | base learner | " + " | ".join(METHODS) + " |"]
    lines.append("|---|---|" + "---:|" * len(METHODS))
    for name, of_set in found.items():
        for learner, columns in of_set.items():
            cells = []
            for method in METHODS:
                value = columns["4:1"].get(method, ["–", "–"])[kind]
                cells.append("∞" if value is None else value if isinstance(value, str) else f"{value:.4f}")
            lines.append(f"| {name} | {learner} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def number(value: float | None) -> float:
    """Return a loss as a number; infinity for None."""
    return math.inf if value is None else value


def counted(found: Results, kind: int) -> str:
    """Count the pairs of data set and base learner in which each method has the least loss at 4:1, by data set."""
    lines = ["| least at 4:1 | " + " | ".join(METHODS) + " |", "|---|" + "---:|" * len(METHODS)]
    for name, of_set in found.items():
        best = [
            min(columns["4:1"], key=lambda method, c=columns: number(c["4:1"][method][kind]))
            for columns in of_set.values()
        ]
        lines.append(f"| {name} | " + " | ".join(str(best.count(method)) for method in METHODS) + " |")
    return "\n".join(lines)


def changed_by_all(found: Results) -> str:
    """Write the Brier loss in the column "all" less that at 4:1, by base learner: mean over data sets and extremes."""
    lines = ["| all less 4:1, Brier loss | Platt | Isotonic | IVAP |", "|---|---:|---:|---:|"]
    for learner in LEARNERS:
        columns = [of_set[learner] for of_set in found.values() if learner in of_set and ALL in of_set[learner]]
        if not columns:
            continue
        cells = []
        for method in ("Platt", "Isotonic", "IVAP"):
            apart = [number(one[ALL][method][1]) - number(one["4:1"][method][1]) for one in columns]
            cells.append(f"{np.mean(apart):+.4f} ({min(apart):+.4f} to {max(apart):+.4f})")
        lines.append(f"| {learner} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def steadiness(found: Results) -> str:
    """Write the mean range of the Brier loss over the splits except "all", over data sets and learners."""
    parts = []
    for method in METHODS:
        ranges = []
        for of_set in found.values():
            for columns in of_set.values():
                values = [one[method][1] for name, one in columns.items() if name != ALL and method in one]
                if values:
                    ranges.append(max(map(number, values)) - min(map(number, values)))
        parts.append(f"{method} {np.mean(ranges):.4f}")
    return ", ".join(parts)


def picture(name: str) -> str:
    """Return the file name of a data set's picture."""
    return f"venn_abers_003_{name.lower().replace(', ', '_')}.png"


PAGE_TEXT = """# Paper 003: Figures 1 to 14, losses against the split

Vovk, Petej and Fedorova, *Large-scale probabilistic predictors with and without guarantees of validity* (2015), §6 and
"Additional experimental results". Horizontal axis: proper training set : calibration set; CVAP has as many folds as
the sum, at 1 : k with one fold as the proper training set and the others for calibration. In "all" the whole training
set is both, and there is no CVAP. Log loss to base 2, Brier loss 4·(y − p)²; "Underlying" is the base itself (the
SVM has no probability). The base learners are those of [the tables](venn_abers_003.md), scikit-learn's in place of
Weka's, so that curves can be similar and not equal; the paper prints the figures without numbers, so that only what
its text says about them can be compared. An axis shows what is near the median, and cuts off what is far above it, as
the paper does; infinite losses are missing.

{sizes} At each split the parameter is that of the least Brier loss on the calibration set.{left_out}

{figures}
## Losses at 4:1

{log}

{brier}

## Reading

The paper's text on its figures, and what came out here:

- **"The CVAP results tend to be at the bottom of the plots"**, on German Credit "mixed". Number of base learners for
  which a method has the least loss at 4:1; log loss, then Brier loss:

{count_log}

{count_brier}

- **"The values for the all column are so unstable"**, poor for bagged J48 above all. Brier loss there less that at 4:1,
  mean over the data sets and extremes:

{all}

- **CVAP is "very stable"**: range of the Brier loss over the splits, mean over data sets and base learners:
  {steady}.
{more}
---

```bash
{command}
```

With `STREAMCAL_DATA` set; {date}, streamcal {streamcal}, scikit-learn {sklearn}, numpy {numpy}. Seed {seed};
{seconds:.0f} s of processor time. {warned}
"""

SETTINGS = """- **Details that the paper does not state.** Insurance is both files of COIL 2000, 9,822 rows, with
  customer types as nominal features. Bank is `bank_full`, 45,211 rows, `duration` included, in the order of the file,
  which is by date: the test set is the last third, with 25.0 % positives against 5.1 % in the first two: no method
  learns that from the training set. Spambase is permuted: the file begins with all of the spam, so that a test set of
  its last third, "without randomization", would hold no spam.
"""


def left_out(found: Results) -> str:
    """List the base learners of the paper that are missing in this run."""
    missing = [
        f"{learner} on {' and '.join(names)}"
        for learner in LEARNERS
        if (names := [name for name, of_set in found.items() if learner not in of_set])
    ]
    return f" Not run: {'; '.join(missing)}." if missing else ""


#: Most rows and most values of a parameter, for each data set; None: all.
Sizes = dict[str, tuple[int | None, int | None]]


def stated(sizes: Sizes) -> str:
    """Describe which data sets have the sizes of the paper, and the sizes of the others."""
    smaller: dict[tuple[int | None, int | None], list[str]] = {}
    for name, size in sizes.items():
        smaller.setdefault(size, []).append(name)
    whole = smaller.pop((None, None), [])
    lines = [f"Training and test sets of the paper's sizes, and all values of each parameter: {'; '.join(whole)}."]
    for (rows, grid), names in smaller.items():
        at_most = [] if rows is None else [f"{rows:,} training rows and {TESTED * rows:,} test rows, drawn at random"]
        at_most += [] if grid is None else [f"{grid} values of each parameter"]
        lines.append(f"**Smaller runs than the paper's**, at most {', and '.join(at_most)}: {'; '.join(names)}.")
    return " ".join(lines if whole else lines[1:])


def commands(sizes: Sizes) -> str:
    """Write the commands that compute the figures again."""
    by_size: dict[tuple[int | None, int | None], list[str]] = {}
    for name, size in sizes.items():
        by_size.setdefault(size, []).append(f'"{name}"' if " " in name else name)
    lines = []
    for (rows, grid), names in by_size.items():
        options = " ".join(f"--{name} {most}" for name, most in (("rows", rows), ("grid", grid)) if most is not None)
        lines.append(f"python -m benchmarks.papers.venn_abers_003_figures --sets {' '.join(names)} {options}".rstrip())
    return "\n".join(lines)


def page(found: Results, sizes: Sizes, seconds: float, warned: int) -> str:
    """Write the page of the documentation."""
    pictures = [
        f"**Figures {SOURCES[name].figures}: {name}**\n\n![{name}]({picture(name)})\n" for name in found if found[name]
    ]
    return PAGE_TEXT.format(
        sizes=stated(sizes),
        left_out=left_out(found),
        figures="\n".join(pictures),
        log=at_four_to_one(found, 0),
        brier=at_four_to_one(found, 1),
        count_log=counted(found, 0),
        count_brier=counted(found, 1),
        all=changed_by_all(found),
        steady=steadiness(found),
        more=SETTINGS,
        command=commands(sizes),
        date=datetime.date.today().isoformat(),
        streamcal=streamcal.__version__,
        sklearn=sklearn.__version__,
        numpy=np.__version__,
        seed=SEED,
        seconds=seconds,
        warned=f"Fits that ended with scikit-learn's warning that they had not converged: {warned}.",
    )


def main(arguments: list[str] | None = None) -> None:
    """Run the splits that are not found yet, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(SOURCES), default=list(SOURCES), help="data sets")
    parser.add_argument("--learners", nargs="+", choices=list(LEARNERS), default=list(LEARNERS), help="base learners")
    parser.add_argument("--rows", type=int, help="most training rows; five times as many to test (default: all)")
    parser.add_argument("--grid", type=int, help="most values of a parameter (default: all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: %(default)s)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="what is computed (default: %(default)s)")
    parser.add_argument("--draw-only", action="store_true", help="compute nothing; draw and write from the results")
    parser.add_argument("--print-only", action="store_true", help="compute and print; keep and write nothing")
    given = parser.parse_args(arguments)
    kept: dict[str, Any] = {"found": {}, "sizes": {}, "seconds": 0.0, "warned": 0}
    if not given.print_only and given.results.is_file():
        kept = json.loads(given.results.read_text(encoding="utf-8"))
    if not given.draw_only:
        compute(given, kept)
    if given.print_only:
        print("\n\n".join(at_four_to_one(kept["found"], kind) for kind in (0, 1)))
        return
    found = whole(kept["found"])
    for name, of_set in found.items():
        drawn(of_set, PAGE.with_name(picture(name)))
    sizes = {name: tuple(kept["sizes"][name]) for name in found}
    PAGE.write_text(page(found, sizes, kept["seconds"], kept["warned"]), encoding="utf-8")


def whole(kept: Results) -> Results:
    """Return the base learners with all splits, in the order of the tables."""
    found: Results = {}
    for name, source in SOURCES.items():
        for learner in LEARNERS:
            columns = kept.get(name, {}).get(learner, {})
            if all(column in columns for column in source.columns):
                found.setdefault(name, {})[learner] = {column: columns[column] for column in source.columns}
    return found


def compute(given: argparse.Namespace, kept: dict[str, Any]) -> None:
    """Add what is missing to the results, and keep them after each split."""
    size = [given.rows, given.grid]
    for name in given.sets:
        if kept["sizes"].get(name) != size:
            kept["found"].pop(name, None)
            kept["sizes"][name] = size
    for split, (losses, seconds, warned) in run(given, kept["found"]):
        kept["found"].setdefault(split.data_set, {}).setdefault(split.learner, {})[split.column] = losses
        kept["seconds"] += seconds
        kept["warned"] += warned
        if not given.print_only:
            given.results.write_text(json.dumps(kept) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
