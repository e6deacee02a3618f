"""Whether the tests notice when the code is wrong: some ninety edits of the package, one after the other.

    python tests/mutants.py                      # every mutant against the files of the default run that concern it
    python tests/mutants.py --full --write       # survivors: wider, then -m full; writes docs/testing/mutants.md
    python tests/mutants.py --only window-off-by-one
    python tests/mutants.py --table              # tries nothing: writes the table for the list of mutants as it is

A mutant is an edit of `mutant_edits.py` in a copy of the source tree. It is killed by the first test that fails under
it and passes without it: every such test is run once more on the unedited copy. A run that does not end within the time
limit is no kill.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from mutant_edits import MUTANTS, WIDER, Mutant

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "testing" / "mutants.md"
BEGIN, END = "<!-- mutants: written by tests/mutants.py -->", "<!-- end of mutants -->"
HEAD = "| mutant | file | what goes wrong | noticed by | on |\n|---|---|---|---|---|\n"
#: Seconds for one call of pytest.
LIMIT = 600
NOT_COPIED = shutil.ignore_patterns(".git", ".hypothesis", ".mypy_cache", ".ruff_cache", "build", "dist", "*.egg-info")
FULL, NOBODY, NO_END, UNTRIED = "-m full: ", "nobody", "no end", "not tried"


class Outcome(NamedTuple):
    """What became of a mutant: the test that failed, after `FULL` if it is none of the default run; or why none did."""

    mutant: Mutant
    by: str
    seconds: float

    @property
    def killed(self) -> bool:
        return self.by not in (NOBODY, NO_END)


def failing_tests(copy: Path, tests: list[str], *options: str) -> list[str]:
    """Return the tests that fail in a copy of the tree, `NO_END` alone if time runs out."""
    report = copy / "report.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "--tb=no"]
    try:
        ran = subprocess.run(
            [*command, f"--junitxml={report}", *options, *tests],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy)},
            capture_output=True,
            text=True,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return [NO_END]
    if ran.returncode in (0, 5):  # passed, or nothing of these files is in this part of the suite
        return []
    failed = [
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}"
        for case in (ET.parse(report).iter("testcase") if report.exists() else ())
        if case.find("failure") is not None or case.find("error") is not None
    ]
    if not failed:
        raise SystemExit(f"pytest ended with {ran.returncode} and no failing test:\n{ran.stdout}{ran.stderr}")
    return failed


def first_failing(copy: Path, tests: list[str], *options: str) -> str | None:
    """Return the first test that fails, if one does."""
    return next(iter(failing_tests(copy, tests, "-x", *options)), None)


@contextmanager
def edited(copy: Path, mutant: Mutant) -> Iterator[None]:
    """Edit the copy, and restore it afterwards.

    Bytecode of the file is removed, since an edit may keep the size and the second of writing. If the checkout was
    compiled in place, the compiled forms of the folder are too: a compiled kernel calls the compiled form of another.
    """
    path = copy / "streamcal" / mutant.file
    source = path.read_text(encoding="utf-8")
    if source.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name}: {mutant.old!r} is {source.count(mutant.old)} times in {mutant.file}")

    def write(text: str) -> None:
        path.write_text(text, encoding="utf-8")
        for bytecode in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            bytecode.unlink()

    compiled = {form: form.with_suffix(".away") for form in path.parent.glob("*.so")}
    for form, away in compiled.items():
        form.rename(away)
    write(source.replace(mutant.old, mutant.new))
    try:
        yield
    finally:
        write(source)
        for form, away in compiled.items():
            away.rename(form)


def outcome(copy: Path, mutant: Mutant, full: bool) -> Outcome:
    """Try a mutant on the test that noticed it the last time, and on the files that concern it.

    If it survives and `full` is set, try it on more files and with -m full.
    """
    begun = time.perf_counter()
    own, last = files(mutant.tests), noticed_last(mutant)
    with edited(copy, mutant):
        by = (first_failing(copy, [last]) if last else None) or first_failing(copy, own)
        if by is None and full:
            wider = [file for file in files(WIDER[mutant.file.split("/")[0]]) if file not in own]
            by = first_failing(copy, wider) if wider else None
            if by is None:
                by = first_failing(copy, [*own, *wider], "-m", "full")
                by = FULL + by if by not in (None, NO_END) else by
    return Outcome(mutant, by or NOBODY, time.perf_counter() - begun)


def noticed_last(mutant: Mutant) -> str | None:
    """Return the test of the default run that the table names, if it still exists."""
    pattern = rf"^\| `{mutant.name}` \|.*\| `(\w+\.py)::(\w+)` \|"
    row = re.search(pattern, PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    path = ROOT / "tests" / row[1] if row else None
    there = path is not None and path.exists() and f"def {row[2]}(" in path.read_text(encoding="utf-8")
    return f"tests/{row[1]}::{row[2]}" if there else None


def files(stems: str) -> list[str]:
    return [f"tests/{stem}.py" for stem in stems.split()]


def confirmed(copy: Path, outcomes: list[Outcome]) -> list[Outcome]:
    """Return the outcomes, without the kills by tests that fail on the unedited source too."""
    failing: set[str] = set()
    for options, tests in (
        ((), {one.by for one in outcomes if one.killed and not one.by.startswith(FULL)}),
        (("-m", "full"), {one.by.removeprefix(FULL) for one in outcomes if one.by.startswith(FULL)}),
    ):
        failing.update(failing_tests(copy, sorted(tests), *options) if tests else ())
    if NO_END in failing:
        raise SystemExit("the tests that killed do not end on the unedited source")
    for test in sorted(failing):
        print(f"fails on the unedited source, and is no kill: {test}")
    return [one._replace(by=NOBODY) if one.by.removeprefix(FULL) in failing else one for one in outcomes]


def tried(mutants: list[Mutant], full: bool, jobs: int) -> list[Outcome]:
    """Return the outcomes of these mutants, reported as they come; `jobs` at a time, each in a copy of its own."""
    with tempfile.TemporaryDirectory() as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for job in range(jobs):
            copies.put(Path(shutil.copytree(ROOT, Path(folder) / f"copy{job}", ignore=NOT_COPIED)))

        def one(mutant: Mutant) -> Outcome:
            copy = copies.get()
            try:
                found = outcome(copy, mutant, full)
            finally:
                copies.put(copy)
            print(f"{found.seconds:6.1f} s  {mutant.name:32} {found.by}", flush=True)
            return found

        with ThreadPoolExecutor(jobs) as pool:
            outcomes = list(pool.map(one, mutants))
        return confirmed(copies.get(), outcomes)


def summary(by: list[str]) -> str:
    """Write the totals of a list of `Outcome.by`."""
    untried, by_full = by.count(UNTRIED), sum(one.startswith(FULL) for one in by)
    by_default = sum(one not in (NOBODY, NO_END, UNTRIED) and not one.startswith(FULL) for one in by)
    further = f"; {untried} are not tried yet" if untried else ""
    return (
        f"{len(by)} mutants: {by_default} are killed by the default run, {by_full} by `-m full` alone, "
        f"{len(by) - by_default - by_full - untried} by neither (equivalent, or not tested){further}."
    )


def recorded() -> dict[str, tuple[str, str]]:
    """Return who noticed each mutant of the page, and when."""
    table = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    rows = re.finditer(r"^\| `([\w-]+)` \|.* \| (.*?) \| (\S*) \|$", table, re.MULTILINE)
    return {row[1]: (row[2].replace("`", ""), row[3]) for row in rows}


def page(noticed: dict[str, tuple[str, str]]) -> str:
    """Write the page: a row for each mutant of the list, in its order."""
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    results = [noticed.get(mutant.name, (UNTRIED, "–")) for mutant in MUTANTS]
    rows = [
        f"| `{mutant.name}` | `{mutant.file}` | {mutant.breaks} | {f'`{by}`' if '::' in by else by} | {day} |\n"
        for mutant, (by, day) in zip(MUTANTS, results, strict=True)
    ]
    return f"{before}{BEGIN}\n{summary([by for by, _ in results])}\n\n{HEAD}{''.join(rows)}{END}{after}"


def write(outcomes: list[Outcome]) -> None:
    """Write the page with these outcomes, and those recorded of other mutants."""
    today = date.today().isoformat()
    found = {one.mutant.name: (one.by.replace("tests/", "").split("[")[0], today) for one in outcomes}
    PAGE.write_text(page({**recorded(), **found}), encoding="utf-8")


def main() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", default=names)
    parser.add_argument("--full", action="store_true", help="try survivors wider, and with -m full")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write the rows into docs/testing/mutants.md")
    parser.add_argument("--table", action="store_true", help="write the table of the page, and try nothing")
    arguments = parser.parse_args()
    if arguments.table:
        write([])
        return
    chosen = [mutant for mutant in MUTANTS if mutant.name in arguments.only]
    outcomes = tried(chosen, arguments.full, arguments.jobs)
    print(summary([one.by for one in outcomes]))
    if arguments.write:
        write(outcomes)


if __name__ == "__main__":
    main()
