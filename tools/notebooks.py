"""Run the notebooks of examples/notebooks/, and store what their cells print and show.

    python tools/notebooks.py                 all of them
    python tools/notebooks.py --check FILE    fails where a cell of this one prints something else than it stores

The cells are plain Python, so no kernel of Jupyter is needed. The value of the last line of a cell is shown: a figure
of matplotlib as a picture, anything else as text, and as HTML where it has that. Each notebook runs in a folder of its
own.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"


def ran(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return the notebook with the outputs that its cells have now."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, number = [], 0
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            number += 1
            cell = {**cell, "execution_count": number, "outputs": outputs("".join(cell["source"]), names, number)}
        cells.append(cell)
    return {**notebook, "cells": cells}


def outputs(source: str, names: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Run a cell; return what it prints, and the value of its last line."""
    tree, value, printed = ast.parse(source), None, io.StringIO()
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"cell {number}", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        result = {"data": shown(value), "execution_count": number, "metadata": {}, "output_type": "execute_result"}
        found.append(result)
    return found


def shown(value: Any) -> dict[str, Any]:
    """Return a value in the forms that a notebook shows."""
    data: dict[str, Any] = {"text/plain": lines(repr(value))}
    if hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.savefig(picture, format="png", dpi=80, bbox_inches="tight", metadata={"Software": None})
        data["image/png"] = base64.b64encode(picture.getvalue()).decode()
    elif hasattr(value, "_repr_html_"):
        data["text/html"] = lines(value._repr_html_())
    return data


def lines(text: str) -> list[str]:
    """Return the lines of a text as a notebook stores them."""
    return text.splitlines(keepends=True)


def texts(notebook: dict[str, Any]) -> list[str]:
    """Return what each output of a notebook says."""
    found = [one for cell in notebook["cells"] for one in cell.get("outputs", ())]
    return ["".join(one["text"] if "text" in one else one["data"]["text/plain"]) for one in found]


def main(arguments: list[str]) -> int:
    """Run notebooks and write them, or with `--check` compare them; return the number for the exit code."""
    check = arguments[:1] == ["--check"]
    paths = [Path(one).resolve() for one in arguments[check:]] or sorted(FOLDER.glob("*.ipynb"))
    wrong = 0
    for path in paths:
        stored = json.loads(path.read_text(encoding="utf-8"))
        with tempfile.TemporaryDirectory() as folder:
            home = os.getcwd()
            os.chdir(folder)
            try:
                now = ran(stored)
            finally:
                os.chdir(home)
        if not check:
            path.write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            continue
        before, after = texts(stored), texts(now)
        for old, new in zip(before, after, strict=False):
            if old != new:
                print(f"{path.name} stores\n{old}\nand prints\n{new}\nrun python tools/notebooks.py")
        wrong += before != after
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
