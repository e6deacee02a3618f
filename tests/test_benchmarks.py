"""Micro-benchmarks, and the benchmark command at its smallest.

`pytest tests/test_benchmarks.py -n 0 --benchmark-enable` times them; without it each runs once, so that what is
timed elsewhere is known to work. No test asserts a time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamcal import Bernstein, Calibrator, HistogramBinning, Isotonic, OnlinePlatt, VennAbers, Window
from streamcal.app.doctor import kernel_form

HELD = 10_000
RNG = np.random.default_rng(3)
SCORES = RNG.random(2 * HELD)
LABELS = RNG.random(2 * HELD) < SCORES
STEPS = list(zip(SCORES[HELD:].tolist(), LABELS[HELD:].tolist(), strict=True))

#: What is stepped: every kernel, in the forms that the ladder of `python -m benchmarks` has.
STEPPED: dict[str, Callable[[], Calibrator]] = {
    "venn-abers": VennAbers,
    "venn-abers-window": lambda: VennAbers(forgetting=Window(HELD)),
    "venn-abers-4096": lambda: VennAbers(resolution=4096),
    "isotonic": Isotonic,
    "bernstein-20": lambda: Bernstein(20),
    "bernstein-50": lambda: Bernstein(50),
    "bernstein-20-osqp": lambda: Bernstein(20, "osqp"),
    "online-platt": OnlinePlatt,
}


def _learned(make: Callable[[], Calibrator]) -> Calibrator:
    cal = make()
    cal.learn_many(SCORES[:HELD], LABELS[:HELD])
    return cal


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", STEPPED)
def test_step(benchmark: Any, name: str) -> None:
    """Predict one, learn one, at ten thousand distinct scores."""
    cal = _learned(STEPPED[name])
    turn = iter(STEPS * 1_000)

    def step() -> float:
        score, y = next(turn)
        p = cal.predict_one(score)
        cal.learn_one(score, y)
        return p

    assert 0.0 <= benchmark(step) <= 1.0


def test_interval(benchmark: Any) -> None:
    cal = VennAbers()
    cal.learn_many(SCORES[:HELD], LABELS[:HELD])
    lower, upper = benchmark(cal.predict_interval_one, 0.3)
    assert 0.0 <= lower <= upper <= 1.0


def test_unlearn(benchmark: Any) -> None:
    cal = _learned(VennAbers)

    def there_and_back() -> None:
        cal.learn_one(0.3, True)
        cal.unlearn_one(0.3, True)

    benchmark(there_and_back)
    assert cal.n == HELD


@pytest.mark.parametrize("make", [VennAbers, HistogramBinning], ids=["exact tree", "grid"])
def test_learn_many(benchmark: Any, make: Callable[[], Calibrator]) -> None:
    assert benchmark(_learned, make).n == HELD


@pytest.mark.parametrize("make", [lambda: VennAbers(resolution=4096), HistogramBinning], ids=["steps", "bins"])
def test_predict_many(benchmark: Any, make: Callable[[], Calibrator]) -> None:
    cal = _learned(make)
    assert benchmark(cal.predict_many, SCORES).shape == SCORES.shape


# -- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def command() -> Any:
    """`benchmarks.__main__`, where the rivals are installed and the kernels compiled."""
    for rival in ("betacal", "online_cp", "venn_abers", "sklearn", "matplotlib"):
        pytest.importorskip(rival)
    from benchmarks import __main__

    if kernel_form() != "compiled":
        pytest.skip("the benchmarks refuse to run uncompiled")
    return __main__


@pytest.mark.full
def test_command_fills_the_page(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    tiny = replace(command.QUICK, sizes=(200, 400), rounds=2, refit_sizes=(200,), tail_size=500, tail_steps=1_000)
    tiny = replace(tiny, stream_size=200, bulk_size=20_000, memory_size=2_000, accuracy_steps=20, profile_sizes=(200,))
    monkeypatch.setattr(command, "QUICK", tiny)
    command.main(["--quick", "--out", str(tmp_path)])
    page = (tmp_path / command.PAGE).read_text(encoding="utf-8")
    assert "| VennAbers / SortedList |" in page
    assert {path.name for path in (tmp_path / "performance").iterdir()} == {
        "cost.png", "growth.png", "tail.png", "results.json",
    }  # fmt: skip


def test_command_refuses_uncompiled_kernels(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import environment

    monkeypatch.setattr(environment, "kernel_form", lambda: "uncompiled")
    with pytest.raises(SystemExit, match="pip install -e"):
        command.main(["--quick"])


def test_command_knows_its_parts(command: Any) -> None:
    with pytest.raises(SystemExit, match="give one of memory, ladder"):
        command.main(["--quick", "--only", "nothing"])


def test_a_target_that_was_not_run_is_not_met() -> None:
    from benchmarks.targets import targets

    assert {target.met for target in targets({})} == {None}


def test_a_turn_is_two_batches_of_steps_never_seen_before() -> None:
    from benchmarks.arrivals import Stream
    from benchmarks.timing import Subject, arrivals, race

    class Counting(Subject):
        batch, warm_up = 10, 0

        def __init__(self) -> None:
            self.sizes: list[int] = []
            self.scores: set[float] = set()

        def run(self, part: Any) -> None:
            self.sizes.append(len(part.steps))
            self.scores.update(score for _, score, _ in part.steps)

    subject = Counting()
    turns = race({"counting": subject}, Stream(100, arrivals(3, 0), 3), 3)["counting"]
    assert len(turns.cold.rounds) == len(turns.usual.rounds) == 3
    assert subject.sizes == [10] * 6
    assert len(subject.scores) == 60


def test_the_cost_of_the_stable_abi(capsys: pytest.CaptureFixture[str]) -> None:
    """The steps are timed, and what is printed is a median of ratios; compiling is left to the command itself."""
    from benchmarks.stable_abi import SUBJECTS, report, seconds_per_step

    assert all(seconds_per_step(make, batches=1) > 0 for make in SUBJECTS.values())
    rounds = [
        {form: dict.fromkeys(SUBJECTS, seconds) for form, seconds in zip(("usual", "stable ABI"), pair, strict=True)}
        for pair in [(1e-6, 1.5e-6), (2e-6, 2e-6), (1e-6, 1.25e-6)]
    ]
    report(rounds, {})
    assert "| Venn-Abers | 1.000 | 1.500 | 1.25 |" in capsys.readouterr().out


@pytest.mark.full
def test_the_table_of_methods(tmp_path):
    """What a step of each method costs: a row for each size, a cell for what was measured."""
    from benchmarks import methods
    from benchmarks.plots import draw_methods

    rows = [
        methods.measured(name, size, steps=20, seconds=5.0)
        for name in ("histogram-binning", "online-platt")
        for size in (50, 90)
    ]
    assert all(row["median"] <= row["p99"] and row["steps"] == 47 for row in rows)  # a third of 70 are left out
    about = dict.fromkeys(("date", "processor", "python", "load average"), "-")
    table = methods.section(rows[:-1], about).splitlines()
    assert [line.split(" | ")[0] for line in table[2:4]] == ["| `histogram-binning`", "| `online-platt`"]
    assert table[3].endswith(" |  |"), "a size that was not measured is left empty"
    names = [f"method {k}" for k in range(30)]
    draw_methods([row | {"method": name} for name in names for row in rows[:2]], about, tmp_path / "methods.png")
    assert (tmp_path / "methods.png").stat().st_size > 10_000


def test_the_table_of_methods_of_other_rooms():
    """One method of each room is timed; every name is that of one method only."""
    from benchmarks import methods
    from benchmarks.rooms import SUBJECTS
    from streamcal import fusion, multiclass, regression
    from streamcal.calibrators.registry import REGISTRY

    for name in ("LogisticFusion()", 'OneVsRest("online-platt")', 'EmpiricalDensity("online-platt", 16)'):
        row = methods.measured(name, 30, steps=20, seconds=5.0)
        assert row["minimum"] <= row["median"] <= row["p99"]
        assert row["steps"] == 47
    assert not set(SUBJECTS) & set(REGISTRY)
    every = [method.__name__ for room in (fusion, multiclass, regression) for method in room.METHODS.values()]
    assert {f"{name}()" for name in every} <= set(SUBJECTS)


def test_the_counts_of_slow_solves():
    """They read the fields of the kernels as these are."""
    from benchmarks import solve_counts

    fits, cells, computed = solve_counts.trends("linear-trend", 200, 20)
    assert fits > 1
    assert computed >= 1
    assert cells > 10
    assert solve_counts.trends("elite", 200, 20)[2] == 0
    assert solve_counts.points("platt", 10.0, 200, 20) > 20


@pytest.mark.full
def test_the_counts_and_the_figure_of_the_tree_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scripts read the fields of the kernel: both work on the kernel as it is."""
    pytest.importorskip("matplotlib")
    from benchmarks import figures, tree_counts

    monkeypatch.setattr("sys.argv", ["tree_counts", "--quick"])
    tree_counts.main()
    assert capsys.readouterr().out.count("bytes per score") == 2
    figures.draw(tmp_path / "tree.png")
    assert (tmp_path / "tree.png").stat().st_size > 100_000
