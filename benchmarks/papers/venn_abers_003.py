"""Tables 1 and 2 of paper 003 (Vovk, Petej and Fedorova 2015): four calibration methods on a small part of Adult.

    python -m benchmarks.papers.venn_abers_003               # writes docs/papers/venn_abers_003.md
    python -m benchmarks.papers.venn_abers_003 --rows 600    # shortened, prints only

The first 5,000 rows are the training set, all other rows the test set. Platt, isotonic regression and IVAP: the base is
trained on the first 4,000 and calibrated on the other 1,000. CVAP: five contiguous folds of 1,000. The paper's base
learners are Weka's; here they are scikit-learn's counterparts.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import gzip
import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy
import sklearn
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import CategoricalNB, GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import streamcal
from benchmarks.papers import path_of
from benchmarks.papers.differences import with_differences
from streamcal import CrossVennAbers, Interval, Isotonic, Platt, VennAbers
from streamcal.calibrators.base import Calibrator

FILES = ("adult_train", "adult_test")
TARGET, POSITIVE, MISSING = "income", ">50K", "?"
NUMERICAL = ["age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "papers" / "venn_abers_003.md"
TRAIN, FOLDS = 5_000, 5
#: Where a method gives probability 0 to what happens, its mean log loss is infinite; beside that the table shows the
#: loss of the probabilities moved inside [1e-6, 1 − 1e-6], a wrong certainty costing log₂ 10⁶ ≈ 20.
CLIP = 1e-6
#: Bagging and networks depend on a seed; their figures are means over these, with the standard deviation of one run.
SEEDS = (0, 1, 2)
#: A shortened run tests on this many rows for each training row, and chooses between this many parameters.
SHORT_TEST, SHORT_GRID = 3, 2

METHODS = ("Platt", "IR", "IVAP", "CVAP")
#: The paper's "Platt" is a plain logistic regression on the scores, without Platt's regularised targets.
PLAIN = "plain logistic"
#: Log loss (base 2) and Brier loss (times 4), by base learner and method.
PUBLISHED_LOG = {
    "J48": (0.5226, math.inf, 0.5117, 0.5102),
    "J48 bagging": (0.4949, math.inf, 0.4733, 0.4602),
    "logistic": (0.5111, math.inf, 0.4981, 0.4948),
    "naive Bayes": (0.5534, math.inf, 0.4839, 0.4747),
    "neural networks": (0.5175, math.inf, 0.5023, 0.4805),
    "SVM": (0.5221, math.inf, 0.5015, 0.4997),
}
PUBLISHED_BRIER = {
    "J48": (0.4463, 0.4378, 0.4370, 0.4368),
    "J48 bagging": (0.4225, 0.4153, 0.4123, 0.3990),
    "logistic": (0.4470, 0.4417, 0.4377, 0.4342),
    "naive Bayes": (0.4670, 0.4329, 0.4311, 0.4227),
    "neural networks": (0.4525, 0.4574, 0.4440, 0.4234),
    "SVM": (0.4550, 0.4450, 0.4408, 0.4375),
}

Array = npt.NDArray[np.float64]


class Rows(NamedTuple):
    """Features and labels: first the numerical features, then the nominal ones.

    Nominal features are numbers of their values, and `values` says how many each has.
    """

    x: Array
    y: Array
    values: list[int]

    @property
    def numerical(self) -> int:
        return self.x.shape[1] - len(self.values)

    def take(self, rows: slice | npt.NDArray[np.intp]) -> Rows:
        return Rows(self.x[rows], self.y[rows], self.values)


class MixedNaiveBayes(ClassifierMixin, BaseEstimator):
    """Naive Bayes with normal numerical and Laplace-smoothed nominal features, as Weka has it.

    Numerical features are standardised first: `GaussianNB` adds 1e-9 of the largest variance of all features to each,
    which for Adult's `fnlwgt` (1e10) would be more than the whole variance of `education_num`.
    """

    def __init__(self, values: list[int]) -> None:
        self.values = values

    def fit(self, x: Array, y: Array) -> Self:
        self.classes_ = np.unique(y)
        self.numerical_ = x.shape[1] - len(self.values)
        self.scaler_ = StandardScaler().fit(x[:, : self.numerical_])
        self.normal_ = GaussianNB().fit(self.scaler_.transform(x[:, : self.numerical_]), y)
        if self.values:
            self.nominal_ = CategoricalNB(min_categories=self.values).fit(x[:, self.numerical_ :].astype(int), y)
        return self

    def predict_proba(self, x: Array) -> Array:
        joint = self.normal_.predict_joint_log_proba(self.scaler_.transform(x[:, : self.numerical_]))
        if self.values:
            joint = joint + self.nominal_.predict_joint_log_proba(x[:, self.numerical_ :].astype(int))
            joint -= self.nominal_.class_log_prior_  # both have it
        return np.exp(joint - np.logaddexp.reduce(joint, axis=1, keepdims=True))


class Learner(NamedTuple):
    """A base learner: its parameters to choose from, whether it depends on a seed, and how it is made."""

    grid: list[Any]
    seeded: bool
    make: Callable[[Any, int, Rows], Any]


def dummies(rows: Rows, numerical: Any) -> ColumnTransformer:
    """Return a transformer: a column for each value of each nominal feature, and numerical features transformed."""
    count = rows.numerical
    nominal = OneHotEncoder(categories=[np.arange(k) for k in rows.values])
    return ColumnTransformer(
        [
            ("numerical", numerical, list(range(count))),
            ("nominal", nominal, list(range(count, count + len(rows.values)))),
        ]
    )


def tree(alpha: float, seed: int) -> DecisionTreeClassifier:
    """Weka's J48 has two rows or more in a leaf, too, and is pruned by confidence instead of by cost."""
    return DecisionTreeClassifier(min_samples_leaf=2, ccp_alpha=alpha, random_state=seed)


