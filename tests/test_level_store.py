"""Levels in a store: forecasts are those of unbounded memory to the last bit, whatever is taken, loaded or lost."""

import copy
import json
import os
import pickle
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from level_kills import kill
from test_segmented import BY, rows_of, stream

from streamcal import InputError, MergeError, Platt, StateError
from streamcal.errors import StoreError
from streamcal.live import Journal, LabelJoin, Segmented, level_store
from streamcal.states import signed

#: So many levels held that all others are in the store.
FEW = 3


@pytest.fixture
def path(tmp_path):
    return os.fspath(tmp_path / "levels.db")


@pytest.fixture
def small(monkeypatch):
    """Rows are written and old ones dropped all the time."""
    monkeypatch.setattr(level_store, "MOST_PENDING", 5)
    monkeypatch.setattr(level_store, "FEWEST_ROWS", 20)
    monkeypatch.setattr(level_store, "PAGE", 2)


def many_levels(n, seed):
    scores, keys, y = stream(n, seed, campaigns=12)
    rng = np.random.default_rng(seed)
    keys["campaign"] = [
        None if one < 0.1 else ("ü" + name) for one, name in zip(rng.random(n), keys["campaign"], strict=True)
    ]
    return scores, keys, y


def with_keys(call, rows):
    scores, keys, y = rows
    return call(scores, y, keys=keys)


def learn_levels(cal, n, seed):
    with_keys(cal.learn_many, many_levels(n, seed))


def known(cal):
    """All that is known of a field: weights, variance, and the effects of levels that were seen and of a new one."""
    levels = [f"üc{k}" for k in range(12)] + ["new"]
    one = [cal.effect("campaign", level) for level in levels]
    pairs = [cal.effect(("campaign", "placement"), (level, k)) for level in levels for k in range(3)]
    return one, pairs, [(cal.weights(field), cal.variance(field)) for field in cal.by]


def step(cal, what, score, key, label, before):
    if what == 0:
        with_keys(cal.unlearn_one, before)
    elif what == 1:
        cal.settle(cal.issue(score, keys=key), label, w=0.5)
    else:
        cal.learn_one(score, label, keys=key)


