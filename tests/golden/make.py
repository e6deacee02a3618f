"""Golden files: what every learner did at one commit, to compare with after a change that should change nothing.

For each learner of each room, under every policy it accepts and in its variants, `<room>.json.gz` contains its
`state_dict()` after a stream, what it then predicts, and what it predicts after that state was loaded and more was
learned; for methods of one score also the map as JSON. The streams and probes are in the file. `tests/test_golden.py`
reads the states, continues from them and replays the streams.

A recorded case may be rewritten when `state_dict()["streamcal"]`, the version of states, changes, or when what it
recorded was wrong and has been corrected: states in the hands of users must be read and mean what they meant. If a test
of golden files fails, the code has changed what it does.

    python tests/golden/make.py             add the cases that are missing, after a new method or variant
    python tests/golden/make.py --compare   make every case again, and name those that differ in any bit
    python tests/golden/make.py --rewrite   record every case again
    python tests/golden/make.py --correct enir/window ...   record these cases again

`--compare` is for a refactoring on one machine: other machines, NumPy and SciPy round otherwise.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for `golden`, however this file is run

from golden.cases import ROOMS, Case
from golden.streams import CALLS

from streamcal import __version__, load_map

FOLDER = Path(__file__).parent
#: Maps of more characters are not kept, which are some of those with thousands of knots; each kind has shorter ones.
LONGEST_MAP = 7500


def plain(state: Any) -> Any:
    """Return the state as JSON reads it back."""
    return json.loads(json.dumps(state, allow_nan=False))


def read(room: str) -> dict[str, Any]:
    """Read the golden file of a room: `streams`, `probes` by stream, and `cases`."""
    path = FOLDER / f"{room}.json.gz"
    if not path.exists():
        return {"streams": {}, "probes": {}, "cases": {}}
    content: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return content


def write(room: str, content: dict[str, Any]) -> None:
    """Write the golden file of a room; the same content makes the same bytes."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", compresslevel=9, fileobj=packed, mtime=0) as file:
        file.write(json.dumps(content, allow_nan=False, separators=(",", ":")).encode())
    (FOLDER / f"{room}.json.gz").write_bytes(packed.getvalue())


def record(room: str, case: Case, content: dict[str, Any]) -> dict[str, Any]:
    """Record what the case does, over the streams of the file."""
    calls, stream, probes = CALLS[room], content["streams"][case.stream], content["probes"][case.stream]
    later = stream["later"] if case.timed else None
    cal = calls.apply_all(case.build(), stream["first"], case.timed)
    found = {"stream": case.stream, "state": plain(cal.state_dict()), "n": cal.n, "tally": cal.tally()}
    found["answers"] = calls.answers(cal, probes, later)
    if room == "binary" and case.writes_its_map:
        text = cal.map().to_json()
        if len(text) <= LONGEST_MAP:
            found["map"] = {"json": json.loads(text), "answers": load_map(text).predict_many(probes).tolist()}
    twin = calls.apply_all(type(cal).from_state(found["state"]), stream["then"], case.timed)
    found["then"] = {"n": twin.n, "tally": twin.tally(), "answers": calls.answers(twin, probes, later)}
    return plain(found)


def make(room: str, rewrite: bool, commit: str, corrected: list[str]) -> None:
    """Add what is missing to the file of a room; with `rewrite`, everything is, and so are the corrected cases."""
    content = {"streams": {}, "probes": {}, "cases": {}} if rewrite else read(room)
    for name in corrected:
        content["cases"].pop(name, None)
    for name in CALLS[room].streams:
        content["streams"].setdefault(name, CALLS[room].stream(name))
        content["probes"].setdefault(name, CALLS[room].probes(name))
    added = [case for case in ROOMS[room][1] if case.name not in content["cases"]]
    for case in added:
        content["cases"][case.name] = {"made": f"{__version__} {commit}", **record(room, case, content)}
    if added:
        write(room, plain(content))
    print(f"{room}: {len(content['cases'])} cases, {len(added)} of them new")


def compare(room: str) -> int:
    """Name the cases that are not what is recorded, to the last bit; how many there are."""
    content = read(room)
    differing = []
    for case in ROOMS[room][1]:
        recorded = {key: value for key, value in content["cases"][case.name].items() if key != "made"}
        if record(room, case, content) != recorded:
            differing.append(case.name)
    print(f"{room}: {len(differing)} of {len(content['cases'])} cases differ", *differing, sep="\n    ")
    return len(differing)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--compare", action="store_true", help="make every case again and name those that differ")
    choice.add_argument("--rewrite", action="store_true", help="record every case anew")
    choice.add_argument("--correct", nargs="+", default=[], metavar="CASE", help="record these cases anew")
    given = parser.parse_args()
    if given.compare:
        return min(sum(compare(room) for room in ROOMS), 1)
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=FOLDER, capture_output=True, text=True)
    for room in ROOMS:
        make(room, given.rewrite, asked.stdout.strip() or "unknown commit", given.correct)
    return 0


if __name__ == "__main__":
    sys.exit(main())
