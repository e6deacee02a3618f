"""How much of the package one has to read: class chains, the files that a call enters, lines and parameters.

    python tools/house.py             prints the table of docs/architecture.md
    python tools/house.py --folders   prints the lines of each folder, too
    python tools/house.py --tree DIR  measures the package of another checkout

The walks are those of a copy of the package without compiled kernels, so that every call is seen. Comprehensions are
part of the function they stand in, and calls of other packages are not counted.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Parameters and lines of a function that are too many.
MOST_PARAMETERS, MOST_LINES = 8, 60
#: What a walk does, run in the copy: it prints calls, files entered and changes of file of each walk.
WALK = """
import asyncio, contextlib, json, os, sys
import streamcal
from streamcal.app.cli import app
from streamcal.live import Journal, LabelJoin
from streamcal.serving.app import application
from streamcal.serving.service import Service
from streamcal.serving.settings import Settings
from typer.testing import CliRunner
HOME = os.path.dirname(streamcal.__file__)
walks = {}

@contextlib.contextmanager
def walking(name):
    hidden, files = {"<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>"}, []
    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(HOME) and code.co_name not in hidden:
            files.append(code.co_filename)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
    changes = sum(one != other for one, other in zip(files, files[1:]))
    walks[name] = len(files), len(set(files)), changes

ours = lambda cls: sum(one.__module__.startswith("streamcal") for one in cls.__mro__)
walks["chains"] = [ours(cls) for cls in streamcal.REGISTRY.values()]
for name in ("VennAbers", "Auto"):
    cal = getattr(streamcal, name)()
    cal.learn_many([0.1, 0.4, 0.7] * 20, [False, True, True] * 20)
    cal.predict_one(0.3)
    with walking(name):
        cal.predict_one(0.5)

async def post(served, path, item):
    async def receive():
        return {"type": "http.request", "body": json.dumps(item).encode(), "more_body": False}
    async def send(message):
        assert message.get("status", 200) == 200, message
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"",
             "root_path": "", "headers": [(b"content-type", b"application/json")]}
    await served(scope, receive, send)

async def click(served, id):
    await post(served, "/v1/issue", {"id": id, "score": 0.2})
    await post(served, "/v1/outcome", {"id": id, "y": 1})

async def serve():
    with Journal("events.journal") as journal:
        served = application(Service(LabelJoin(cal, 60.0, journal=journal), journal, Settings()))
        async with served.router.lifespan_context(served):
            await click(served, "first")
            with walking("serve"):
                await click(served, "second")

asyncio.run(serve())
with open("rows.csv", "w") as file:
    file.write("score,click\\n0.2,0\\n0.7,1\\n0.4,0\\n")
run = lambda: CliRunner().invoke(app, ["run", "rows.csv", "--score", "score", "--label", "click", "--out", "out.csv"])
run()
with walking("run"):
    run()
print(json.dumps(walks))
"""


def walks(package: Path) -> dict[str, list[int]]:
    """Return calls, files and changes of file of predictions and of a run of three rows, and the lengths of chains."""
    with tempfile.TemporaryDirectory() as folder:
        ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
        shutil.copytree(package, Path(folder, "streamcal"), ignore=ignored)
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", WALK],
            cwd=folder,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": folder, "STREAMCAL_COMPILE": "0"},
        )
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1]
        raise SystemExit(
            f"the package cannot be run by {sys.executable}: {reason}; use the Python of an environment in which "
            "`pip install -e .` has been run"
        )
    walked: dict[str, list[int]] = json.loads(done.stdout.splitlines()[-1])
    return walked


def functions(package: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the functions of the package, each with its place."""
    for path in sorted(package.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(package)}:{node.name}", node


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of parameters, without `self` and `cls`."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without its docstring."""
    first = function.body[0]
    documented = ast.get_docstring(function, clean=False) is not None
    return (function.end_lineno or 0) - function.lineno + 1 - documented * ((first.end_lineno or 0) - first.lineno + 1)