@settings(max_examples=2)
@given(st.integers(0, 2**32))
def test_forecasts_are_those_of_unbounded_memory(tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("stores")
    bounded = Segmented(Platt(), BY, max_levels=FEW, store=folder / "levels.db")
    unbounded = Segmented(Platt(), BY)
    rng = np.random.default_rng(seed)
    scores, keys, y = many_levels(120, seed)
    learned = []
    for score, key, label in rows_of(scores, keys, y):
        what = rng.integers(8) if len(learned) > 3 else 3
        assert bounded.predict_one(score, keys=key) == unbounded.predict_one(score, keys=key)
        if what == 2:
            bounded, unbounded = (
                Segmented.from_bytes(cal.to_bytes()) for cal in (bounded, unbounded)
            )  # `Platt` rounds
        before = learned.pop(rng.integers(len(learned))) if what == 0 else None
        for cal in (bounded, unbounded):
            step(cal, what, score, key, label, before)
        if what > 1:
            learned.append((score, key, label))
    assert known(bounded) == known(unbounded)
    assert all(len(bounded.levels(field)) <= FEW for field in bounded.by)
    again, unbounded = (Segmented.from_state(json.loads(json.dumps(cal.state_dict()))) for cal in (bounded, unbounded))
    more = many_levels(60, seed + 1)
    expected = unbounded.predict_many(more[0], keys=more[1])
    assert again.predict_many(more[0], keys=more[1]).tolist() == expected.tolist()
    assert with_keys(again.predict_learn_many, more).tolist() == with_keys(unbounded.predict_learn_many, more).tolist()


def test_old_rows_are_dropped_and_nothing_changes(path, small):
    bounded, unbounded = Segmented("ops", BY, max_levels=FEW, store=path), Segmented("ops", BY)
    for seed in range(12):
        given = many_levels(150, seed)
        assert (
            with_keys(bounded.predict_learn_many, given).tolist()
            == with_keys(unbounded.predict_learn_many, given).tolist()
        )
        bounded.state_dict()
    rows, levels = bounded._level_rows._opened().rows("SELECT count(*), count(DISTINCT level) FROM levels")[0]
    # One row for a level, one for each of the states kept, and what was written since rows were dropped last.
    assert rows <= (1 + level_store.STATES) * levels + 2 * 20 + levels
    assert bounded.tally()["evicted"] > 10 * rows
    assert known(bounded) == known(unbounded)


@pytest.mark.sample(3)
@pytest.mark.parametrize("stored", [(True, True), (True, False), (False, True)])
def test_merging(tmp_path, small, stored):
    def pair(name, seed, has_store):
        given = {"max_levels": FEW, "store": tmp_path / name} if has_store else {}
        both = Segmented(Platt(), BY, **given), Segmented(Platt(), BY)
        for cal in both:
            learn_levels(cal, 150, seed)
        return both

    (a, free_a), (b, free_b) = pair("a", 1, stored[0]), pair("b", 2, stored[1])
    a.max_levels = b.max_levels = FEW  # which merging compares; the kernel keeps its own
    a.merge(b)
    free_a.merge(free_b)
    assert known(a) == known(free_a)


def test_predicting_changes_nothing(path):
    cal = Segmented("ops", BY, max_levels=FEW, store=path)
    learn_levels(cal, 200, 3)
    before = cal.state_dict()
    scores, keys, _ = many_levels(100, 4)
    cal.predict_many(scores, keys=keys)
    cal.effects("campaign", [f"üc{k}" for k in range(12)])
    assert cal.state_dict() == before


def test_an_earlier_state_goes_on_and_a_later_copy_is_told(path, small):
    cal = Segmented("ops", BY, max_levels=FEW, store=path)
    learn_levels(cal, 150, 5)
    state, free = cal.to_bytes(), Segmented("ops", BY)
    learn_levels(cal, 150, 6)  # lost, as in a crash
    cal._level_rows.flush()
    again = Segmented.from_bytes(state)
    for seed in (5, 7):
        learn_levels(free, 150, seed)
    learn_levels(again, 150, 7)
    assert known(again) == known(free)
    again.to_bytes()
    with pytest.raises(StateError, match="a copy has gone on since"):
        learn_levels(cal, 50, 8)


def test_copies(path):
    cal = Segmented("ops", BY, max_levels=FEW, store=path)
    assert Segmented.from_bytes(cal.to_bytes()).store == path
    assert not os.path.exists(path)  # before anything is learned
    learn_levels(cal, 150, 9)
    for one in (copy.deepcopy(cal), pickle.loads(pickle.dumps(cal))):
        assert known(one) == known(cal)
    clone = cal.clone()
    learn_levels(clone, 150, 10)  # in the same file, and apart
    free = [Segmented("ops", BY) for _ in range(2)]
    for one, seed in zip(free, (9, 10), strict=True):
        learn_levels(one, 150, seed)
    assert [known(cal), known(clone)] == [known(one) for one in free]


def test_what_is_no_store(path, tmp_path):
    for bad in (3, "", b""):
        with pytest.raises(InputError, match="give the path of a file"):
            Segmented("ops", BY, store=bad)
    with open(path, "w") as file:
        file.write("no database, but long enough to be taken for one" * 50)
    other = os.fspath(tmp_path / "other.db")
    sqlite3.connect(other).execute("CREATE TABLE one (two)").connection.close()
    for place, message in ((path, "no store"), (other, "no store"), (os.fspath(tmp_path / "no" / "x"), "not opened")):
        cal = Segmented("ops", BY, store=place)
        before = cal.state_dict()
        with pytest.raises(StateError, match=message):
            cal.learn_one(0.3, True, keys={"campaign": "a"})
        assert cal.state_dict() == before


def test_a_store_that_is_missing_or_another_or_in_use(path, tmp_path):
    cal = Segmented("ops", BY, max_levels=FEW, store=path)
    learn_levels(cal, 150, 11)
    state = cal.state_dict()
    code = (
        f"from streamcal.live import Segmented\nSegmented('ops', ['a'], store={path!r}).learn_one(.5, True, keys={{}})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "in use by another process" in run.stderr
    for place, message in ((tmp_path / "none.db", "is missing"), (tmp_path / "new.db", "does not have those")):
        moved = Segmented("ops", BY, max_levels=FEW, store=place)
        if place.name == "new.db":
            learn_levels(moved, 100, 12)
            moved._level_rows.flush()
        written = {**state, "params": {**state["params"], "store": os.fspath(place)}}
        with pytest.raises(StateError, match=message):
            Segmented._from_written(written)


def test_a_join_resumes_with_its_levels(path, tmp_path):
    def feed(join, events):
        rng = np.random.default_rng(0)
        campaigns, scores, clicks = rng.integers(30, size=900), rng.uniform(0.05, 0.4, 900), rng.random(900) < 0.2
        for k in events:
            join.issue(k, float(scores[k]), float(k), keys={"campaign": int(campaigns[k])}, version=f"v{k // 500}")
            if clicks[k]:
                join.resolve(k, True, k + 3.0)

    def held(cal):
        return [cal.effect("campaign", k) for k in range(31)], cal.weights("campaign"), cal.variance("campaign")

    def new(journal):
        return LabelJoin(Segmented("ops", ["campaign"], max_levels=FEW, store=path), 10.0, journal=journal)

    whole = LabelJoin(Segmented("ops", ["campaign"]), 10.0)
    feed(whole, range(900))
    for start in range(0, 900, 100):
        with Journal(tmp_path / "journal") as journal:
            join = new(journal)
            for _ in range(3):
                join.to_bytes()  # by others than the journal
            feed(join, range(start, start + 60))
            if start % 200 == 0:
                join.snapshot()
            feed(join, range(start + 60, start + 100))
    with Journal(tmp_path / "journal") as journal:
        join = new(journal)
        assert held(join.calibrator) == held(whole.calibrator)
        assert join.predict_one(0.2, keys={"campaign": 3}) == whole.predict_one(0.2, keys={"campaign": 3})


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(1, marks=[pytest.mark.full, pytest.mark.in_every_share]),
        pytest.param(40, marks=pytest.mark.full),
    ],
)
def test_a_join_that_is_killed_has_its_levels(kills):
    kill(kills)


