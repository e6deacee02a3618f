"""The closing table of paper 001 (A. Shtoff, "A Bernstein SkLearn model calibrator"), learned as a stream.

    python -m benchmarks.papers.blog_001                # writes docs/papers/blog_001.md and its figures
    python -m benchmarks.papers.blog_001 --rows 8000    # shortened, prints only

A linear support-vector machine is trained on 70 % of the CDC diabetes data; five calibrators learn its margins on the
next 15 % one by one; the remaining 15 % are the test. The splits, the columns and the measures are the post's.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy
import sklearn
from matplotlib.figure import Figure
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import brier_score_loss, log_loss, precision_score, recall_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder
from sklearn.svm import LinearSVC

import streamcal
from benchmarks.papers import path_of, save
from benchmarks.papers.differences import with_differences
from streamcal import Bernstein, BernsteinLogistic, Interval, Isotonic, Platt
from streamcal.calibrators.base import Calibrator

DATA = "cdc_diabetes_brfss2015"
TARGET = "Diabetes_binary"
NUMERICAL = ["Age", "BMI", "MentHlth", "PhysHlth"]  # the others are categorical in the post
PAGE = Path(__file__).resolve().parents[2] / "docs" / "papers" / "blog_001.md"
FIGURE = "blog_001_curves.png"
#: Rows of a shortened run are drawn with this seed; the full run has no other randomness than the post's splits.
ROWS_SEED = 0

#: ECE, Brier score and log loss as published; the ECE of the plain sigmoid; negatives and positives of the test part.
PUBLISHED = {
    "Platt": (0.01295, 0.09746, 0.31395),
    "Isotonic": (0.00737, 0.09707, 0.31289),
    "Bernstein (deg = 20)": (0.00622, 0.09703, 0.31195),
    "Bernstein (deg = 10)": (0.00634, 0.09708, 0.31231),
    "Bernstein logistic (deg = 10)": (0.00653, 0.09704, 0.31199),
}
POLYNOMIALS = [name for name in PUBLISHED if name.startswith("Bernstein")]
SOURCES = ("published", "streamcal", "post's way")
PUBLISHED_NAIVE_ECE = 0.30733
PUBLISHED_SUPPORT = (32840, 5212)

#: Colours of Okabe and Ito, which colour-blind readers can tell apart, and lines, of the five functions.
LINES = (("#000000", ":"), ("#56b4e9", "-"), ("#d55e00", "-"), ("#e69f00", "--"), ("#0072b2", "-."))

#: What is cut off at each end of the training margins, for scales narrower than their extremes.
TAILS = (0.0001, 0.001, 0.01)

#: `learn_one` and `learn_many` add the same sums in another order: rounding, magnified by the polynomial's solve.
SAME = 1e-8

Array = npt.NDArray[np.float64]


class Part(NamedTuple):
    """One of the three parts of the data: features, labels, margins of the support-vector machine."""

    x: Array
    y: Array
    margins: Array


class Errors(NamedTuple):
    """The three measures of the post."""

    ece: float
    brier: float
    log_loss: float


class Curve(NamedTuple):
    """Mean prediction and rate of positives in those of ten bins of equal width that are not empty."""

    predicted: Array
    observed: Array
    ece: float


class Function(NamedTuple):
    """A calibration function on a grid of margins."""

    margins: Array
    probabilities: Array


class Result(NamedTuple):
    """A run with one support-vector machine."""

    streamed: dict[str, Errors]
    as_in_post: dict[str, Errors]
    by_tail: dict[float, dict[str, Errors]]
    naive: Errors
    machine: str
    scales: tuple[Interval, Interval]
    support: tuple[int, int]
    seconds: dict[str, float]
    curves: dict[str, Curve]
    functions: dict[str, Function]


def read(rows: int | None) -> tuple[Array, Array, list[str]]:
    """Features, labels and the names of the features."""
    with gzip.open(path_of(DATA), "rt") as file:
        header = file.readline().strip().split(",")
        table = np.loadtxt(file, delimiter=",")
    if rows is not None:
        kept = np.random.default_rng(ROWS_SEED).choice(len(table), min(rows, len(table)), replace=False)
        table = table[np.sort(kept)]
    place = header.index(TARGET)
    return np.delete(table, place, axis=1), table[:, place], [name for name in header if name != TARGET]


def ece(y_true: Array, y_prob: Array, n_bins: int = 10) -> float:
    """Return the ECE by the function of the post, unchanged except for its line breaks."""
    bins = np.linspace(0.0, 1.0, n_bins + 1)
    binids = np.searchsorted(bins[1:-1], y_prob)
    bin_sums = np.bincount(binids, weights=y_prob, minlength=len(bins))
    bin_true = np.bincount(binids, weights=y_true, minlength=len(bins))
    bin_total = np.bincount(binids, minlength=len(bins))
    nonzero = bin_total != 0
    prob_true = bin_true[nonzero] / bin_total[nonzero]
    prob_pred = bin_sums[nonzero] / bin_total[nonzero]
    return float(np.sum(np.abs(prob_true - prob_pred) * bin_total[nonzero]) / np.sum(bin_total))


def errors(y: Array, p: Array) -> Errors:
    """Return the three errors of probabilities."""
    return Errors(ece(y, p), float(brier_score_loss(y, p)), float(log_loss(y, p)))


def pipeline(names: list[str], machine: LinearSVC) -> Pipeline:
    """Return the pipeline of the post around a support-vector machine."""
    categorical = [i for i, name in enumerate(names) if name not in NUMERICAL]
    one_hot = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=10)
    columns = [
        ("categorical", one_hot, categorical),
        ("numerical", MinMaxScaler(), [names.index(n) for n in NUMERICAL]),
    ]
    return Pipeline([("feature_transformer", ColumnTransformer(columns)), ("classifier", machine)])


def calibrators(scale: Interval) -> dict[str, Calibrator]:
    """Return the calibrators of the post on a scale."""
    return {
        "Platt": Platt(scale=scale),
        "Isotonic": Isotonic(scale=scale),
        "Bernstein (deg = 20)": Bernstein(20, scale=scale),
        "Bernstein (deg = 10)": Bernstein(10, scale=scale),
        "Bernstein logistic (deg = 10)": BernsteinLogistic(10, scale=scale),
    }


def streamed(scale: Interval, learned: Part, test: Part) -> tuple[dict[str, Errors], dict[str, float]]:
    """Return each method's errors and seconds after one pass over the calibration part; check that bulk agrees."""
    found, seconds = {}, {}
    at_once = calibrators(scale)
    for name, cal in calibrators(scale).items():
        start = time.perf_counter()
        for margin, y in zip(learned.margins.tolist(), learned.y.tolist(), strict=True):
            cal.learn_one(margin, y)
        p = cal.predict_many(test.margins)
        seconds[name] = time.perf_counter() - start
        at_once[name].learn_many(learned.margins, learned.y)
        apart = float(np.abs(at_once[name].predict_many(test.margins) - p).max())
        if not apart <= SAME:
            raise SystemExit(f"{name}: learn_one and learn_many differ by {apart:.1e}, more than {SAME:.0e}")
        found[name] = errors(test.y, p)
    return found, seconds