def network(parameters: tuple[float, float], seed: int) -> MLPClassifier:
    """Weka's MultilayerPerceptron: sigmoids, (features + classes)/2 hidden units, plain gradient steps."""
    rate, momentum = parameters
    return MLPClassifier(
        (53,), activation="logistic", solver="sgd", alpha=0.0, batch_size=32, learning_rate_init=rate,
        momentum=momentum, nesterovs_momentum=False, max_iter=60, n_iter_no_change=1_000, random_state=seed,
    )  # fmt: skip


PRUNING = [1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3]
LEARNERS = {
    "J48": Learner(PRUNING, False, lambda p, seed, rows: make_pipeline(dummies(rows, "passthrough"), tree(p, seed))),
    "J48 bagging": Learner(
        PRUNING,
        True,
        lambda p, seed, rows: make_pipeline(
            dummies(rows, "passthrough"), BaggingClassifier(tree(p, seed), n_estimators=10, random_state=seed)
        ),
    ),
    "logistic": Learner(
        [0.01, 0.1, 1.0, 10.0, 100.0],
        False,
        lambda p, seed, rows: make_pipeline(dummies(rows, StandardScaler()), LogisticRegression(C=p, max_iter=2_000)),
    ),
    "naive Bayes": Learner([None], False, lambda p, seed, rows: MixedNaiveBayes(rows.values)),
    "neural networks": Learner(
        [(rate, momentum) for rate in (0.1, 0.3) for momentum in (0.2, 0.9)],
        True,
        lambda p, seed, rows: make_pipeline(dummies(rows, MinMaxScaler((-1.0, 1.0))), network(p, seed)),
    ),
    "SVM": Learner(
        [0.01, 0.1, 1.0, 10.0],
        False,
        lambda p, seed, rows: make_pipeline(
            dummies(rows, MinMaxScaler()), LinearSVC(C=p, loss="hinge", max_iter=200_000, random_state=seed)
        ),
    ),
}


