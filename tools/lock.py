"""What CI installs: `.ci/constraints.txt`, every distribution with its version and the SHA-256 of its file.

    python tools/lock.py                writes the file anew, for this version of Python on this system
    python tools/lock.py --fetch DIR    downloads the files into DIR; fails unless each has the hash written
    python tools/lock.py --fetch DIR --to-build   only those that the package itself is built with
    python tools/lock.py --extra NAME…  prints what extras, and those that they include, name beside the package

`.ci/run` fetches the files first, and installs as the README says from this folder alone. The constraints are for one
version of Python on one system, which their first line names. With another one, or where the package index lacks one of
the versions, `--fetch` says so and ends with status 3, and `.ci/run` installs what the index has; a file with another
hash ends it with 1.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONSTRAINTS = ROOT / ".ci" / "constraints.txt"
#: The extras that `.ci/run` installs.
EXTRAS = ("test", "lint", "bench", "docs", "spark", "wheel")
#: What pip, before version 23.3, builds an sdist with that has no pyproject.toml; two distributions have no wheel.
FOR_PIP = ("wheel",)
#: Exit statuses of `--fetch`.
WRONG_FILE, NOT_TO_BE_HAD = 1, 3


def system() -> str:
    """Return the version of Python and the system for which files are chosen."""
    return f"Python {sys.version_info.major}.{sys.version_info.minor}, {platform.system()} {platform.machine()}"


def wanted() -> list[str]:
    """Return all requirements of the project and of its build, besides the package itself."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [
        *pyproject["build-system"]["requires"], *FOR_PIP, *pyproject["project"]["dependencies"], *of_extras(EXTRAS)
    ]  # fmt: skip


def building() -> set[str]:
    """Return the names of what the package itself is built with."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    return {re.split(r"\W", one)[0].lower() for one in build["requires"]} | set(FOR_PIP)


def of_extras(names: Iterable[str]) -> list[str]:
    """Return what extras, and those that they include, name beside the package itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    named = {name for extra in names for name in _with_parts(extra, extras, project["name"])}
    return [one for name in sorted(named) for one in extras[name] if not one.startswith(f"{project['name']}[")]


def _with_parts(extra: str, extras: dict[str, list[str]], name: str) -> set[str]:
    """Return an extra and those it includes, as `test = ["streamcal[plot]"]`."""
    parts = [one for one in extras[extra] if one.startswith(f"{name}[")]
    inner = {part.strip() for one in parts for part in one.partition("[")[2].rstrip("]").split(",")}
    return {extra}.union(*(_with_parts(part, extras, name) for part in inner))


def write() -> None:
    """Let pip choose the newest versions that fit together, and write them with their hashes."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        command = ["install", "-q", "--dry-run", "--ignore-installed", "--report", report.name, *wanted()]
        subprocess.run([sys.executable, "-m", "pip", *command], check=True)
        chosen = json.load(report)["install"]
    lines = sorted(_line(one) for one in chosen)
    CONSTRAINTS.write_text("\n".join([f"# {system()}; written by tools/lock.py", *lines, ""]), encoding="utf-8")
    print(f"{CONSTRAINTS.relative_to(ROOT)}: {len(lines)} distributions")


def _line(chosen: dict) -> str:
    """Return a requirement that only one file meets."""
    name, version = chosen["metadata"]["name"].lower().replace("_", "-"), chosen["metadata"]["version"]
    return f"{name}=={version} --hash=sha256:{chosen['download_info']['archive_info']['hashes']['sha256']}"


def fetch(folder: str, to_build: bool) -> int:
    """Download the files; the exit status."""
    text = CONSTRAINTS.read_text(encoding="utf-8")
    locked = text.partition(";")[0].lstrip("# ")
    if locked != system():
        print(f"{CONSTRAINTS.relative_to(ROOT)} is for {locked}; this is {system()}", file=sys.stderr)
        return NOT_TO_BE_HAD
    lines = [line for line in text.splitlines() if not to_build or line.partition("==")[0] in building()]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as chosen:
        print(*lines, sep="\n", file=chosen, flush=True)
        command = ["download", "-q", "--no-deps", "--require-hashes", "-r", chosen.name, "-d", folder]
        done = subprocess.run([sys.executable, "-m", "pip", *command], stderr=subprocess.PIPE, text=True)
    if done.returncode == 0:
        return 0
    print(done.stderr, file=sys.stderr)
    return NOT_TO_BE_HAD if "No matching distribution found" in done.stderr else WRONG_FILE


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fetch", metavar="DIR")
    parser.add_argument("--to-build", action="store_true")
    parser.add_argument("--extra", metavar="NAME", nargs="+")
    given = parser.parse_args()
    if given.extra is not None:
        print(*of_extras(given.extra), sep="\n")
        sys.exit()
    sys.exit(write() if given.fetch is None else fetch(given.fetch, given.to_build))
