"""Further measures of `streamcal run --html`, and its report, which is that of `streamcal report`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from streamcal.errors import InputError
from streamcal.live.levels import names_of
from streamcal.parameters.types import FloatArray
from streamcal.stream.comparing import BY_SEGMENT, IDENTITY, RAW, Comparison
from streamcal.stream.entrants import Entrant
from streamcal.stream.files import title_of
from streamcal.stream.run import Run

#: Rows that came one by one and are measured together: a call costs as much as some hundred rows.
AT_ONCE = 256


class RunReport:
    """The comparison of the score with the calibrator of a run that has not begun, which tells it of every row.

    Raise `InputError` where the scores are no probabilities, or the method leaves them as they are. Cost: O(1) a row;
    bounded memory, like `Comparison`.
    """

    def __init__(self, job: Run, path: Path) -> None:
        calibrator = job.calibrator
        fields = getattr(calibrator, "by", ())
        self._name = calibrator.overall.name + (BY_SEGMENT if fields else "")
        if job.evaluation.raw is None:
            raise InputError(f"--html compares with the score as a probability, which {calibrator!r} does not read")
        if self._name == IDENTITY:
            raise InputError(f"--html compares with the score, which is what {calibrator!r} says")
        self._job, self._path = job, path
        self._comparison = Comparison({self._name: calibrator}, segments=fields)
        self._comparison.source = title_of(job.sources)
        self._rows: list[tuple[float, bool, float, float, Mapping[str, Any], float | None]] = []
        job.evaluation.observer = self

    def one(self, score: float, y: bool, w: float, p: float, keys: Mapping[str, Any], t: float | None) -> None:
        """Take a row of the stream and its prediction `p`, with its levels by column and its time."""
        self._rows.append((score, y, w, p, keys, t))
        if len(self._rows) >= AT_ONCE:
            self._settle()

    def many(
        self,
        scores: FloatArray,
        y: NDArray[np.bool_],
        w: FloatArray,
        p: FloatArray,
        keys: Mapping[str, Any],
        t: FloatArray | None,
    ) -> None:
        """Take rows of the stream and their predictions, with columns of levels, and their times."""
        self._settle()
        self._comparison.measure({RAW: scores, self._name: p}, y, w, keys or None, t)

    def save(self, context: typer.Context) -> str:
        """Write the report on the rows so far; a line that says where it is, or that there were no rows.

        The report has the command that was given, that of `context`.
        """
        from streamcal.app.html_report import save_report  # not at the top: most runs do not need it

        self._settle()
        comparison, job = self._comparison, self._job
        if not comparison.names:
            reason = "no horizon has passed yet" if job.taken else "no row was read"
            return f"{self._path}: no report, since {reason}"
        comparison.standings[self._name].seconds, comparison.seconds = job.evaluation.seconds, job.seconds
        entrant = Entrant(job.learning[-1], 0)
        comparison.finish(lambda last: {self._name: entrant.end(last)})
        save_report(comparison, self._path, command=_command_line(context))
        return f"report: {self._path}"

    def _settle(self) -> None:
        """Measure the rows that came one by one."""
        if not self._rows:
            return
        scores, y, w, p, keys, t = zip(*self._rows, strict=True)
        self._rows = []
        columns = {name: [row_keys.get(name) for row_keys in keys] for name in names_of(self._comparison.fields)}
        forecasts = {RAW: np.array(scores), self._name: np.array(p)}
        times = None if t[0] is None else np.array(t, dtype=np.float64)
        self._comparison.measure(forecasts, np.array(y, dtype=np.bool_), np.array(w), columns or None, times)


def _command_line(context: typer.Context) -> str:
    """Return the command line, with the options that differ from their defaults."""
    words = ["streamcal", str(context.info_name)]
    options = []
    for parameter in context.command.params:
        value = context.params.get(str(parameter.name))
        if value is None or value == parameter.default or value == []:
            continue
        if parameter.param_type_name == "argument":
            words += map(str, value if isinstance(value, (list, tuple)) else [value])
        elif value is True:
            options.append(parameter.opts[0])
        else:
            for item in value if isinstance(value, (list, tuple)) else [value]:
                options += [parameter.opts[0], str(item)]
    return shlex.join([*words, *options])