def read(train: int) -> Rows:
    """Read all rows; a missing value becomes the most frequent value of the first `train`, as in Weka's filter."""
    table: list[dict[str, str]] = []
    for name in FILES:
        with gzip.open(path_of(name), "rt", newline="") as file:
            table += csv.DictReader(file)
    columns, values = [np.array([float(row[name]) for row in table]) for name in NUMERICAL], []
    for name in [name for name in table[0] if name not in (*NUMERICAL, TARGET)]:
        given = [row[name] for row in table]
        known = sorted(set(given) - {MISSING})  # as the head of Weka's file lists them
        early = [value for value in given[:train] if value != MISSING]
        number = {value: float(k) for k, value in enumerate(known)}
        number[MISSING] = number[max(known, key=early.count)]
        columns.append(np.array([number[value] for value in given]))
        values.append(len(known))
    return Rows(np.column_stack(columns), np.array([float(row[TARGET] == POSITIVE) for row in table]), values)


class Loss(NamedTuple):
    """Mean losses on the test set: log₂, how many certain predictions were wrong, log₂ clipped, and 4·Brier."""

    log: float
    wrong: int
    clipped: float
    brier: float


class Result(NamedTuple):
    """Losses by base learner, method and seed; by base learner its seconds, and how many fits did not converge."""

    losses: dict[str, dict[str, list[Loss]]]
    seconds: dict[str, float]
    unfinished: dict[str, int]


def brier(p: Array, y: Array) -> float:
    """Return the Brier loss on the paper's scale."""
    return float(4.0 * np.mean((y - p) ** 2))


def loss(p: Array, y: Array) -> Loss:
    """Return the log losses in bits, the number of wrong certainties, and the Brier loss."""
    right = np.where(y == 1.0, p, 1.0 - p)
    clipped = float(-np.log2(np.clip(right, CLIP, 1.0 - CLIP)).mean())
    wrong = int(np.sum(right == 0.0))
    return Loss(math.inf if wrong else float(-np.log2(right).mean()), wrong, clipped, brier(p, y))


def scores(base: Any, x: Array) -> Array:
    """Return the scores to calibrate: the probability of the base, or its margin."""
    if hasattr(base, "predict_proba"):
        return np.clip(np.asarray(base.predict_proba(x)[:, 1]), 0.0, 1.0)
    return np.asarray(base.decision_function(x), dtype=np.float64)


def streamed(cal: Calibrator, at: Array, y: Array) -> Calibrator:
    """Return the calibrator after one `learn_one` a row."""
    for score, label in zip(at.tolist(), y.tolist(), strict=True):
        cal.learn_one(score, label)
    return cal


SINGLE: dict[str, Callable[[], Calibrator]] = {
    "Platt": lambda: Platt(scale=Interval(), resolution=None),  # of the score itself, as in the paper
    "IR": lambda: Isotonic(scale=Interval()),
    "IVAP": lambda: VennAbers(scale=Interval()),
}


def single(learner: Learner, seed: int, train: Rows, test: Rows) -> Iterator[tuple[str, Loss]]:
    """Platt, isotonic regression and IVAP. Of the parameters, those of the least Brier loss on the calibration set."""
    size = math.ceil(len(train.y) * (FOLDS - 1) / FOLDS)
    proper, rest = train.take(slice(0, size)), train.take(slice(size, None))
    bases = [learner.make(p, seed, train).fit(proper.x, proper.y) for p in learner.grid]
    seen = [scores(base, rest.x) for base in bases]
    for name, make in SINGLE.items():
        fitted = [streamed(make(), at, rest.y) for at in seen]
        own = [brier(cal.predict_many(at), rest.y) for cal, at in zip(fitted, seen, strict=True)]
        best = int(np.argmin(own))
        asked = scores(bases[best], test.x)
        yield name, loss(fitted[best].predict_many(asked), test.y)
        if name == "Platt":
            plain = LogisticRegression(C=math.inf, tol=1e-10, max_iter=1_000).fit(seen[best][:, None], rest.y)
            yield PLAIN, loss(plain.predict_proba(asked[:, None])[:, 1], test.y)


