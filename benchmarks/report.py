"""Results as Markdown tables, and the page they stand in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.runs import ALLOWED
from benchmarks.targets import US, Results, targets


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table; all columns but the first are aligned right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def sections(results: Results) -> dict[str, str]:
    """Write every section that was run, by the name of its markers."""
    return {name: write(results) for name, (key, write) in SECTIONS.items() if results.get(key)}


def fill(page: Path, texts: dict[str, str]) -> None:
    """Replace what stands between `<!-- benchmarks: name -->` and `<!-- end: name -->`."""
    text = page.read_text(encoding="utf-8")
    for name, new in texts.items():
        pattern = rf"(<!-- benchmarks: {name} -->\n).*?(<!-- end: {name} -->)"
        text, times = re.subn(pattern, lambda found, new=new: f"{found[1]}\n{new}\n\n{found[2]}", text, flags=re.DOTALL)  # type: ignore[misc]
        if times != 1:
            raise SystemExit(f"{page} must hold the markers of {name!r} once, and holds them {times} times")
    page.write_text(text, encoding="utf-8")


def _environment(results: Results) -> str:
    return table(("", ""), results["environment"].items()).replace("---:", "---")


def _targets(results: Results) -> str:
    rows = [(row.what, row.target, row.measured, row.verdict) for row in targets(results)]
    return table(("what", "target", "measured", "verdict"), rows)


def _ladder(results: Results) -> str:
    """Subjects down, sizes across: median (minimum) in microseconds."""
    rows = results["ladder"]
    sizes = sorted({row["size"] for row in rows})
    found = {(row["subject"], row["size"]): row for row in rows}
    lines = [
        (name, *(f"{found[name, size]['median'] * US:.2f} ({found[name, size]['minimum'] * US:.2f})" for size in sizes))
        for name in dict.fromkeys(row["subject"] for row in rows)
    ]
    cold = [
        (f"{name}, caches cold", *(f"{found[name, size]['cold'] * US:.2f}" for size in sizes))
        for name in ("VennAbers", "SortedList")
    ]
    floors = ("VennAbers / SortedList", *(f"{found['VennAbers', size]['floors']:.2f} ×" for size in sizes))
    return table(("µs per step", *(f"{size:,}" for size in sizes)), [*lines, *cold, floors])


def _streams(results: Results) -> str:
    rows = [
        (row["stream"], f"{row['median'] * US:.2f}", f"{row['minimum'] * US:.2f}", f"{row['floors']:.2f} ×")
        for row in results["streams"]
    ]
    return table((f"stream, {results['streams'][0]['size']:,} scores", "median µs", "minimum µs", "SortedList"), rows)


def _refits(results: Results) -> str:
    rows = [
        (
            row["subject"], f"{row['size']:,}", f"{row['median'] * 1e3:,.2f}", f"{row['minimum'] * 1e3:,.2f}",
            f"{row['faster']:,.0f} ×", f"{row['faster_cold']:,.0f} ×",
            "" if row["disagreement"] is None else f"{row['disagreement']:.0e}",
        )
        for row in results["refits"]
    ]  # fmt: skip
    faster = "a `VennAbers` step is faster by", "by, caches cold"
    head = ("rival", "scores", "median ms", "minimum ms", *faster, "largest difference")
    return table(head, rows)


def _tail(results: Results) -> str:
    tail = results["tail"]
    clocks = {"wall": "by the wall", "processor": "processor time of the thread", "control": "control, by the wall"}
    rows = [
        (
            name,
            *(f"{tail[clock][key] * US:,.1f}" for key in ("p50", "p99", "p999", "maximum")),
            str(tail[clock]["long"]),
        )
        for clock, name in clocks.items()
    ]
    found = table(("µs", "p50", "p99", "p99.9", "maximum", "above 10 ms"), rows)
    pauses = (
        f"{tail['steps']:,} steps over {tail['size']:,} distinct scores. Python's garbage collector ran "
        f"{tail['collections']} times meanwhile, for {tail['longest_collection'] * 1e3:.2f} ms at the longest. A full "
        f"collection, run afterwards, took {tail['full_collection'] * 1e3:.0f} ms."
    )
    return f"{found}\n\n{pauses}"


def _bulk(results: Results) -> str:
    bulk = results["bulk"]
    fill = bulk["fill"]
    seconds = f"{fill['median']:.3f} s (minimum {fill['minimum']:.3f} s)"
    first = f"`VennAbers().learn_many` of {bulk['size']:,} scores into an empty tree: {seconds}."
    rows = [
        (f"`{row['calibrator']}`", f"{row['chunk']:,}", f"{row['learn_many']:.1f}", f"{row['predict_many']:.1f}")
        for row in bulk["throughput"]
    ]
    return f"{first}\n\n{table(('M observations/s', 'arrays of', 'learn_many', 'predict_many'), rows)}"


def _one_call(results: Results) -> str:
    found = results["one-call"]
    rows = [
        (
            f"`{row['subject']}`", _nanoseconds(row["call"]), _nanoseconds(row["loop"]),
            f"{row['loop'] / row['call']:.1f} ×", _nanoseconds(row["kernel"]),
            "" if row["kernel"] is None else f"{row['over_kernel']:.2f} ×", *_limit(row),
        )
        for row in found["rows"]
    ]  # fmt: skip
    head = ("ns a row", "one call", "Python loop", "loop / call", "kernel", "call / kernel", "target", "verdict")
    held = f"{found['size']:,} observations held, calls of {found['chunk']:,} rows"
    return f"{found['date']}: {held}; processor time, the least of all rounds.\n\n{table(head, rows)}"


def _runs(results: Results) -> str:
    found = results["runs"]
    rows = [
        (
            f"`{row['options']}`, {row['format']}", f"{row['count']:,}", f"{row['wall']:.1f}",
            _nanoseconds(row["processor"] / row["count"]), _nanoseconds(row["arrow"] / row["count"]),
            f"{row['processor'] / row['arrow']:.2f} ×", *_limit_of_run(row),
        )
        for row in found["rows"]
    ]  # fmt: skip
    start = found["start"]
    rows.append(("start, on ten rows", "10", "", f"{start:.2f} s", "", "", "≤ 0.40 s", _verdict(start / 0.4)))
    head = ("`streamcal run`", "rows", "seconds", "ns a row", "Arrow, ns", "run / Arrow", "target", "verdict")
    imports = table(("imports", "ms"), [(name, f"{time:.0f}") for name, time in found["imports"].items()])
    return f"{found['date']}, {found['source']}.\n\n{table(head, rows)}\n\n{imports}"


def _limit_of_run(row: dict[str, Any]) -> tuple[str, str]:
    """Return the target of a run, and the verdict."""
    if row["times"] is not None:
        return f"≤ {row['times']:g} × Arrow", _verdict(row["processor"] / row["arrow"] / row["times"])
    if row["above"] is None:
        return "", ""
    above = (row["processor"] - ALLOWED * row["arrow"]) / row["count"] * US
    return f"≤ {ALLOWED:g} × Arrow + {row['above']:g} µs", _verdict(above / row["above"])


def _verdict(share: float) -> str:
    """Describe whether a measurement, as a share of its target, meets the target."""
    return "met" if share <= 1.0 else f"**missed**, {share:.2f} ×"


def _nanoseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e9:,.0f}"


def _limit(row: dict[str, Any]) -> tuple[str, str]:
    """Return the target of a stream in one call, and the verdict."""
    if row["times"] is not None:
        limit, found = f"≤ {row['times']} × kernel", row["over_kernel"] / row["times"]
    elif row["most"] is not None:
        limit, found = f"≤ {row['most']:,.0f}", row["call"] * 1e9 / row["most"]
    else:
        return "", ""
    return limit, _verdict(found)


def _memory(results: Results) -> str:
    memory = results["memory"]
    rows = [(case, f"{value:.1f}") for case, value in memory["bytes_per_score"].items()]
    found = table((f"{memory['size']:,} distinct scores", "bytes each"), rows)
    return f"{found}\n\n`VennAbers(resolution=4096)`, all cells in use: {memory['grid_4096_bytes']:,} bytes in all."


def _accuracy(results: Results) -> str:
    accuracy = results["accuracy"]
    exact = [
        (str(row["degree"]), row["stream"], f"{row['kkt']:.1e}", f"{100 * row['changed']:.1f} %")
        for row in accuracy["active_set"]
    ]
    osqp = [
        (f"{row['tolerance']:g}", f"{row['median'] * US:.0f}", f"{row['minimum'] * US:.0f}", f"{row['error']:.1e}")
        for row in accuracy["osqp"]
    ]
    first = table(("active set, degree", "stream", "largest KKT residual", "steps that changed it"), exact)
    return f"{first}\n\n{table(('OSQP, degree 20, eps_abs', 'median µs', 'minimum µs', 'largest error'), osqp)}"


def _profile(results: Results) -> str:
    rows = [
        (
            row["what"], row["verb"], f"{row['public'] * US:.2f}", f"{row['kernel'] * US:.2f}",
            f"{(row['public'] - row['kernel']) * US:.2f}", f"{100 * (1 - row['kernel'] / row['public']):.0f} %",
        )
        for row in results["profile"]
    ]  # fmt: skip
    return table(("", "verb", "public µs", "kernel µs", "edge µs", "edge"), rows)


#: Name of the markers → (what must have been run, what writes the text).
SECTIONS: dict[str, tuple[str, Callable[[Results], str]]] = {
    "environment": ("environment", _environment),
    "targets": ("environment", _targets),
    "ladder": ("ladder", _ladder),
    "streams": ("streams", _streams),
    "refits": ("refits", _refits),
    "tail": ("tail", _tail),
    "bulk": ("bulk", _bulk),
    "one-call": ("one-call", _one_call),
    "runs": ("runs", _runs),
    "memory": ("memory", _memory),
    "accuracy": ("accuracy", _accuracy),
    "profile": ("profile", _profile),
}
