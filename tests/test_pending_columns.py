"""Events of a join in columns: the same as a loop of its events, to the last bit."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamcal import Auto, OnlinePlatt, Platt
from streamcal.errors import InputError
from streamcal.live import Journal, LabelJoin, Segmented
from streamcal.live.issued import ConflictError, Issued

METHODS: dict[str, Callable[[], Any]] = {
    "online-platt": OnlinePlatt,
    "ops": lambda: OnlinePlatt(discount=0.999),
    "auto": Auto,
    "platt": Platt,
    "segmented": lambda: Segmented(OnlinePlatt(), ["place"]),
    "segmented by two": lambda: Segmented(OnlinePlatt(), ["place", ("place", "site")], max_levels=5),
    "segmented ops": lambda: Segmented(OnlinePlatt(discount=0.999), ["site", "place"]),
    "segmented auto": lambda: Segmented("auto", ["place"]),
    "segmented platt": lambda: Segmented("platt", ["place"]),
}


def alone(join: LabelJoin) -> LabelJoin:
    """Return a join that learns each label by the methods of the calibrator: what compiled steps are compared with."""
    join._use_steps = lambda: join._now.use(join, None, None, False) is not None  # type: ignore[method-assign]
    return join


def events(seed: int, n: int = 3_000) -> dict[str, Any]:
    """Impressions and outcomes with everything that is not plain in some rows."""
    rng = np.random.default_rng(seed)
    ids: list[Any] = rng.integers(0, 40 * n, n).tolist()
    for k in range(0, n, 5):
        ids[k] = f"text {k}" if k % 2 else str(2**63 + k)
    ids[50::400] = ids[40::400][: len(ids[50::400])]  # again, with other scores
    t = np.cumsum(rng.exponential(1.0, n))
    t[100::300] -= 20.0  # behind the clock
    t[150::700] -= 130.0  # too far
    scores = rng.beta(1.0, 5.0, n)
    scores[7::500] = 0.0
    w = np.where(rng.random(n) < 0.1, 3.0, 1.0)
    return {"ids": ids, "t": t, "scores": scores, "w": w, "y": rng.random(n) < 0.3, "delay": rng.exponential(60.0, n)}


def issued(join: LabelJoin, given: dict[str, Any], rows: range, keys: list[Any] | None, *, many: bool) -> list[Any]:
    """Issue rows in columns or one by one; return what is answered, an error in place of a probability."""
    found: list[Any] = []
    ids, scores, t, w = (given[name] for name in ("ids", "scores", "t", "w"))
    at = rows.start
    while at < rows.stop:
        end = rows.stop if many else at + 1
        some = slice(at, end)
        before = join.tally()["issued"] + join.tally()["repeated"]
        try:
            if many:
                levels = None if keys is None else keys[some]
                found += join.issue_many(ids[some], scores[some], t[some], keys=levels, w=w[some]).tolist()
            else:
                level = None if keys is None else keys[at]
                one = join.issue(ids[at], float(scores[at]), float(t[at]), keys=level, w=float(w[at]))
                found.append(one.p)
        except InputError as error:
            found.append(str(error))
            end = at + 1 + join.tally()["issued"] + join.tally()["repeated"] - before
        at = end
    return found


def taken(join: LabelJoin, given: dict[str, Any], piece: int, *, many: bool) -> list[Any]:
    """Issue and resolve in pieces, in columns or one by one; return all that is answered."""
    found: list[Any] = []
    n = len(given["ids"])
    levels: list[Any] = [{"place": f"p{k % 7}", **({"site": k % 11} if k % 4 else {})} for k in range(n)]
    levels[17::40] = [{"place": f"{k % 3}x", "site": 2.0} for k in range(len(levels[17::40]))]
    levels[19::40] = [{"site": None, "size": k % 5} if k % 3 else None for k in range(len(levels[19::40]))]
    levels[97::400] = [{"plase": "p1"}] * len(levels[97::400])  # refused by `Segmented`
    for begin in range(0, n, piece):
        end = min(begin + piece, n)
        keys = levels if isinstance(join.calibrator, Segmented) or begin > n // 2 else None
        found += issued(join, given, range(begin, end), keys, many=many)
        back = [k for k in range(max(begin - 60, 0), end) if k % 3 == 0 and given["delay"][k] < 200.0]
        ids = [given["ids"][k] for k in back] + ["unknown"]
        y = np.array([given["y"][k] for k in back] + [True])
        t = np.array([given["t"][k] + given["delay"][k] for k in back] + [float(given["t"][end - 1])])
        if many:
            found += join.resolve_many(ids, y, t).tolist()
        else:
            found += [join.resolve(id, bool(label), time) for id, label, time in zip(ids, y, t.tolist(), strict=True)]
    return found


def written(journal: Journal) -> bytes:
    """Return the events that are not on the disk, with their sizes."""
    return b"".join([content for _, content in journal._events])


@pytest.mark.sample(15)
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("early", "most", "late"), [(None, 100_000, None), (30.0, 100_000, 0.0), (None, 150, 50.0)])
def test_columns_are_the_loop(tmp_path: Path, name: str, early: float | None, most: int, late: float | None) -> None:
    """Probabilities, counts, the state and the journal, in pieces of any size, and of rows that take the same steps."""
    for piece in (1, 40, 400):
        answers, results = {}, []
        for way in ("alone", "rows", "columns"):
            journal = Journal(tmp_path / f"{piece} {way}.journal")
            one = LabelJoin(METHODS[name](), 100.0, early, journal, late=late, max_held=most)
            one = alone(one) if way == "alone" else one
            answers[way] = taken(one, events(piece, 700), piece, many=way == "columns")
            results.append((one.tally(), one.state_dict(), written(journal)))
            journal.close()
        assert answers["alone"] == answers["rows"]
        if piece == 1:  # otherwise an error takes the place of the probabilities before it
            assert answers["rows"] == answers["columns"]
        assert results[0] == results[1] == results[2]
        with Journal(tmp_path / f"{piece} columns.journal") as journal:  # events are taken again in columns too
            again = LabelJoin(METHODS[name](), 100.0, early, journal, late=late, max_held=most)
            assert again.replayed > 0
            assert again.tally() == one.tally()
            assert again.state_dict() == one.state_dict()


@pytest.mark.sample(3)
@pytest.mark.parametrize("early", [None, 30.0])
@pytest.mark.parametrize("name", METHODS)
def test_labels_that_are_due_are_learned_the_same_where_rows_come_alone(name: str, early: float | None) -> None:
    """By compiled steps or by the calibrator's methods, at a row's time or at that of `advance`."""
    states = []
    for join in (LabelJoin(METHODS[name](), 100.0, early), alone(LabelJoin(METHODS[name](), 100.0, early))):
        taken(join, events(8, 600), 40, many=False)
        join.advance(join.clock + 90.0)
        states.append((join.tally(), join.state_dict()))
    assert states[0] == states[1]


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["online-platt", "ops", "auto"])
def test_what_is_learned_is_told_the_same(name: str) -> None:
    """`on_learned` gets each label with its weight, in order, and sees the join as it is after the rows taken."""
    rows, told = events(6), []
    for many in (False, True):
        found: list[Any] = []
        join = LabelJoin(METHODS[name](), 100.0, late=0.0)
        join = join if many else alone(join)
        join.on_learned = lambda one, y, found=found: found.append((one, y))
        for begin in range(0, 3_000, 500):
            issued(join, rows, range(begin, begin + 200), None, many=many)
            for k in range(begin, begin + 200, 7):
                join.resolve(rows["ids"][k], bool(rows["y"][k]), float(rows["t"][k]) + 1.0, w=5.0)
        told.append(found)
        assert len(found) == join.tally()["learned"] > 1_000
    assert told[0] == told[1]
    assert {one.w for one, _ in told[0]} == {1.0, 3.0, 5.0}


def test_what_watches_is_told_the_same() -> None:
    """In columns where there is a function for them and rows have no levels, and otherwise row by row."""
    rows = events(5, 1_500)
    for name in ("online-platt", "ops", "auto", "segmented"):
        told: list[list[Any]] = []
        for many, in_columns in ((False, False), (True, False), (True, True)):
            found: list[Any] = []

            def one(issued: Issued, y: bool, found: list[Any] = found) -> None:
                found.append((issued.p, issued.score, float(y), issued.w, issued.t))

            def columns(*given: Any, found: list[Any] = found) -> None:
                found.extend(zip(*(column.tolist() for column in given), strict=True))

            join = LabelJoin(METHODS[name](), 100.0, max_held=10_000)
            join = join if many else alone(join)
            join.watch(one, columns if in_columns else None)
            taken(join, rows, 500, many=many)
            told.append(found)
        assert len(told[0]) > 400
        assert told[0] == told[1] == told[2]


@pytest.mark.parametrize("name", ["online-platt", "auto", "segmented", "segmented ops", "segmented auto"])
def test_records_that_no_prediction_has_are_refused_in_columns_too(name: str) -> None:
    """A state held too few numbers, too many, none that are finite, or a probability above 1."""
    tallies = []
    for join in (LabelJoin(METHODS[name](), 100.0), alone(LabelJoin(METHODS[name](), 100.0))):
        join.issue_many(
            range(200), np.full(200, 0.3), np.arange(200.0) / 4.0, keys=[{"place": k % 3} for k in range(200)]
        )
        for place in range(0, 200, 10):
            record = join._now.table.record(place)
            wrong = [
                record[:-8],
                record + bytes(8),
                b"\xff" * len(record),
                np.float64(1.5).tobytes() + record[8:],
                None,
            ]
            join._now.table.set_record(place, wrong[place // 10 % len(wrong)])
        join.issue("last", 0.3, 500.0, keys={"place": 1})
        tallies.append((join.tally(), join.calibrator.state_dict()))
    assert tallies[0] == tallies[1]
    assert tallies[0][0]["refused"] > 0


def test_a_bad_row_is_named_and_those_before_it_are_issued() -> None:
    join = LabelJoin(OnlinePlatt(), 100.0)
    with pytest.raises(ConflictError, match="1"):
        join.issue_many([1, 2, 1], [0.1, 0.2, 0.3], [0.0, 1.0, 2.0])
    assert join.held == 2
    with pytest.raises(InputError, match="2 ids"):
        join.issue_many([5, 6], [0.1], [3.0, 4.0])
    with pytest.raises(InputError, match="-1"):
        join.issue_many([5, 6], [0.1, -1.0], [3.0, 4.0])
    with pytest.raises(InputError, match="weight"):
        join.issue_many([7], [0.1], [4.0], w=[-1.0])
    with pytest.raises(InputError, match=r"0\.5"):
        join.resolve_many([5], [0.5], [4.0])
    assert join.held == 3


DATES = [datetime(2026, 1, 1, 0, 0, 3 * k) for k in range(4)]


@pytest.mark.parametrize(
    "times",
    [
        DATES,
        [one.replace(tzinfo=UTC) for one in DATES],
        np.array(DATES, dtype="datetime64[us]"),
        np.array(DATES, dtype="datetime64[ns]"),
        np.array(DATES, dtype=object),
        "pandas",
        "pyarrow",
    ],
    ids=lambda one: one if isinstance(one, str) else type(one[0]).__name__,
)
def test_dates_of_any_column_are_those_of_the_loop(times: Any) -> None:
    """Those of NumPy and pandas are numbers of nanoseconds or other units inside."""
    column = times if not isinstance(times, str) else DATES
    if isinstance(times, str):
        column = (
            pytest.importorskip(times).Series(DATES) if times == "pandas" else pytest.importorskip(times).array(DATES)
        )
    many, loop = LabelJoin(OnlinePlatt(), 5.0), LabelJoin(OnlinePlatt(), 5.0)
    many.issue_many(range(4), [0.1, 0.2, 0.3, 0.4], column)
    many.resolve_many([2, 3], [True, False], column[2:])
    for k in range(4):
        loop.issue(k, 0.1 * (k + 1) if k != 2 else 0.3, DATES[k].replace(tzinfo=UTC))
    loop.resolve(2, True, DATES[2].replace(tzinfo=UTC))
    loop.resolve(3, False, DATES[3].replace(tzinfo=UTC))
    assert many.clock == DATES[-1].replace(tzinfo=UTC).timestamp()
    assert many.state_dict() == loop.state_dict()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"w": [1.0, 2.0]}, "3 ids, 3 scores, 3 times, 2 weights"),
        ({"w": ["a", "b", "c"]}, r"w\[0\] 'a' is not a number"),
        ({"w": np.ones((3, 1))}, r"w has shape \(3, 1\)"),
        ({"w": -1.0}, "weight -1.0"),
        ({"ids": np.array([[1], [2], [3]])}, r"ids has shape \(3, 1\)"),
        ({"ids": 5}, "ids 5 is of type int"),
        ({"ids": "abc"}, "ids 'abc' is of type str"),
        ({"scores": ["0.1", "0.2", "0.3"]}, r"scores\[0\] '0.1' is not a number"),
        ({"scores": [0.1, None, 0.3]}, r"scores\[1\] None is not a number"),
        ({"scores": np.array(DATES[:3], dtype="datetime64[s]")}, "scores has values of type datetime64"),
        ({"t": 1.0}, r"t has shape \(\)"),
        ({"t": np.array([1, 2, 3], dtype="timedelta64[s]")}, "timedelta64"),
        ({"keys": {"place": [1, 2]}}, "has 2 levels; give one for each of 3"),
        ({"keys": ["a", "b", "c"]}, "'a' are no mapping"),
    ],
)
def test_columns_that_are_none_are_refused_and_change_nothing(change: dict[str, Any], message: str) -> None:
    join = LabelJoin(METHODS["segmented"](), 100.0)
    join.issue("first", 0.5, 0.0)
    before = join.state_dict()
    given = {"ids": [1, 2, 3], "scores": [0.1, 0.2, 0.3], "t": [1.0, 2.0, 3.0], **change}
    with pytest.raises(InputError, match=message):
        join.issue_many(given.pop("ids"), given.pop("scores"), given.pop("t"), **given)
    assert join.state_dict() == before


def test_columns_of_arrow_and_pandas_are_taken_by_place() -> None:
    """Whatever the index of a `Series`."""
    pa, pd = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    keys: list[Any] = [{"place": "a"}, None, {"place": "b"}]
    joins = []
    for column in (list, pa.array, lambda values: pd.Series(values, index=[7, 7, 0])):
        join = LabelJoin(METHODS["segmented"](), 100.0)
        join.issue_many(column([1, 2, 3]), column([0.1, 0.2, 0.3]), column([0.0, 1.0, 2.0]), keys=column(keys))
        joins.append(join.state_dict())
    assert joins[0] == joins[1] == joins[2]


def test_a_field_with_another_name_is_told_where_it_has_no_level_too() -> None:
    """As by `issue`, which sees the names of levels that are missing."""
    join = LabelJoin(METHODS["segmented"](), 100.0)
    join.issue(0, 0.1, 0.0)
    with pytest.raises(InputError, match="'plase'"):
        join.issue_many([1, 2, 3], [0.1] * 3, [1.0] * 3, keys=[{"place": None}, {"plase": None}, None])
    assert join.held == 2


@pytest.mark.parametrize("name", ["online-platt", "auto", "segmented", "segmented by two", "segmented auto"])
def test_levels_and_rows_behind_the_clock_are_taken_in_columns(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is issued alone, and none of their outcomes taken alone."""
    join = LabelJoin(METHODS[name](), 100.0)
    join.issue("first", 0.5, 1000.0)
    for alone in ("issue", "resolve"):
        monkeypatch.setattr(join, alone, lambda *_: pytest.fail("a row was taken alone"))
    ids, t = list(range(500)), 1000.0 + np.arange(500.0) % 50.0
    join.issue_many(ids, np.full(500, 0.25), t, keys=[{"place": k % 7} if k % 3 else None for k in ids])
    assert join.resolve_many(ids[::5], np.ones(100), t[::5] + 1.0).all()
    assert join.tally()["backwards"] == 441


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", METHODS)
def test_early_labels_are_learned_in_columns(tmp_path: Path, name: str) -> None:
    """Once the share of early clicks is known, and where it is too small again; few rows are taken alone."""
    rng, n, joins = np.random.default_rng(7), 8_000, []
    t, scores, y = np.arange(float(n)), rng.beta(4.0, 1.0, n), rng.random(n) < 0.8
    delay = np.where(t < 1_000.0, rng.exponential(100.0, n), rng.uniform(110.0, 1_100.0, n))
    keys = [{"place": k % 5, "site": k % 3} for k in range(n)]
    for many in (False, True):
        told: list[Any] = []
        journal, singly, turns = Journal(tmp_path / f"{many}.journal"), 0, 0
        join = LabelJoin(METHODS[name](), 1_000.0, 100.0, journal)
        join = join if many else alone(join)
        join.on_learned = lambda one, y, told=told: told.append((one, y))
        issue = join.issue

        def counted(*row: Any, issue: Any = issue, **named: Any) -> Issued:
            nonlocal singly
            singly += 1
            return issue(*row, **named)

        join.issue = counted  # type: ignore[method-assign]
        probabilities: list[float] = []
        for begin in range(0, n, 20):
            waited = join.learns_at_horizon
            rows, clicked = (
                range(begin, begin + 20),
                np.flatnonzero(y & (t + delay < begin) & (t + delay >= begin - 20)),
            )
            if many:
                probabilities += join.issue_many(
                    list(rows), scores[rows], t[rows], keys=[keys[k] for k in rows]
                ).tolist()
                join.resolve_many(clicked, np.ones(len(clicked)), (t + delay)[clicked])
            else:
                probabilities += [join.issue(k, float(scores[k]), float(k), keys=keys[k]).p for k in rows]
                for k in clicked.tolist():
                    join.resolve(k, True, float(t[k] + delay[k]))
            turns += join.learns_at_horizon != waited
        joins.append((probabilities, told, join.tally(), join.state_dict(), turns, singly))
        journal.acknowledge()
        journal.close()
    assert joins[0][:-1] == joins[1][:-1]
    assert joins[0][4] == 2
    assert joins[1][5] < n // 20 or join.calibrator.overall.name == "platt"
    with Journal(tmp_path / "True.journal") as journal:
        assert LabelJoin(METHODS[name](), 1_000.0, 100.0, journal).state_dict() == joins[0][3]