def crossed(learner: Learner, seed: int, train: Rows, test: Rows) -> Loss:
    """CVAP. Of the parameters, those of the least cumulative Brier loss over all folds."""
    found, folds = [], np.array_split(np.arange(len(train.y)), FOLDS)
    for parameter in learner.grid:
        cal, bases, own = CrossVennAbers(folds=FOLDS, scale=Interval()), [], 0.0
        for k, fold in enumerate(folds):
            proper = train.take(np.setdiff1d(np.arange(len(train.y)), fold))
            bases.append(learner.make(parameter, seed, train).fit(proper.x, proper.y))
            at = scores(bases[-1], train.x[fold])
            for score, label in zip(at.tolist(), train.y[fold].tolist(), strict=True):
                cal.learn_one(score, label, fold=k)
            own += brier(streamed(VennAbers(scale=Interval()), at, train.y[fold]).predict_many(at), train.y[fold])
        found.append((own, len(found), cal, bases))
    _, _, cal, bases = min(found)
    return loss(cal.predict_many(np.column_stack([scores(base, test.x) for base in bases])), test.y)


def run(rows: Rows, train_size: int, learners: dict[str, Learner], seeds: tuple[int, ...]) -> Result:
    """Run every base learner with every method."""
    train, test = rows.take(slice(0, train_size)), rows.take(slice(train_size, None))
    found: dict[str, dict[str, list[Loss]]] = {}
    seconds, unfinished = {}, {}
    for name, learner in learners.items():
        start = time.perf_counter()
        found[name] = {method: [] for method in (*METHODS, PLAIN)}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            for seed in seeds if learner.seeded else seeds[:1]:
                for method, one in single(learner, seed, train, test):
                    found[name][method].append(one)
                found[name]["CVAP"].append(crossed(learner, seed, train, test))
        # The networks are meant to end after 60 passes.
        unfinished[name] = 0 if learner.seeded else sum(issubclass(one.category, ConvergenceWarning) for one in caught)
        seconds[name] = time.perf_counter() - start
    return Result(found, seconds, unfinished)


def shown(value: float, digits: int = 4) -> str:
    """Write a loss with some digits, or ∞."""
    return "∞" if math.isinf(value) else f"{value:.{digits}f}"


def averaged(values: list[float]) -> str:
    """Write the mean over the seeds, ± the standard deviation of one run if there are several."""
    spread = f" ± {np.std(values, ddof=1):.4f}" if len(values) > 1 and not math.isinf(sum(values)) else ""
    return shown(float(np.mean(values))) + spread


def certain(losses: list[Loss]) -> str:
    """Write a log loss; if it is infinite, how often a certainty was wrong, and the clipped loss."""
    if not any(one.wrong for one in losses):
        return averaged([one.log for one in losses])
    wrong = round(float(np.mean([one.wrong for one in losses])))
    return f"∞, {wrong:,} wrong; {averaged([one.clipped for one in losses])}"


def table(found: dict[str, dict[str, list[Loss]]], published: dict[str, tuple[float, ...]], log: bool) -> str:
    """Write published and found figures of each method side by side."""
    lines = [
        "| base learner | " + " | ".join(f"{method}: published | streamcal" for method in METHODS) + " |",
        "|---|" + "---:|" * (2 * len(METHODS)),
    ]
    for name, theirs in published.items():
        ours = [
            certain(found[name][method]) if log else averaged([one.brier for one in found[name][method]])
            for method in METHODS
        ]
        cells = [cell for pair in zip(map(shown, theirs), ours, strict=True) for cell in pair]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


#: (method, method, Brier or log): how often the first has the smaller loss is counted in both tables.
ORDERS = [
    (first, second, log)
    for first, second in (("CVAP", "IVAP"), ("CVAP", "Platt"), ("IVAP", "Platt"), ("CVAP", "IR"), ("IVAP", "IR"))
    for log in (True, False)
]


def mean_of(losses: list[Loss], log: bool) -> float:
    """Return the mean loss."""
    return float(np.mean([one.log if log else one.brier for one in losses]))