def in_a_store(path, rows=400):
    """One that has learned, with most of its levels in the store."""
    cal = Segmented("identity", ["user"], max_levels=FEW, store=path)
    users = [k % 40 for k in range(rows)]
    cal.predict_learn_many(np.full(rows, 0.3), np.arange(rows) % 3 == 0, keys={"user": users})
    return cal


def test_a_damaged_row_is_told(path):
    cal = in_a_store(path)
    state = cal.state_dict()
    del cal
    for change in ("zeroblob(length(numbers))", "x'00'", "'text'", "numbers || x'00'"):
        with sqlite3.connect(path) as database:
            before = database.execute("SELECT owner, field, level, number, numbers FROM levels").fetchall()
            database.execute(f"UPDATE levels SET numbers = CAST({change} AS {'TEXT' if 'text' in change else 'BLOB'})")
        database.close()
        again = Segmented.from_state(state)
        with pytest.raises(StateError, match="damaged: level 0"):
            again.predict_one(0.3, keys={"user": 0})
        with pytest.raises(StateError, match="damaged: level 0"):
            again.learn_one(0.3, True, keys={"user": 0})
        del again
        with sqlite3.connect(path) as database:
            for *row, numbers in before:
                place = "owner = ? AND field = ? AND level = ? AND number = ?"
                database.execute(f"UPDATE levels SET numbers = ? WHERE {place}", (numbers, *row))
        database.close()
    assert Segmented.from_state(state).state_dict() == state


def test_a_copy_cannot_be_merged(path):
    cal = in_a_store(path)
    cal.state_dict()
    twin = copy.deepcopy(cal)
    with pytest.raises(MergeError, match="counted twice"):
        cal.merge(twin)


def test_a_state_that_was_left_behind_does_not_take_the_place_of_another(path, small):
    cal = in_a_store(path)
    state = cal.state_dict()
    cal.learn_many([0.3] * 200, [True] * 200, keys={"user": list(range(200))})
    later = Segmented.from_state(state)
    later.learn_many([0.3] * 100, [True] * 100, keys={"user": list(range(100))})
    kept = later.state_dict()
    with pytest.raises(StateError, match="a copy has gone on since"):
        cal.state_dict()
    assert Segmented.from_state(kept).state_dict() == kept


def test_a_crafted_state_does_not_drop_rows(path):
    cal = in_a_store(path)
    state = cal.state_dict()
    del cal
    crafted = copy.deepcopy(state)
    crafted["learned"]["stored"][1:3] = [0, 0]
    with pytest.raises(StateError):
        Segmented.from_state(signed(crafted))
    assert Segmented.from_state(state).state_dict() == state


def test_another_database_is_left_as_it_is(path):
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA auto_vacuum = FULL")
        database.execute("CREATE TABLE own (a)")
    database.close()
    before = Path(path).read_bytes()
    with pytest.raises(StateError, match="no store of levels"):
        in_a_store(path)
    assert Path(path).read_bytes() == before


