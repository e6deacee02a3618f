"""The race, in one command; `README.md` in this folder describes it.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.streams                     # development streams; the page
    STREAMCAL_DATA=/path/to/data python -m benchmarks.streams --held-out          # once per release
    STREAMCAL_DATA=/path/to/data python -m benchmarks.streams --further           # the further streams
    python -m benchmarks.streams --packaged                                       # tables of packages, both halves
    python -m benchmarks.streams --streams lab-10d-0.6 --methods online-platt --rows 500   # shortened, prints only

An interrupted race resumes where it stopped. `--again NAME` repeats a method.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path

from benchmarks.environment import require_compiled

DOCS = Path(__file__).resolve().parents[2] / "docs"


def main(arguments: list[str] | None = None) -> None:
    """Run the race, and write the pages of a full run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.streams",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--streams", nargs="+", metavar="NAME", help="these only")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="these entrants only")
    parser.add_argument("--rows", type=int, metavar="N", help="the first N rows of every stream")
    parser.add_argument("--again", nargs="+", default=[], metavar="NAME", help="run these entrants anew")
    parser.add_argument("--held-out", action="store_true", help="the held-out streams too")
    parser.add_argument("--further", action="store_true", help="the further streams instead, a few methods")
    parser.add_argument("--packaged", action="store_true", help="the tables of packages instead, a few methods")
    parser.add_argument("--out", type=Path, help="folder of the page (default: docs, for a full race only)")
    given = parser.parse_args(arguments)
    require_compiled()
    try:
        from benchmarks.streams import catalogue, entrants, further_page, packaged_page, page, standings
        from benchmarks.streams.race import Results, race
    except ImportError as error:
        raise SystemExit(f'{error}: run  pip install -e ".[bench]"') from error
    _known("--streams", given.streams, catalogue.CATALOGUE)
    _known("--methods", given.methods, entrants.entrants())
    _known("--again", given.again, entrants.entrants())
    of = functools.partial(catalogue.names, further=given.further)
    streams = given.streams or of(True) + (of(False) if given.held_out else [])
    results = Results(given.rows)
    if given.packaged and not given.streams:
        race(packaged_page.streams(), given.methods or packaged_page.METHODS, results, given.again)
        packaged_page.write(results, given.out or DOCS)
        return
    if given.further and not given.streams:
        race(streams, given.methods or further_page.METHODS, results, given.again)
        further_page.write(results, given.out or DOCS, given.held_out)
        return
    race(streams, given.methods, results, given.again)
    if not (given.streams or given.methods):
        anew = [draw for name in streams if catalogue.CATALOGUE[name].generated for draw in catalogue.draws(name)[1:]]
        race(anew, (standings.ONLINE_PLATT, standings.REFERENCE), results, given.again)
    if given.out or not (given.streams or given.methods or given.rows):
        page.write(results, given.out or DOCS)
    else:
        print(f"\n{page.table(results, streams, given.methods)}\n\nshortened: no page written")


def _known(option: str, given: list[str] | None, allowed: dict[str, object]) -> None:
    """End with a message where a name is unknown."""
    unknown = [name for name in given or () if name not in allowed]
    if unknown:
        raise SystemExit(f"{option} {' '.join(unknown)} is not possible; give one of: {', '.join(allowed)}")


if __name__ == "__main__":
    main()