def imports(package: Path) -> dict[str, set[str]]:
    """Return the modules that each module imports, in functions too; what only hands names on is left out."""
    modules = {
        ".".join((package.name, *path.relative_to(package).with_suffix("").parts)): path
        for path in package.rglob("*.py")
        if path.stem not in ("__init__", "__main__")
    }
    found: dict[str, set[str]] = {}
    for module, path in modules.items():
        names: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                home = (node.module or "").removeprefix("cython.cimports.")
                names |= {home, *(f"{home}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
        found[module] = (names & modules.keys()) - {module}
    return found


def arrows_up(arrows: dict[str, set[str]], page: str) -> list[str]:
    """Return the imports from a package to one that the list of packages on a page names later."""
    cells = re.findall(r"^\| (`.+?) \|", page.split("## Packages")[1].split("\n## ")[0], re.MULTILINE)
    names = [name.removesuffix("/").removesuffix(".py") for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    rank = {name: place for place, name in enumerate(names)}
    pairs = [(one, other) for one, others in arrows.items() for other in sorted(others)]
    return [f"{one} -> {other}" for one, other in pairs if rank[one.split(".")[1]] < rank[other.split(".")[1]]]


def in_circles(arrows: dict[str, set[str]]) -> set[str]:
    """Return the modules on or between circles of imports."""
    left = set(arrows)
    while True:
        used = set[str]().union(*(arrows[one] for one in left))
        kept = {one for one in left & used if arrows[one] & left}
        if kept == left:
            return left
        left = kept


def lines(package: Path) -> dict[str, int]:
    """Return the lines of each folder of the package."""
    found: dict[str, int] = {}
    for path in sorted([*package.rglob("*.py"), *package.rglob("*.pxd")]):
        folder = path.relative_to(package).parts[0] if path.parent != package else "."
        found[folder] = found.get(folder, 0) + path.read_text(encoding="utf-8").count("\n")
    return found


def table(package: Path) -> list[tuple[str, str]]:
    """Return the rows of the table: what is measured, and the figure."""
    walk, every = walks(package), list(functions(package))
    chain = walk["chains"]
    most = max(every, key=lambda one: parameters(one[1]))
    long = [one for _, one in every if length(one) > MOST_LINES]
    wide = [one for _, one in every if parameters(one) > MOST_PARAMETERS]
    arrows, page = imports(package), package.parent / "docs" / "architecture.md"
    return [
        (
            f"class chain of the {len(chain)} methods of one score",
            f"{min(chain)} to {max(chain)} of our classes, median {statistics.median(chain):g}",
        ),
        *(
            (f"`{name}.predict_one`, uncompiled", f"{walk[name][0]} calls, {walk[name][1]} files")
            for name in ("VennAbers", "Auto")
        ),
        (
            "an impression and its click through `streamcal serve`, `Auto`",
            "{1} files, {0} calls, {2} changes of file".format(*walk["serve"]),
        ),
        ("`streamcal run`, three rows", "{1} files, {0} calls, {2} changes of file".format(*walk["run"])),
        ("most parameters of a function", f"{parameters(most[1])} (`{most[0]}`)"),
        (f"functions of more than {MOST_PARAMETERS} parameters", f"{len(wide)} of {len(every):,}"),
        (f"functions of more than {MOST_LINES} lines", f"{len(long)} of {len(every):,}"),
        ("imports of a package listed later", f"{len(arrows_up(arrows, page.read_text(encoding='utf-8')))}"),
        ("modules in circles of imports", f"{len(in_circles(arrows))}"),
        ("lines of the package", f"{sum(lines(package).values()):,}"),
    ]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--folders", action="store_true", help="print the lines of each folder, too")
    parser.add_argument("--tree", type=Path, default=ROOT, metavar="DIR", help="the checkout that is measured")
    asked = parser.parse_args()
    package = asked.tree.resolve() / "streamcal"
    rows = table(package)
    print("| measured | figure |\n|---|---|")
    for row in rows:
        print(f"| {row[0]} | {row[1]} |")
    if asked.folders:
        print("\n| folder | lines |\n|---|---:|")
        for folder, count in lines(package).items():
            print(f"| `{folder}` | {count:,} |")


if __name__ == "__main__":
    main()