def orders(found: dict[str, dict[str, list[Loss]]]) -> str:
    """Count the base learners for which one method is better than another, as published and here."""
    lines = ["| smaller loss | published | streamcal |", "|---|---:|---:|"]
    for first, second, log in ORDERS:
        table_, i, j = (PUBLISHED_LOG if log else PUBLISHED_BRIER), METHODS.index(first), METHODS.index(second)
        theirs = sum(row[i] < row[j] for row in table_.values())
        ours = sum(mean_of(one[first], log) < mean_of(one[second], log) for one in found.values())
        what = "log" if log else "Brier"
        lines.append(f"| {first} than {second}, {what} | {theirs} of {len(table_)} | {ours} of {len(found)} |")
    return "\n".join(lines)


def plain_gap(found: dict[str, dict[str, list[Loss]]], log: bool) -> float:
    """Return the largest difference due to Platt's regularised targets."""
    return max(abs(mean_of(one["Platt"], log) - mean_of(one[PLAIN], log)) for one in found.values())


PAGE_TEXT = """# Paper 003: Tables 1 and 2, four calibration methods on Adult

Vovk, Petej and Fedorova, *Large-scale probabilistic predictors with and without guarantees of validity* (2015), §6.
The first 5,000 rows of UCI Adult's training file are the training set, all {tested:,} others the test set. Platt,
isotonic regression (IR) and IVAP: the base is trained on the first 4,000 rows and calibrated on the next 1,000. CVAP:
five contiguous folds. Every calibrator learned its rows in one pass, one `learn_one` a row. As in the paper, the
parameters of a base are those with the least Brier loss on the calibration set (CVAP: summed over the folds), here of
the calibrated probabilities, separately for each method. Losses are means over the test set.

## Table 1: log loss, base 2

An infinite loss is given with the number of test rows whose observed label was predicted with probability 0, and with
the loss of the probabilities clipped to [{clip:.0e}, 1 − {clip:.0e}].

{log}

## Table 2: Brier loss, 4·(y − p)²

{brier}

Where the base depends on a seed: mean ± standard deviation over the seeds {seeds}.

## Base learners

The paper uses Weka, this page the counterparts in scikit-learn, so that the figures can be similar but not equal.

| Weka | here | chosen |
|---|---|---|
| J48 | `DecisionTreeClassifier(min_samples_leaf=2)`, a column for each nominal value | `ccp_alpha` (Weka: confidence) |
| J48 bagging | ten of these, `BaggingClassifier` | `ccp_alpha` |
| logistic | `LogisticRegression`, numerical columns standardised | `C` (Weka: ridge) |
| naive Bayes | normal and Laplace-smoothed nominal features | nothing |
| neural networks | `MLPClassifier`, 53 sigmoids, 60 passes in batches of 32 (Weka: 500, row by row) | rate, momentum |
| SVM | `LinearSVC(loss="hinge")`, columns scaled to [0, 1] | `C` |

Missing values are replaced by the most frequent value of the training rows.

## Reading

{reading}
---

`STREAMCAL_DATA=… python -m benchmarks.papers.venn_abers_003`, {date}, streamcal {streamcal}, scikit-learn {sklearn},
numpy {numpy}, scipy {scipy}. Fits that ended with
scikit-learn's warning that they had not converged: {unfinished}. Seconds on two shared cores: {seconds}.
"""