def test_labels_wait_while_their_levels_cannot_be_read(path, small, monkeypatch, caplog):
    """And are then learned in order, as if nothing had been."""
    calm, hit = (
        LabelJoin(Segmented("identity", ["user"], max_levels=FEW, store=one), 10.0)
        for one in (path, path.replace("levels", "others"))
    )

    def go_through(join, t):
        join.issue(t, 0.3, float(t), keys={"user": t % 40})
        if t % 3 == 0:
            join.resolve(t, True, float(t) + 1.0)

    def fail(self, *arguments):
        raise level_store.StoreError("no luck")

    for t in range(400):
        go_through(calm, t)
        go_through(hit, t)
        if 150 <= t < 170:
            calm.advance(t + 1.0)
            with monkeypatch.context() as patch:
                patch.setattr(level_store.LevelStore, "rows", fail)
                hit.advance(t + 1.0)
    assert "labels wait to be learned: no luck" in caplog.text
    assert hit.tally() == calm.tally()
    for k in range(40):
        assert hit.calibrator.effect("user", k) == calm.calibrator.effect("user", k)


def test_an_impression_whose_levels_cannot_be_read_moves_the_clock_and_no_more(path, small, monkeypatch):
    """In the journal too: what comes next is the same before a kill and after it."""

    def joined():
        journal = Journal(path + ".journal")
        given = Segmented("identity", ["user"], max_levels=FEW, store=path)
        return LabelJoin(given, 10.0, journal=journal, max_behind=1_000.0)

    def fail(self, *arguments):
        raise level_store.StoreError("no luck")

    join = joined()
    for t in range(60):
        join.issue(t, 0.3, float(t), keys={"user": t % 40})
    with monkeypatch.context() as patch:
        patch.setattr(level_store.LevelStore, "rows", fail)
        with pytest.raises(StoreError, match="no luck"):
            join.issue("new", 0.3, 65.0, keys={"user": 1})
        with pytest.raises(StoreError, match="no luck"):
            join.issue("old", 0.3, 30.0, keys={"user": 1})
        with pytest.raises(StoreError, match="the label of 59, issued before, waits"):
            join.issue(59, 0.4, 300.0, keys={"user": 1})
        with pytest.raises(StoreError, match="no state until they are learned"):
            join.to_bytes()
    join.issue("late", 0.3, 50.0)
    join.issue(59, 0.4, 301.0)
    before = join.tally(), list(join.predictions.values())
    join._journal.close()
    join = joined()
    assert before == (join.tally(), list(join.predictions.values()))
    join.advance(400.0)
    assert LabelJoin.from_bytes(join.to_bytes()).state_dict() == join.state_dict()


def test_kept_states_of_a_join_are_bounded(path):
    journal = Journal(path + ".journal")
    with journal:
        join = LabelJoin(Segmented("identity", ["user"], max_levels=FEW, store=path), 1.0, journal=journal)
        for t in range(200):
            join.issue(t, 0.3, float(t), keys={"user": t % 40})
            join.to_bytes()
        rows = join.calibrator._level_rows
        assert len(rows._states) <= 1 + level_store.STATES_OF_JOIN


@pytest.mark.sample(2)
@pytest.mark.parametrize("killed", [False, True])
def test_levels_of_the_last_snapshot_are_kept_while_later_ones_fail(path, killed):
    def resumed():
        journal = Journal(path + ".journal")
        return LabelJoin(Segmented("identity", ["user"], max_levels=FEW, store=path), 1.0, journal=journal)

    def feed(join, times):
        for t in times:
            join.issue(t, 0.3, float(t), keys={"user": t % 40})

    join = resumed()
    feed(join, range(20))
    join.to_bytes()
    feed(join, range(20, 40))
    if killed:
        join._journal.snapshot(join._parts())
        join._journal.close()
        join = resumed()
    else:
        join.snapshot()
    for start in range(40, 400, 20):
        feed(join, range(start, start + 20))
        list(join._parts())  # of a snapshot that is not written
    join._journal.close()
    assert resumed().tally()["issued"] == 400


@pytest.mark.parametrize("store", ["", "a\0b", b"levels.db", ":memory:", 3])
def test_what_is_no_path(store):
    with pytest.raises(InputError, match="give the path of a file"):
        Segmented(Platt(), BY, store=store)


def test_threads_that_open_one_store(tmp_path):
    for trial in range(10):
        path = os.fspath(tmp_path / f"{trial}.db")
        models = [Segmented("identity", ["user"], max_levels=1, store=path) for _ in range(4)]
        errors = []

        def learn(cal, errors=errors):
            try:
                for k in range(3):
                    cal.learn_one(0.3, True, keys={"user": k})
            except StateError as error:
                errors.append(error)

        threads = [threading.Thread(target=learn, args=(cal,)) for cal in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