def curve(y: Array, p: Array, bins: int = 10) -> Curve:
    """Return the reliability curve as scikit-learn's `CalibrationDisplay` computes it for the post."""
    observed, predicted = calibration_curve(y, p, n_bins=bins)
    return Curve(predicted, observed, ece(y, p))


def shown(scale: Interval, learned: Part, test: Part) -> tuple[dict[str, Curve], dict[str, Function]]:
    """Return the data of the post's plots: reliability curves on the test part and functions, learned in bulk."""
    curves = {"SVM and sigmoid": curve(test.y, 1.0 / (1.0 + np.exp(-test.margins)))}
    functions = {}
    margins = np.linspace(scale.lo, scale.hi, 1_000)
    for name, cal in calibrators(scale).items():
        cal.learn_many(learned.margins, learned.y)
        curves[name] = curve(test.y, cal.predict_many(test.margins))
        functions[name] = Function(margins, cal.predict_many(margins))
    return curves, functions


def draw(curves: dict[str, Curve], functions: dict[str, Function], path: Path) -> None:
    """Reliability curves in two rows, and the functions below them."""
    figure = Figure(figsize=(10.0, 10.0), layout="constrained")
    grid = figure.add_gridspec(3, 3)
    for place, (name, one) in enumerate(curves.items()):
        axis = figure.add_subplot(grid[place // 3, place % 3])
        axis.plot([0, 1], [0, 1], ":", color="black", lw=1.0)
        axis.plot(one.predicted, one.observed, "o-", color="#0072b2", ms=4.0)
        axis.set_title(f"{name}\nECE {one.ece:.5f}", fontsize=9)
        axis.set(xlabel="mean prediction", ylabel="rate of positives", xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    axis = figure.add_subplot(grid[2, :])
    for (name, function), (colour, line) in zip(functions.items(), LINES, strict=True):
        axis.plot(function.margins, function.probabilities, color=colour, ls=line, lw=1.6, label=name)
    axis.set(xlabel="margin of the support-vector machine", ylabel="probability")
    axis.legend(fontsize=8)
    save(figure, path, dpi=75)


def polynomials(scale: Interval, learned: Part, test: Part) -> dict[str, Errors]:
    """Return the errors of the three polynomials on another scale."""
    found = {}
    for name in POLYNOMIALS:
        cal = calibrators(scale)[name]
        cal.learn_many(learned.margins, learned.y)
        found[name] = errors(test.y, cal.predict_many(test.margins))
    return found


def as_in_post(fitted: Pipeline, learned: Part, test: Part) -> dict[str, Errors]:
    """Return the errors of the post's way: scikit-learn's calibrators, and polynomials scaled by extremes."""
    found = {}
    for name, method in (("Platt", "sigmoid"), ("Isotonic", "isotonic")):
        theirs = CalibratedClassifierCV(FrozenEstimator(fitted), method=method).fit(learned.x, learned.y)
        found[name] = errors(test.y, theirs.predict_proba(test.x)[:, 1])
    return {**found, **polynomials(range_of(learned.margins), learned, test)}


def range_of(margins: Array, tail: float = 0.0) -> Interval:
    """Return the scale between two quantiles of the margins; by default between their extremes."""
    lo, hi = np.quantile(margins, (tail, 1.0 - tail))
    return Interval(float(lo), float(hi))


def run(x: Array, y: Array, names: list[str], machine: LinearSVC) -> Result:
    """Train, calibrate and test with one support-vector machine."""
    x_rest, x_test, y_rest, y_test = train_test_split(x, y, test_size=0.15, random_state=42)
    x_train, x_learn, y_train, y_learn = train_test_split(x_rest, y_rest, test_size=0.15 / 0.85, random_state=43)
    fitted = pipeline(names, machine)
    start = time.perf_counter()
    fitted.fit(x_train, y_train)
    fit_seconds = time.perf_counter() - start
    train_margins = fitted.decision_function(x_train)
    scale = range_of(train_margins)
    learned = Part(x_learn, y_learn, fitted.decision_function(x_learn))
    test = Part(x_test, y_test, fitted.decision_function(x_test))
    by_method, seconds = streamed(scale, learned, test)
    label = test.margins > 0.0
    curves, functions = shown(scale, learned, test)
    precision, recall = precision_score(test.y, label), recall_score(test.y, label)
    return Result(
        streamed=by_method,
        as_in_post=as_in_post(fitted, learned, test),
        by_tail={tail: polynomials(range_of(train_margins, tail), learned, test) for tail in TAILS},
        naive=errors(test.y, 1.0 / (1.0 + np.exp(-test.margins))),
        machine=f"precision {precision:.2f}, recall {recall:.2f}, accuracy {np.mean(label == test.y):.2f}",
        scales=(scale, range_of(learned.margins)),
        support=(int(np.sum(test.y == 0.0)), int(np.sum(test.y == 1.0))),
        seconds={"training": fit_seconds, **seconds},
        curves=curves,
        functions=functions,
    )


def row(name: str, *measures: Errors) -> str:
    """Write a line of a table: all ECEs, then all Brier scores, then all log losses."""
    return f"| {name} | " + " | ".join(f"{v:.5f}" for same in zip(*measures, strict=True) for v in same) + " |"


def table(result: Result) -> str:
    """Write published, streamed and the post's results on the same margins, side by side."""
    sources = " | ".join(f"{what}{name}" for what in ("", "Brier: ", "log loss: ") for name in SOURCES)
    lines = [f"| calibrator | ECE: {sources} |", "|---|" + "---:|" * 9]
    for name, published in PUBLISHED.items():
        lines.append(row(name, Errors(*published), result.streamed[name], result.as_in_post[name]))
    return "\n".join(lines)


def tail_table(result: Result) -> str:
    """Write the table of polynomials on scales narrower than the extremes of the training margins."""
    sources = " | ".join(f"{what}deg 20 | deg 10 | logistic, deg 10" for what in ("ECE: ", "Brier: ", "log loss: "))
    lines = [f"| scale: the training margins | {sources} |", "|---|" + "---:|" * 9]
    by_tail = {0.0: result.streamed, **result.by_tail}
    for tail, found in by_tail.items():
        name = f"without {tail:.2%} at each end".replace("%", " %") if tail else "all of them, as above"
        lines.append(row(name, *(found[polynomial] for polynomial in POLYNOMIALS)))
    return "\n".join(lines)


PAGE_TEXT = """# Paper 001: the closing table, learned as a stream

A. Shtoff, *A Bernstein SkLearn model calibrator*. CDC diabetes indicators (BRFSS 2015), {rows:,} rows; the post's
columns and splits: 70 % train a linear support-vector machine, 15 % calibrate it, 15 % test. Each calibrator learned
the calibration part in one pass, one `learn_one` per row, on {scale}, the range of the *training* margins;
`learn_many` gave the same predictions within {same:.0e}. "Post's way" is its recipe on the same margins:
scikit-learn's `CalibratedClassifierCV`, and polynomials scaled by the range of the *calibration* margins, which is
not known before the end of the stream.

`LinearSVC(class_weight="balanced", dual=False)`, as in the text of the post:

{balanced}

Checks that this is the model of the post: {machine} (published .30, .79, .72); {negatives:,} negatives and
{positives:,} positives in the test part (published {published_support}); ECE of the plain sigmoid of the margin
{naive:.5f} (published {published_naive:.5f}).

## The plots

Reliability curves on the test part, ten bins of equal width as in the post, and the functions on the range of the
training margins. The post draws the same curves; it prints no numbers beside the ECE, so that only those of the table
above can be compared.

![reliability curves and functions](blog_001_curves.png)

## Reading

- **Platt and isotonic regression**, learned as a stream, give the post's figures{platt_verdict}. The isotonic fit
  does not depend on the scale, and Platt's sigmoid only through its grid of 8,192 cells.
- **The polynomials**, on the post's scale, give its figures{polynomial_verdict}. That scale is {post}, the extremes
  of the calibration margins; it is not known while a stream runs, and moving it would corrupt moments already summed.
  The range of the training margins, {scale}, is wider at the top, where there are hardly any margins, so that a
  polynomial of the same degree is less flexible where the data are. Least squares of degree 10 loses more by it than
  of degree 20, and the logistic polynomial next to nothing.
- **The logistic polynomial** is the post's formula. Its printed class overrides `_compute_coef`, which nothing calls,
  so that it would fit by least squares and then take the sigmoid of a probability; the published figures are those of
  the formula.
- **Leaving out the extremes** of the training margins improves every figure. (All of these cuts were evaluated on the
  test part, so that the table is not a basis for choosing one.)

{tails}

- **The printed code** of the post leaves `class_weight` and `dual` out of `LinearSVC()`. Its recall is then
  {printed_recall}, not .79, and none of the published figures is reproduced, so they belong to the text:

{printed}

---

`STREAMCAL_DATA=… python -m benchmarks.papers.blog_001`, {date}, streamcal {streamcal}, scikit-learn {sklearn},
numpy {numpy}, scipy {scipy}. Splits by `random_state` 42 and 43; no other randomness in the full run.
Seconds on two shared cores: {seconds}.
"""


def verdict(found: dict[str, Errors], names: list[str]) -> str:
    """Describe the distance of these figures from the published ones, which have five digits."""
    gap = max(abs(ours - theirs) for n in names for ours, theirs in zip(found[n], PUBLISHED[n], strict=True))
    return " to the last printed digit" if gap < 1e-5 else f" within {gap:.5f}"


def page(balanced: Result, printed: Result, rows: int) -> str:
    """Write the page of the documentation for the full run, from which its reading was taken."""
    own, post = balanced.scales
    return PAGE_TEXT.format(
        rows=rows,
        scale=f"`Interval({own.lo:.3f}, {own.hi:.3f})`",
        post=f"`Interval({post.lo:.3f}, {post.hi:.3f})`",
        same=SAME,
        balanced=table(balanced),
        machine=balanced.machine,
        negatives=balanced.support[0],
        positives=balanced.support[1],
        published_support="{:,} and {:,}".format(*PUBLISHED_SUPPORT),
        naive=balanced.naive.ece,
        published_naive=PUBLISHED_NAIVE_ECE,
        platt_verdict=verdict(balanced.streamed, ["Platt", "Isotonic"]),
        polynomial_verdict=verdict(balanced.as_in_post, POLYNOMIALS),
        tails=tail_table(balanced),
        printed=table(printed),
        printed_recall=printed.machine.split("recall ")[1].split(",")[0],
        date=datetime.date.today().isoformat(),
        streamcal=streamcal.__version__,
        sklearn=sklearn.__version__,
        numpy=np.__version__,
        scipy=scipy.__version__,
        seconds=", ".join(f"{name} {value:.2f}" for name, value in balanced.seconds.items()),
    )


def main(arguments: list[str] | None = None) -> None:
    """Run the experiment, and write the page of a full run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="a shortened run on this many rows: prints its tables, writes no page")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page a full run writes (default: %(default)s)")
    given = parser.parse_args(arguments)
    x, y, names = read(given.rows)
    balanced = run(x, y, names, LinearSVC(class_weight="balanced", dual=False))
    printed = run(x, y, names, LinearSVC())
    if given.rows is not None:
        print("\n\n".join((table(balanced), tail_table(balanced), table(printed))))
        return
    draw(balanced.curves, balanced.functions, given.out.with_name(FIGURE))
    text = with_differences("blog_001", page(balanced, printed, len(y)))
    print(text)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
