"""Parsing the fields of a record (score, label, weight, time), with error messages."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterable
from decimal import Decimal
from numbers import Real
from typing import Any, Self

from streamcal.errors import InputError
from streamcal.kernels.common.logistic import sigmoid
from streamcal.parameters.inputs import LARGEST_WEIGHT, SMALLEST_WEIGHT, check_label, check_weight

SCORE_ALLOWED = "a finite number"
PROBABILITY_ALLOWED = "a number from 0 to 1"
OTHER_SCALES = "; for other scores give --scale percent, --scale logit or --scale margin"
PERCENTAGE_ALLOWED = "a percentage from 0 to 100"
LABEL_ALLOWED = "0 or 1 (or false, true; no, yes; n, y; f, t; -1, 1), or give --positive VALUE"
LABEL_MISSING = (
    "a label, or --missing-label negative (where none means that nothing happened), unknown (to predict such rows and "
    "not learn them) or skip"
)
#: How far outside [0, 1] rounding is taken to lead, in single precision too, and what to do about it.
ROUNDING_OF_SCORES = 1e-6
CLIP_OPTION = "; where rounding leads outside of them, give --clip"
DECIMAL_COMMA = "a number with a decimal comma, as --decimal , says, and without points"
WEIGHT_ALLOWED = f"0, or a number from {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}"
TIME_ALLOWED = "a finite number or an ISO 8601 time, such as 2026-01-31T12:00:00Z"

#: What to do about texts in another encoding.
UTF_8 = "UTF-8; convert the file, as by iconv -f LATIN1 -t UTF-8"

#: Characters of a value in a message.
LONGEST_SHOWN = 80
#: The reason where a field is empty or not there.
MISSING = "the value is missing"

#: What to do about a full disk, and what is on it.
DISK_FULL = (
    "make space, and give the same command: with --state, a run resumes after its last checkpoint, which is whole, and "
    "cuts the output to its rows; otherwise the output is written from its start"
)

LINE_END = re.compile(r"\r\n?|\n")

#: What to do about a row without a value.
SKIP_OPTION = " (streamcal run: --on-error skip)"
LEAVE_OUT = f"leave such rows out{SKIP_OPTION}"
#: How pandas, SQL dumps, R and logs write that there is no value.
_NO_VALUE = re.compile(r"\s*([-+]?nan|nat|null|\\n|none|<?na>?|#?n/a|-|\?)?\s*", re.IGNORECASE)
#: Texts that probably mean a number, or a missing one, and what to do about them.
_NEARLY_NUMBERS = (
    (_NO_VALUE, LEAVE_OUT),
    (
        re.compile(r"\s*[-+]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?\s*"),
        "write thousands without commas; for decimal ones give --decimal ,",
    ),
    (re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*"), "give --decimal , for decimal commas"),
    (re.compile(r"\s*[-+]?[\d.,]+\s*%\s*"), "write numbers without a percent sign; for scores give --scale percent"),
)

#: Words for a label, in any case, and what they mean.
_LABELS = {
    **dict.fromkeys(("0", "false", "no", "n", "f", "-1"), False),
    **dict.fromkeys(("1", "true", "yes", "y", "t"), True),
}
#: A number in any notation, such as 1.00, +1, 1e0 or 01.
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?")


class RecordError(InputError):
    """A record, or a file of records, that cannot be used.

    The message is one line. Its parts are attributes: `file`, `row` (data rows are counted from 1), `lines` (how many
    the row takes in the file), `column`, `reason`, `allowed`, and `record`, the text of a whole row that could not be
    split into fields. `label` is that of the row, where it is known.

    Examples
    --------
    >>> print(RecordError("'abc' cannot be read", "a finite number").at("clicks.csv", 17, "score"))
    clicks.csv, row 17, column 'score': 'abc' cannot be read; allowed: a finite number
    """

    def __init__(
        self,
        reason: str,
        allowed: str | None = None,
        *,
        file: str | None = None,
        row: int | None = None,
        column: str | None = None,
        record: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.allowed = allowed
        self.file = file
        self.row = row
        self.column = column
        self.record = record
        self.lines = 1 if record is None else line_count(record)
        self.label: bool | None = None
        self.full = False  # whether the disk is

    @property
    def explanation(self) -> str:
        """The reason, how many lines the row takes where they are several, and what is allowed."""
        lines = f"; the row takes {self.lines:,} lines" if self.lines > 1 else ""
        advice = f"; {DISK_FULL}" if self.full else ""
        return self.reason + lines + (f"; allowed: {self.allowed}" if self.allowed else "") + advice

    def at(self, file: str, row: int, column: str | None = None) -> Self:
        """Fill in the location of this error and return it."""
        self.file, self.row, self.column = file, row, column
        return self

    def __str__(self) -> str:
        place = ", ".join(
            part
            for part in (
                self.file,
                None if self.row is None else f"row {self.row}",
                None if self.column is None else f"column {shown(self.column)}",
            )
            if part is not None
        )
        return (f"{place}: " if place else "") + self.explanation


class Reasons:
    """Why rows were skipped, and their number, `rows`; `labelled` have a label that is known, `positives` positive.

    Examples
    --------
    >>> reasons = Reasons()
    >>> for _ in range(2):
    ...     reasons.add(RecordError("'abc' cannot be used", "a number from 0 to 1", column="score"))
    >>> reasons.rows, reasons.most
    (2, "2 of them for column 'score', such as 'abc' cannot be used; allowed: a number from 0 to 1")
    """

    def __init__(self) -> None:
        self.rows = self.labelled = self.positives = 0
        self._columns: dict[str | None, tuple[int, str]] = {}  # rows, and the first reason

    def add(self, error: RecordError) -> None:
        """Count the error of a row."""
        before, first = self._columns.get(error.column, (0, error.explanation))
        self._columns[error.column] = before + 1, first
        self.rows += 1
        self.labelled += error.label is not None
        self.positives += error.label is True

    @property
    def most(self) -> str:
        """The column with the most errors, and its first one."""
        column, (rows, first) = max(self._columns.items(), key=lambda item: item[1][0])
        place = "" if column is None else f" for column {shown(column)}"
        return f"{rows:,} of them{place}, such as {first}"


def line_count(record: str) -> int:
    r"""Count the lines of a record: more than one if line ends are in quotes.

    >>> line_count("a,b"), line_count('a,"b\r\nc"'), line_count('a,"b\nc\n')
    (1, 2, 2)
    """
    return 1 + len(LINE_END.findall(record.rstrip("\r\n")))


def parse_score(value: Any) -> float:
    """Parse the score in a field: a finite number of any size, or its text. `RecordError` otherwise.

    >>> parse_score("0.25"), parse_score(-3)
    (0.25, -3.0)
    """
    score = number_in(value, SCORE_ALLOWED)
    if not math.isfinite(score):
        raise refused(value, SCORE_ALLOWED)
    return score


def parse_probability(value: Any) -> float:
    """Parse the score in a field, which must be a probability. `RecordError` otherwise.

    There is no tolerance: 1.0000000000000002 is refused, since it may be a rounding error or another kind of score;
    `parse_clipped` has one.

    >>> parse_probability("0.25")
    0.25
    """
    score = number_in(value, PROBABILITY_ALLOWED)
    if not 0.0 <= score <= 1.0:  # NaN neither
        rounded = -ROUNDING_OF_SCORES <= score <= 1.0 + ROUNDING_OF_SCORES
        advice = CLIP_OPTION if rounded else OTHER_SCALES if math.isfinite(score) else ""
        raise refused(value, PROBABILITY_ALLOWED + advice)
    return score


def parse_clipped(value: Any) -> float:
    """Parse the score in a field, a probability up to `ROUNDING_OF_SCORES`. `RecordError` otherwise.

    >>> parse_clipped("1.0000001"), parse_clipped(-1e-9)
    (1.0, 0.0)
    """
    score = number_in(value, PROBABILITY_ALLOWED)
    inside = min(max(score, 0.0), 1.0)
    return inside if abs(score - inside) <= ROUNDING_OF_SCORES else parse_probability(value)


def parse_percentage(value: Any) -> float:
    """Parse the percentage in a field as a probability: a hundredth of it. `RecordError` outside [0, 100].

    >>> parse_percentage("2.5")
    0.025
    """
    score = number_in(value, PERCENTAGE_ALLOWED)
    if not 0.0 <= score <= 100.0:
        raise refused(value, PERCENTAGE_ALLOWED)
    return score / 100.0


def parse_log_odds(value: Any) -> float:
    """Parse the log-odds in a field, any finite number, as a probability. `RecordError` otherwise.

    >>> parse_log_odds("0.0")
    0.5
    """
    return sigmoid(parse_score(value))


#: Parsers of scores in other units than probabilities, by the name of the unit.
PARSED_AS_PROBABILITY: dict[str, Callable[[Any], float]] = {"percent": parse_percentage, "logit": parse_log_odds}


def parsed_with_comma(parse: Callable[[Any], float]) -> Callable[[Any], float]:
    """Make a parser of numbers with a decimal comma in texts, and no point, which would separate thousands.

    >>> parsed_with_comma(parse_probability)("0,25")
    0.25
    """

    def read(value: Any) -> float:
        if not isinstance(value, str):
            return parse(value)
        if "." in value:
            raise refused(value, DECIMAL_COMMA)
        try:
            return parse(value.replace(",", "."))
        except RecordError as error:
            if error.reason != MISSING:
                error.reason = refused(value, "").reason
            raise

    return read


def parse_label(value: Any) -> bool:
    """Parse the label in a field, as text in any case or as a value: 0/1, -1/1, false/true, no/yes, n/y or f/t.

    `RecordError` otherwise.

    >>> parse_label("1"), parse_label("No"), parse_label(0.0)
    (True, False, False)
    """
    if isinstance(value, str):
        label = _LABELS.get(value)
        if label is None:
            label = _LABELS.get(label_text(value).lower())
        if label is None:
            raise _refused_label(value)
        return label
    if isinstance(value, (Real, Decimal)) and value == -1:
        return False
    try:
        return check_label(float(value) if isinstance(value, Decimal) else value) == 1.0
    except InputError:
        raise _refused_label(value) from None


def _refused_label(value: Any) -> RecordError:
    return RecordError(MISSING, LABEL_MISSING) if is_missing(value) else refused(value, LABEL_ALLOWED)


class LabelReader:
    """Reads the labels of one column, which holds two values.

    `positive` is the positive one; the first other one is the negative. None: the words that `parse_label` knows. Calls
    raise `RecordError` for a missing value and for one that is neither of the two: -1 and 0 in one column, or a third
    value beside `positive` and the negative. Cost: O(1) for a label.

    Examples
    --------
    >>> read = LabelReader("click")
    >>> read("click"), read("noclick")
    (True, False)
    """

    def __init__(self, positive: str | None = None) -> None:
        self.positive = None if positive is None else label_text(positive)
        #: The negative label, once there was one.
        self.negative: str | None = None

    def __call__(self, value: Any) -> bool:
        return self._known(value) if self.positive is None else self._chosen(value)

    def _known(self, value: Any) -> bool:
        """Parse a word of `parse_label`."""
        label = parse_label(value)
        if not label and value != self.negative:
            word = label_text(value)
            self.negative = self.negative or word
            if {word, self.negative} == {"-1", "0"}:
                raise RecordError(f"{word!r} in a column that has {self.negative!r}", "one of the two beside 1")
        return label

    def _chosen(self, value: Any) -> bool:
        """Parse `positive`, or the one other value."""
        word = label_text(value)
        if word == self.positive:
            return True
        if is_missing(word):
            raise _refused_label(None)
        self.negative = self.negative or word
        if word != self.negative:
            raise RecordError(f"{shown(word)} is a third label", f"{self.positive!r} (--positive) or {self.negative!r}")
        return False


def label_text(value: Any) -> str:
    """Return the text by which labels are compared.

    The text has no spaces around it; a whole number is its digits, and a missing value is empty.

    >>> label_text(" yes "), label_text(2.0), label_text("+1.00"), label_text(True), label_text(None)
    ('yes', '2', '1', 'true', '')
    """
    if value is None or value != value:  # not a number: how some tables write a missing value
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (float, Decimal)) and value == value // 1:
        return str(int(value))
    text = str(value).strip()
    if (
        text[-1:] in set("0123456789.")
        and _NUMBER.fullmatch(text)
        and (number := Decimal(text)) == number.to_integral_value()
    ):
        return str(int(number)) if abs(number) < 10**15 else text
    return text


def is_missing(value: Any) -> bool:
    """Return whether a field is missing: null, empty, not a number, or a text for one of these, such as NULL or N/A.

    >>> is_missing(None), is_missing(" "), is_missing("NaN"), is_missing("NULL"), is_missing(0)
    (True, True, True, True, False)
    """
    return _NO_VALUE.fullmatch(label_text(value)) is not None


def label_advice(values: Iterable[Any]) -> str:
    """Advise what to give if these values of a label column cannot be read: one of them, as `--positive`.

    >>> label_advice(["click", "noclick", "click"])
    "the labels are 'click' and 'noclick': give the positive one, as --positive click or --positive noclick"
    """
    words = list(dict.fromkeys(label_text(value) for value in values if not is_missing(value)))
    if len(words) > 2:
        several = ", ".join(map(shown, words[:3])) + ("" if len(words) == 3 else ", …")
        return f"the labels are {several}: give a column with two values"
    options = [f"--positive {shlex.quote(word) if len(word) <= LONGEST_SHOWN else 'VALUE'}" for word in words]
    return f"the labels are {' and '.join(map(shown, words))}: give the positive one, as {' or '.join(options)}"


def parse_weight(value: Any) -> float:
    """Parse the weight in a field: 0 or a number from 1e-60 to 1e60, or its text. `RecordError` otherwise.

    >>> parse_weight("2.5")
    2.5
    """
    try:
        return check_weight(number_in(value, WEIGHT_ALLOWED))
    except InputError:
        raise refused(value, WEIGHT_ALLOWED) from None


def number_in(value: Any, allowed: str) -> float:
    """Parse the number in a field; Python's `1_000` and `True` are not accepted as numbers."""
    try:
        if isinstance(value, str):
            if "_" not in value:
                return float(value)
        elif isinstance(value, (Real, Decimal)) and not isinstance(value, bool):
            return float(value)
    except (ValueError, OverflowError):
        pass
    raise refused(value, allowed)


def refused(value: Any, allowed: str) -> RecordError:
    """Make the error for a value that cannot be used."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return RecordError(MISSING, f"{allowed}; {LEAVE_OUT}")
    if isinstance(value, float) and math.isnan(value):
        allowed = f"{allowed}; {LEAVE_OUT}"
    elif isinstance(value, str):
        allowed += next((f"; {advice}" for pattern, advice in _NEARLY_NUMBERS if pattern.fullmatch(value)), "")
    return RecordError(f"{shown(value)} cannot be used", allowed)


def as_read(value: Any) -> Any:
    """Return a field of CSV, or of a column of bytes, as text."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def shown(value: Any) -> str:
    """Return the `repr` of the value, truncated if it is long."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."
