"""`streamcal demo`: two River models that learn online from the bank stream, and their calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from river import base, compose, linear_model, naive_bayes, preprocessing

from streamcal.app.plot import save_reliability_picture
from streamcal.app.report import scores_table
from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.bernstein import Bernstein
from streamcal.calibrators.online_platt import OnlinePlatt
from streamcal.calibrators.venn_abers import VennAbers
from streamcal.datasets import BANK_CATEGORICAL, BANK_NUMERIC, BANK_ROWS, bank
from streamcal.errors import InputError
from streamcal.parameters.forgetting import Window
from streamcal.parameters.scales import Logit
from streamcal.stream.prequential import Prequential, Scoreboard

#: The score if a model returns no probabilities: a River classifier may return {} before it has learned.
NO_SCORE = 0.5
#: The window of the demonstration: a round number, chosen before any result was known.
WINDOW = 5_000
TELL_EVERY = 500


@dataclass(frozen=True)
class Result:
    """The measures by base model and method (or "raw"), and those of the running base rate as a forecast."""

    boards: dict[str, dict[str, Scoreboard]]
    base_rate: Scoreboard


def run(tell: Callable[[int, float | None], None]) -> Result:
    """Learn and calibrate both base models over the whole bank stream; `tell(rows, share)` shows progress."""
    boards: dict[str, dict[str, Scoreboard]] = {}
    rows, total = 0, len(bases()) * BANK_ROWS
    for name, model in bases().items():
        runs = {method: Prequential(calibrator) for method, calibrator in methods().items()}
        for score, y in score_stream(model(), bank()):
            for one in runs.values():
                one.step(score, y)
            rows += 1
            if rows % TELL_EVERY == 0:
                tell(rows, rows / total)
        first = next(iter(runs.values()))
        boards[name] = {"raw": first.boards()["raw"]} | {method: one.calibrated for method, one in runs.items()}
    return Result(boards, running_base_rate(y for _, y in bank()))


def running_base_rate(labels: Iterable[bool]) -> Scoreboard:
    """The measures of the running base rate (Laplace's rule of succession) as a forecast.

    Examples
    --------
    >>> round(running_base_rate([True, False]).brier.value, 4)
    0.3472
    """
    board, positives = Scoreboard(), 0
    for i, y in enumerate(labels):
        board.update((positives + 1) / (i + 2), y)
        positives += y
    return board


def methods() -> dict[str, Calibrator]:
    """The three calibrators of the demonstration."""
    return {
        "ops": OnlinePlatt(),
        "bernstein": Bernstein(10, scale=Logit(), forgetting=Window(WINDOW)),
        "venn-abers": VennAbers(forgetting=Window(WINDOW)),
    }


def report(result: Result, console: Console) -> None:
    """Print the final tables, one per base model."""
    console.print(
        f"UCI Bank Marketing, {BANK_ROWS:,} calls in date order: will the client subscribe?\n"
        "Each call is scored, then calibrated, and only then learned, by the model and by\n"
        "the calibrators. Always saying the base rate so far has "
        f"log loss {result.base_rate.log_loss.value:.4f}."
    )
    for name, boards in result.boards.items():
        console.print(f"\n[bold]{name}[/bold], learning online")
        console.print(scores_table(boards))
    console.print(
        f"\nbernstein and venn-abers look back on the last {WINDOW:,} calls.\n"
        "The calibration ratio is predicted over observed positives: 1 is right."
    )


def save_picture(result: Result, path: Path, console: Console) -> None:
    """Save the reliability diagrams as a picture; without matplotlib, print how to install it."""
    if find_spec("matplotlib") is None:
        console.print(
            '\nFor a picture of the reliability diagrams: pip install ".[plot]"', markup=False, soft_wrap=True
        )
        return
    panels = {
        name: {method: board.ece.reliability() for method, board in boards.items()}
        for name, boards in result.boards.items()
    }
    path = path if path.suffix else path.with_suffix(".png")  # matplotlib would add it silently
    try:
        save_reliability_picture(path, panels, spacing="sqrt")
    except (OSError, ValueError) as error:  # matplotlib checks the file format
        raise InputError(f"{path}: the picture cannot be written: {error}") from None
    console.print(f"\nReliability diagrams: {path}", soft_wrap=True)


def bases() -> dict[str, Callable[[], base.Classifier]]:
    """The base models of the demonstration by name: factories of untrained River pipelines.

    The logistic regression is calibrated on average, less so conditionally on the score. Naive Bayes assumes
    independent features, which they are not, and is very overconfident.

    Examples
    --------
    >>> sorted(bases())
    ['logistic regression', 'naive Bayes']
    """
    return {"logistic regression": logistic_regression, "naive Bayes": gaussian_naive_bayes}


def logistic_regression() -> base.Classifier:
    """Scaled numeric and one-hot categorical features, and a logistic regression with River's default SGD."""
    # Sparse one-hot features: a row then has 19 features instead of 62, with the same model.
    words = compose.Select(*BANK_CATEGORICAL) | preprocessing.OneHotEncoder(drop_zeros=True)
    numbers = compose.Select(*BANK_NUMERIC) | preprocessing.StandardScaler()
    return (numbers + words) | linear_model.LogisticRegression()


def gaussian_naive_bayes() -> base.Classifier:
    """Numeric and one-hot categorical features, and a Gaussian naive Bayes."""
    # Dense one-hot features: a Gaussian of a feature that is always 1 would have variance 0.
    words = compose.Select(*BANK_CATEGORICAL) | preprocessing.OneHotEncoder()
    return (compose.Select(*BANK_NUMERIC) + words) | naive_bayes.GaussianNB()


def score_stream(
    model: base.Classifier, rows: Iterable[tuple[dict[str, float | str], bool]]
) -> Iterator[tuple[float, bool]]:
    """Yield the score P(y = True) of every row, predicted before the model learns the row, and its label.

    Lazy: a row is learned when the next one is requested. A label that the model has not seen has probability 0; if the
    model returns {}, the score is `NO_SCORE`.

    Examples
    --------
    >>> from itertools import islice
    >>> from streamcal.datasets import bank
    >>> list(score_stream(logistic_regression(), islice(bank(), 1)))
    [(0.5, False)]
    """
    for features, y in rows:
        probabilities = model.predict_proba_one(features)
        yield probabilities.get(True, 0.0) if probabilities else NO_SCORE, y
        model.learn_one(features, y)
