"""What a score costs in each system where a map is served: `python -m benchmarks.map_exports` fills docs/maps.md.

Time is that of the processor, the best of several rounds of 10⁵ scores or more, one thread.
"""

from __future__ import annotations

import ctypes
import re
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.environment import require_compiled
from benchmarks.report import table
from streamcal import Auto, Probability, load_map
from streamcal.maps.base import ScaledMap
from streamcal.maps.knots import KnotMap
from streamcal.maps.steps import StepMap

PAGE = Path(__file__).parents[1] / "docs" / "maps.md"
MARKS = r"(?<=<!-- measured -->\n).*?(?=<!-- end of measured -->)"
N, ROUNDS = 100_000, 5
JAVASCRIPT = """
import { calibrate } from "./map.mjs";
import { readFileSync } from "node:fs";
const scores = new Float64Array(readFileSync("scores.bin").buffer.slice(0));
let best = Infinity, sum = 0;
for (let round = 0; round < 5; round++) {
  const before = process.cpuUsage();
  for (const s of scores) sum += calibrate(s);
  const { user, system } = process.cpuUsage(before);
  best = Math.min(best, (1000 * (user + system)) / scores.length);
}
console.log(best, sum > 0);
"""


def maps() -> dict[str, ScaledMap]:
    """Return the maps of the table."""
    rng = np.random.default_rng(0)
    cuts, uneven = np.unique(rng.random(10_000)), np.unique(rng.beta(0.3, 20.0, 10_000))
    auto, scores = Auto(), rng.random(20_000)
    auto.learn_many(scores, rng.random(20_000) < scores)
    return {
        "257 knots": KnotMap(Probability(), np.linspace(0.0, 1.0, 257), np.sort(rng.random(257))),
        "10⁴ steps": StepMap(Probability(), cuts, np.sort(rng.random(len(cuts) + 1))),
        "10⁴ uneven": StepMap(Probability(), uneven, np.sort(rng.random(len(uneven) + 1))),
        "`Auto`": auto.map(),
    }


def nanoseconds(call: Callable[[], Any], scores: int) -> float:
    """Return the processor time of a score, in the best round."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = process_time()
        call()
        best = min(best, process_time() - before)
    return 1e9 * best / scores


def in_c(map: ScaledMap, scores: np.ndarray, folder: Path) -> float:
    """Return the time of the function of arrays."""
    (folder / "map.c").write_text(map.to_c())
    library = folder / f"map{id(map)}.so"
    command = ["gcc", "-std=c99", "-O2", "-shared", "-fPIC", "-o", str(library), str(folder / "map.c"), "-lm"]
    subprocess.run(command, check=True)
    many = ctypes.CDLL(str(library)).calibrate_many
    found = np.empty(len(scores))
    pointers = [one.ctypes.data_as(ctypes.c_void_p) for one in (scores, found)]
    elapsed = nanoseconds(lambda: many(*pointers, ctypes.c_size_t(len(scores))), len(scores))
    np.testing.assert_allclose(found, map.predict_many(scores), atol=1e-15)
    return elapsed


def in_onnx(map: ScaledMap, scores: np.ndarray, folder: Path) -> float:
    """Return the time of a batch of 1,000 scores in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = map.to_onnx().SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    batches = np.split(scores, len(scores) // 1_000)
    return nanoseconds(lambda: [session.run(None, {"score": batch}) for batch in batches], len(scores))


def in_javascript(map: ScaledMap, scores: np.ndarray, folder: Path) -> float:
    """Return the time of a call in Node."""
    (folder / "map.mjs").write_text(map.to_js(), encoding="utf-8")
    (folder / "scores.bin").write_bytes(scores.tobytes())
    (folder / "time.mjs").write_text(JAVASCRIPT, encoding="utf-8")
    done = subprocess.run(["node", "time.mjs"], cwd=folder, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[0])


def in_sql(map: ScaledMap, scores: np.ndarray, query: Callable[[str], Any]) -> float:
    """Return the time of a row."""
    whole = nanoseconds(lambda: query(f"SELECT SUM({map.to_sql('s')}) FROM served"), len(scores))
    return max(whole - nanoseconds(lambda: query("SELECT SUM(s) FROM served"), len(scores)), 0.0)


def in_duckdb(map: ScaledMap, scores: np.ndarray, folder: Path) -> float:
    """Return the time of a row in DuckDB."""
    import duckdb

    database = duckdb.connect(config={"threads": 1})
    database.execute("CREATE TABLE served AS SELECT UNNEST($1::DOUBLE[]) AS s", [scores.tolist()])
    return in_sql(map, scores, lambda text: database.execute(text).fetchall())


def in_sqlite(map: ScaledMap, scores: np.ndarray, folder: Path) -> float:
    """Return the time of a row in SQLite."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE served (s DOUBLE)")
    database.executemany("INSERT INTO served VALUES (?)", [(score,) for score in scores.tolist()])
    return in_sql(map, scores, lambda text: database.execute(text).fetchall())


def in_python(map: ScaledMap, scores: np.ndarray, folder: Path) -> float:
    """Return the time of a call of `load_map`."""
    serve, few = load_map(map.to_json()), scores[:10_000].tolist()
    return nanoseconds(lambda: [serve(score) for score in few], len(few))


def many_in_python(map: ScaledMap, scores: np.ndarray, folder: Path) -> float:
    """Return the time of a score in `predict_many`."""
    return nanoseconds(lambda: map.predict_many(scores), len(scores))


#: System, how the map is written, its exactness, and the function that measures it.
TARGETS: list[tuple[str, str, str, Callable[[ScaledMap, np.ndarray, Path], float]]] = [
    ("C or C++", "`map.to_c()`, `--to c`", "to the last bit; polynomials 1e-14", in_c),
    ("ONNX Runtime", "`map.to_onnx()`, `--to onnx`", "steps to the last bit, others 1e-12", in_onnx),
    ("JavaScript", "`map.to_js()`, `--to js`", "steps to the last bit, others 1e-12", in_javascript),
    ("DuckDB", '`map.to_sql(column, "duckdb")`', "steps to the last bit, others 1e-12", in_duckdb),
    ("SQLite", "`map.to_sql(column)`, `--to sql`", "steps to the last bit, others 1e-12", in_sqlite),
    ("Python, one file", "`load_map(map.to_json())`", "steps to the last bit, others 1e-12", in_python),
    ("Python, arrays", "`map.predict_many`", "the definition", many_in_python),
]


def main() -> None:
    """Measure every system and fill the page."""
    require_compiled()
    every, scores = maps(), np.random.default_rng(1).random(N)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for system, command, exact, measure in TARGETS:
            times = [f"{measure(map, scores, Path(folder)):,.0f}" for map in every.values()]
            rows.append((system, command, exact, *times))
            print(system, *times)
    text = table(("where", "command", "equal to Python", *(f"{name}, ns" for name in every)), rows)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(MARKS, lambda _: f"\n{text}\n\n", page, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
