"""All benchmarks of streamcal, in one command.

    python -m benchmarks                  # everything; writes docs/performance.md, docs/performance/, and the tables
                                          # of docs/long_streams.md and docs/late_labels_measured.md
    python -m benchmarks --quick          # a smoke run of some minutes; prints only
    python -m benchmarks --only tail      # one part; prints only
    python -m benchmarks --quick --out /tmp/page    # writes there

Run it on a machine that does nothing else, pinned to one core: `taskset -c 1 python -m benchmarks`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.environment import environment, require_compiled
from benchmarks.plan import FULL, QUICK, Plan

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = "performance.md"
#: Parts whose results are texts of another page, by their markers.
PAGES = {"long-streams": "long_streams.md", "click-log": "long_streams.md", "pending": "late_labels_measured.md"}


def parts() -> dict[str, Callable[[Plan], Any]]:
    """Name → what runs it. Imported late: without the rivals of the extra `bench` the imports fail."""
    try:
        from benchmarks import (
            accuracy,
            bulk,
            click_log,
            ladder,
            long_streams,
            memory,
            one_call,
            pending,
            profile,
            runs,
            tail,
        )
    except ImportError as error:
        raise SystemExit(f'{error}: the rivals are missing; run  pip install -e ".[bench]"') from error
    return {
        "memory": memory.memory,
        "ladder": ladder.ladder,
        "streams": ladder.streams,
        "refits": ladder.refits,
        "accuracy": accuracy.accuracy,
        "bulk": bulk.bulk,
        "one-call": one_call.one_call,
        "runs": runs.runs,
        "profile": profile.profile,
        "tail": tail.tail,
        "long-streams": long_streams.long_streams,
        "click-log": click_log.click_log,
        "pending": pending.pending,
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the parts, print the results, and write the page of a full run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smoke run of some minutes")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="the ladder: numbers of distinct scores")
    parser.add_argument("--only", action="append", metavar="NAME", help="run this part only; may be repeated")
    parser.add_argument(
        "--out", type=Path, help="folder of the page and its plots (default: docs, for a full run only)"
    )
    given = parser.parse_args(arguments)
    require_compiled()
    plan = QUICK if given.quick else FULL
    if given.sizes:
        plan = plan.with_sizes(given.sizes)
    partial = given.quick or given.sizes or given.only
    results = run(plan, given.only)
    if given.out or not partial:
        write(results, given.out or DOCS)


def run(plan: Plan, only: list[str] | None) -> dict[str, Any]:
    """Run the parts and print them as they come."""
    from benchmarks import ladder, report

    known = parts()
    unknown = set(only or ()) - set(known)
    if unknown:
        raise SystemExit(f"--only {' '.join(sorted(unknown))} is not possible; give one of {', '.join(known)}")
    results: dict[str, Any] = {"environment": environment(plan.seed)}
    print(report.sections(results)["environment"], flush=True)
    for name, measure in known.items():
        if only and name not in only:
            continue
        start = time.perf_counter()
        results[name] = measure(plan)
        if name == "ladder" and len(plan.sizes) > 1:
            results["growth"] = ladder.growth(results["ladder"])
        text = "\n\n".join(results[name].values()) if name in PAGES else report.sections(results)[name]
        print(f"\n## {name} ({time.perf_counter() - start:.0f} s)\n\n{text}", flush=True)
    print(f"\n## targets\n\n{report.sections(results)['targets']}", flush=True)
    return results


def write(results: dict[str, Any], out: Path) -> None:
    """Write the page, its plots and the figures behind them, and the tables of other pages."""
    from benchmarks import plots, report

    figures = out / "performance"
    figures.mkdir(parents=True, exist_ok=True)
    for page in (PAGE, *PAGES.values()):
        if not (out / page).exists():
            shutil.copy(DOCS / page, out / page)
    for name, page in PAGES.items():
        report.fill(out / page, results.get(name, {}))
    own = {name: found for name, found in results.items() if name not in PAGES}
    (figures / "results.json").write_text(json.dumps(own, indent=1), encoding="utf-8")
    report.fill(out / PAGE, report.sections(own))
    plots.draw(results, figures)
    print(f"\nwritten: {out / PAGE}")


if __name__ == "__main__":
    main()