READING = """- **The order of the methods** is the subject of the tables. Number of base learners, of six, with:

{orders}

- **Isotonic regression** has an infinite log loss for every base, as published: it predicts 0 and 1 at both ends, and
  the table has the number of errors there. The clipped figure depends on the clip as much as on the method, since
  each of these errors costs 20. The effect on the Brier loss is small.
- **J48 bagging** agrees with the published figures, within .002 in Brier loss and .011 in log loss, and is the best
  base under CVAP there and here.
- **Neural networks** agree with the published figures under CVAP (differences of .0001 and .0017) and are better
  under the other methods, by .007 to .012 in log loss and .009 to .022 in Brier loss. Presumably 60 passes overfit
  less than Weka's 500, and CVAP averages the noise.
- **J48, logistic regression and the SVM** are better here than in the paper under every method, J48 by .014 to .04.
  For J48 the algorithms differ: pruning by cost on binary splits here, pruning by confidence on splits with a branch
  for every value there. For the SVM it is the cost, see below; for logistic regression we know no reason; the paper
  lists neither the ridges nor the costs it tried.
- **The SVM's figures are those of fits that partly did not converge.** Every method chooses the largest cost tried, C
  = 10, and there liblinear ends with "Liblinear failed to converge" in 4 of 6 fits, after 200,000 steps (of all 24
  fits: 4). Without it, at C ≤ 1, where all fits converge, the losses of Platt and CVAP are nearer to the published
  ones, and IVAP's are above them: log loss Platt 0.5017, IVAP 0.5051, CVAP 0.4960; Brier loss 0.4450, 0.4470, 0.4397.
  The SVM is the only base for which Platt has a smaller loss than IVAP here, with C = 10 and without; in the paper
  IVAP has. CVAP has the smallest loss in both.
- **Naive Bayes** is worse here than in the paper under every method: by .002 (IVAP), .007 (CVAP) and .036 (Platt) in
  log loss, by .005 (IR) to .039 (Platt) in Brier loss. An earlier version of this page had it worse still, by up to
  .046 in log loss: scikit-learn's `GaussianNB` adds 1e-9 of the largest variance to every feature's, and that of
  `fnlwgt`, 1e10, made the variance of `education_num` 17.7 in place of 6.4; features are now standardised first. What
  remains is the density of the numerical features, which the paper does not state. Two others were tried: Weka's rule
  for normal densities, probabilities of an interval of the feature's precision, changes no loss by more than .004;
  deciles as nominal values give Platt a log loss of .5286, below the published one, and IVAP and CVAP .5003 and
  .4943, above it.
- **Platt** in the paper is `mnrfit`, a plain logistic regression on the scores; ours has Platt's regularised targets.
  That moves no log loss by more than {plain_log:.4f} and no Brier loss by more than {plain_brier:.4f}.
- **Figures 1 to 14** of the paper, other splits and data sets, have [their own page](venn_abers_003_figures.md).
- **Limits**: the 1,000 rows of calibration are one draw. Where two methods differ in the third decimal, other rows
  may reverse their order; the seeds show only the variation of the base.
"""


def page(result: Result, tested: int) -> str:
    """Write the page of the documentation for the full run, from which its reading was taken."""
    found = result.losses
    return PAGE_TEXT.format(
        tested=tested,
        clip=CLIP,
        log=table(found, PUBLISHED_LOG, log=True),
        brier=table(found, PUBLISHED_BRIER, log=False),
        seeds=", ".join(map(str, SEEDS)),
        reading=READING.format(
            orders=orders(found), plain_log=plain_gap(found, True), plain_brier=plain_gap(found, False)
        ),
        date=datetime.date.today().isoformat(),
        streamcal=streamcal.__version__,
        sklearn=sklearn.__version__,
        numpy=np.__version__,
        scipy=scipy.__version__,
        unfinished=", ".join(f"{name} {count}" for name, count in result.unfinished.items() if count) or "none",
        seconds=", ".join(f"{name} {value:.0f}" for name, value in result.seconds.items()),
    )


def main(arguments: list[str] | None = None) -> None:
    """Run the experiment, and write the page of a full run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="a shortened run on this many training rows: prints, writes no page")
    parser.add_argument("--out", type=Path, default=PAGE, help="the page a full run writes (default: %(default)s)")
    given = parser.parse_args(arguments)
    train = TRAIN if given.rows is None else given.rows
    rows = read(train)
    if given.rows is not None:
        few = {name: learner._replace(grid=learner.grid[:SHORT_GRID]) for name, learner in LEARNERS.items()}
        found = run(rows.take(slice(0, train * (1 + SHORT_TEST))), train, few, SEEDS[:1]).losses
        print("\n\n".join((table(found, PUBLISHED_LOG, log=True), table(found, PUBLISHED_BRIER, log=False))))
        return
    text = with_differences("venn_abers_003", page(run(rows, train, LEARNERS, SEEDS), len(rows.y) - train))
    print(text)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
