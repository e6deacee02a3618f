"""`Journal`: what was acknowledged is there after crashes, kills, full disks and torn writes, and once."""

import json
import os
import pickle
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import journal_kills
import pytest

import streamcal
from streamcal import Auto, InputError, OnlinePlatt, Platt, StateError, TrackingOPS, VennAbers
from streamcal.live import Journal, LabelJoin, Multicalibrated, Segmented, Shadow
from streamcal.live import events as packed
from streamcal.live.issued import Issued


@pytest.fixture
def path(tmp_path):
    return tmp_path / "events.journal"


def numbered(*numbers):
    return [f"event {number}".encode() for number in numbers]


def held(path):
    with Journal(path) as journal:
        return list(journal.events())


# -- events ----------------------------------------------------------------------------------------------------------


def test_events_come_back_in_their_order(path):
    with Journal(path) as journal:
        for event in numbered(*range(10)):
            journal.append(event)
            if len(event) % 3 == 0:
                journal.acknowledge()
        assert journal.acknowledge() == 10
    with Journal(path) as journal:
        assert (journal.n, journal.durable) == (10, 10)
        assert list(journal.events()) == numbered(*range(10))
        journal.append(b"")
        journal.append(bytes(100_000))
    assert held(path) == [*numbered(*range(10)), b"", bytes(100_000)]


def test_what_is_acknowledged_is_there_without_a_close(path):
    """The files are copied while the journal is open, as after a power failure."""
    journal = Journal(path)
    for event in numbered(1, 2, 3):
        journal.append(event)
    journal.acknowledge()
    journal.append(b"not acknowledged")
    crashed = copied(path)
    journal.close()
    assert held(crashed) == numbered(1, 2, 3)
    assert held(path) == [*numbered(1, 2, 3), b"not acknowledged"]


def copied(path):
    crashed = path.with_name("crashed.journal")
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", f"{crashed}{end}")
    return crashed


def test_it_syncs_before_it_acknowledges(path):
    """The settings that SQLite promises durability for."""
    with Journal(path) as journal:
        values = [journal._database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    assert values == ["wal", 2]


def test_many_threads_are_acknowledged_together(path):
    told = []

    def serve(journal, number):
        for k in range(20):
            journal.append(f"{number}/{k}".encode())
            told.append(journal.acknowledge())

    with Journal(path) as journal:
        threads = [threading.Thread(target=serve, args=(journal, number)) for number in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        rows = journal._database.execute("SELECT count(*) FROM log").fetchone()[0]
    assert max(told) == 160
    assert rows <= 160
    found = held(path)
    assert sorted(found) == sorted(f"{number}/{k}".encode() for number in range(8) for k in range(20))
    for number in range(8):  # each thread's own in their order
        own = [one for one in found if one.startswith(f"{number}/".encode())]
        assert own == [f"{number}/{k}".encode() for k in range(20)]


# -- snapshots -------------------------------------------------------------------------------------------------------


def test_a_snapshot_takes_the_place_of_the_events_before_it(path):
    with Journal(path) as journal:
        for event in numbered(*range(1000)):
            journal.append(event)
            journal.acknowledge()
        large = os.path.getsize(path) + os.path.getsize(f"{path}-wal")
        journal.append(b"last")
        journal.snapshot(b"499500")
        assert journal.durable == 1001
        assert os.path.getsize(path) + os.path.getsize(f"{path}-wal") < large / 10
        journal.append(b"after")
    with Journal(path) as journal:
        assert journal.n == 1002
        assert journal.state() == b"499500"
        assert list(journal.events()) == [b"after"]


def test_a_snapshot_of_earlier_events_leaves_the_others(path):
    with Journal(path) as journal:
        for event in numbered(1, 2, 3, 4):
            journal.append(event)
        journal.snapshot(b"three", upto=3)
        with pytest.raises(InputError, match="from 3 to 4"):
            journal.snapshot(b"two", upto=2)
    with Journal(path) as journal:
        assert journal.state() == b"three"
        assert list(journal.events()) == numbered(4)


def test_a_snapshot_may_come_in_the_midst_of_events_that_were_written_together(path):
    with Journal(path) as journal:
        for group in ((0, 1, 2), (3, 4, 5), (6,)):
            for event in numbered(*group):
                journal.append(event)
            journal.acknowledge()
        journal.append(numbered(7)[0])
        store(journal, b"four", upto=4)
        assert (journal.n, journal.durable) == (8, 7)
    for tidy in (True, False):  # what is before it is passed, whether or not it has been deleted
        with Journal(path) as journal:
            assert journal.n == 8
            assert journal.state() == b"four"
            assert list(journal.events()) == numbered(4, 5, 6, 7)
            assert len(list(journal._read("SELECT first FROM log"))) == 3 + tidy
            assert not journal.tidy()


def test_room_is_given_back_in_parts(path, monkeypatch):
    monkeypatch.setattr("streamcal.live.journal.TIDIED", 1000)
    with Journal(path) as journal:
        for _ in range(10):
            journal.append(b"x" * 900)
            journal.acknowledge()
        journal.append(b"covered by the state alone")
        store(journal, b"state", upto=11)
        assert [journal.tidy() for _ in range(5)] == [True] * 5  # two of them each time
        assert not journal.tidy()
    with Journal(path) as journal:
        assert journal.n == 11
        assert list(journal.events()) == []
        journal.append(b"next")
    with Journal(path) as journal:
        assert list(journal.events()) == [b"next"]


def store(journal, state, upto):
    """Store a snapshot without freeing space."""
    parts = journal.write_parts(upto)
    parts.add(Journal.compressed(state))
    parts.finish()


def test_a_snapshot_is_written_in_parts_while_events_go_on(path):
    """Until the last part is there the snapshot before counts, and what is left of one that was cut off is deleted."""
    large = [random.Random(k).randbytes(100_000) for k in range(5)]
    with Journal(path) as journal:
        journal.append(b"first")
        journal.snapshot([b"a", b"", bytes(10**6)])
        assert list(journal.parts()) == [b"a", b"", bytes(10**6)]
        parts = journal.write_parts(journal.n)
        for part in large:
            parts.add(Journal.compressed(part))
            journal.append(b"meanwhile")
            journal.acknowledge()
        assert journal.state() == b"a" + bytes(10**6)
        given_up = copied(path)
        parts.finish()
        assert list(journal.parts()) == large
    assert held(path) == [b"meanwhile"] * 5
    with Journal(given_up) as journal:
        assert journal.state() == b"a" + bytes(10**6)
        assert list(journal.events()) == [b"meanwhile"] * 5
        journal.snapshot(large[:2])
        assert list(journal.parts()) == large[:2]
        assert next(journal._read("SELECT count(*) FROM part"))[0] == 2


def test_a_backup_has_what_is_acknowledged_while_it_is_made(path, monkeypatch):
    """Events go on between two steps; each of those acknowledged before is in the copy, and none twice."""
    monkeypatch.setattr("streamcal.live.journal.COPIED_PAGES", 1)
    copy = path.with_name("copy.journal")
    with Journal(path) as journal:
        journal.append(b"first")
        journal.snapshot(random.Random(1).randbytes(10**6))
        done = threading.Event()

        def go_on():
            while not done.is_set():
                journal.append(b"meanwhile")
                journal.acknowledge()

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            before = journal.durable
            events = journal.backup(copy)
        finally:
            done.set()
            thread.join()
        assert before <= events <= journal.durable
        with pytest.raises(StateError, match="the journal itself"):
            journal.backup(path)
    with Journal(copy) as journal:
        assert (journal.n, journal.upto) == (events, 1)
        assert list(journal.events()) == [b"meanwhile"] * (events - 1)
        assert journal.state() == random.Random(1).randbytes(10**6)


def test_a_snapshot_may_have_no_parts(path):
    with Journal(path) as journal:
        assert (journal.state(), journal.has_snapshot) == (None, False)
        journal.snapshot([])
        assert (journal.state(), journal.has_snapshot) == (b"", True)


def test_keys_and_versions_are_written_as_json_has_them():
    texts = ["", 'a"b\\', "\x00\n\x7f\u2028", "é\U0001f600", "\ud800"]
    for version in (None, -(2**63) + 1, *texts):
        for keys in (
            None,
            dict.fromkeys(texts, 7),
            dict(zip(texts, texts, strict=True)),
        ):
            one = Issued(1, 0.5, 0.25, 3.0, version, keys, 1e-30)
            more = json.dumps([version, keys, 1e-30], separators=(",", ":"), ensure_ascii=False)
            assert packed.issued(one).endswith(more.encode("utf-8", "surrogatepass"))
            assert packed.read(packed.issued(one))[4:7] == (version, keys, 1e-30)


# -- the lock --------------------------------------------------------------------------------------------------------


def test_there_is_no_second_writer(path):
    with Journal(path), pytest.raises(StateError, match="in use"):
        Journal(path)
    Journal(path).close()


def test_nor_in_another_process(path):
    code = f"from streamcal.live import Journal; Journal({str(path)!r})"
    search = {**os.environ, "PYTHONPATH": str(Path(streamcal.__file__).parents[1]), "STREAMCAL_COMPILE": "0"}
    with Journal(path):
        done = subprocess.run([sys.executable, "-c", code], env=search, capture_output=True, text=True)
    assert "is in use by another journal" in done.stderr
    assert subprocess.run([sys.executable, "-c", code], env=search).returncode == 0


# -- damage ----------------------------------------------------------------------------------------------------------


def test_a_torn_write_loses_nothing_that_was_acknowledged(path):
    """Whatever part of a transaction is on the disk: it is the part that ended before that is there."""
    journal = Journal(path)
    for group in range(3):
        for event in numbered(*range(10 * group, 10 * group + 10)):
            journal.append(event)
        journal.acknowledge()
    whole = Path(f"{path}-wal").read_bytes()
    crashed = copied(path)
    journal.append(b"torn" * 2000)
    journal.acknowledge()
    longer = Path(f"{path}-wal").read_bytes()
    journal.close()
    database = crashed.read_bytes()
    for cut in range(len(whole), len(longer), 397):
        crashed.write_bytes(database)
        Path(f"{crashed}-wal").write_bytes(longer[:cut])
        assert held(crashed) == numbered(*range(30))
        crashed.write_bytes(database)
        Path(f"{crashed}-wal").write_bytes(longer[:cut] + bytes(len(longer) - cut))
        assert held(crashed) == numbered(*range(30))
    crashed.write_bytes(database)
    Path(f"{crashed}-wal").write_bytes(longer)
    assert len(held(crashed)) == 31


@pytest.mark.parametrize("content", [b"no database", b"SQLite format 3\0" + bytes(5000)])
def test_other_files_are_refused_and_left_alone(path, content):
    path.write_bytes(content)
    with pytest.raises(StateError, match="no journal"):
        Journal(path)
    assert path.read_bytes() == content


def test_other_databases_are_refused(path):
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    with pytest.raises(StateError, match="another SQLite database"):
        Journal(path)


def test_a_journal_of_a_later_version_is_refused(path):
    Journal(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 2")
    database.close()
    with pytest.raises(StateError, match="version 2"):
        Journal(path)


def test_a_name_that_sqlite_keeps_in_memory_is_that_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with Journal(":memory:") as journal:
            journal.append(b"one")
    with Journal(":memory:") as journal:
        assert list(journal.events()) == [b"one", b"one"]
    with pytest.raises(StateError, match="cannot be opened"):
        Journal("")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(StateError, match="cannot be opened"):
        Journal(tmp_path / "nowhere" / "events.journal")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE log SET events = x'0000000000' WHERE first = 2",
        "UPDATE log SET crc = crc + 1 WHERE first = 2",
        "DELETE FROM log WHERE first = 2",
    ],
)
def test_changed_or_missing_events_are_noticed(path, change):
    with Journal(path) as journal:
        for event in numbered(*range(6)):
            journal.append(event)
            if journal.n % 2 == 0:
                journal.acknowledge()
    with sqlite3.connect(path) as database:
        database.execute(change)
    database.close()
    with Journal(path) as journal, pytest.raises(StateError, match="number 2 on are damaged"):
        list(journal.events())


@pytest.mark.parametrize("step", [509, pytest.param(17, marks=pytest.mark.full)])
def test_a_journal_that_was_cut_is_damaged(path, step):
    with Journal(path) as journal:
        for event in numbered(*range(12)):
            journal.append(event)
            journal.acknowledge()
    whole = path.read_bytes()
    for size in range(2, len(whole), step):
        path.write_bytes(whole[:size])
        try:
            with Journal(path) as journal:
                found = list(journal.events())
        except StateError as error:
            assert re.search("damaged|cannot be read|file is not a database", str(error))  # noqa: PT017
        else:
            assert found == numbered(*range(12)), "only unused bytes were lost"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("UPDATE part SET crc = crc + 1 WHERE place = 1", "does not match its checksum"),
        ("DELETE FROM part WHERE place = 2", "parts of its snapshot are missing"),
    ],
)
def test_a_changed_snapshot_is_noticed(path, change, told):
    with Journal(path) as journal:
        journal.snapshot([b"one", b"two", b"three"])
    with sqlite3.connect(path) as database:
        database.execute(change)
    database.close()
    with Journal(path) as journal, pytest.raises(StateError, match=told):
        journal.state()


# -- full disks ------------------------------------------------------------------------------------------------------

FULL = """
import random, resource, signal, sys
from streamcal.errors import StateError
from streamcal.live import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(sys.argv[1])
journal.append(b"first"); journal.acknowledge()
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))  # no file may be longer: writing fails as on a full disk
for k in range(40):
    journal.append(bytes([k]) * 10_000)
for _ in range(3):
    try:
        journal.acknowledge()
    except StateError as error:
        print(error)
    else:
        sys.exit("it was written")
    try:
        journal.snapshot(random.Random(1).randbytes(10**6))
    except StateError:
        pass
if len(sys.argv) > 2:
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    print(journal.acknowledge())
    journal.close()
"""


@pytest.mark.sample(2)
@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of file sizes")
@pytest.mark.parametrize("room", [[], ["again"]], ids=["it stays full", "there is room again"])
def test_a_full_disk_loses_nothing_that_was_acknowledged(path, room):
    search = {**os.environ, "PYTHONPATH": str(Path(streamcal.__file__).parents[1]), "STREAMCAL_COMPILE": "0"}
    done = subprocess.run([sys.executable, "-c", FULL, path, *room], env=search, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("40 events are kept in memory") == 3
    large = [bytes([k]) * 10_000 for k in range(40)]
    assert held(path) == [b"first", *large] if room else held(path) == [b"first"]


def test_events_that_are_not_acknowledged_are_bounded(path, monkeypatch):
    monkeypatch.setattr("streamcal.live.journal.MOST_UNACKNOWLEDGED", 100)
    with Journal(path) as journal:
        join = LabelJoin(OnlinePlatt(), 10.0, journal=journal)
        number = 0
        while journal._bytes <= 100:
            join.issue(number, 0.5, float(number))
            number += 1
        with pytest.raises(StateError, match="not acknowledged"):
            join.issue(number, 0.5, float(number))
        assert join.tally()["issued"] == number  # the one that was refused has changed nothing
        assert join.clock == number - 1
        join.acknowledge()
        join.issue(number, 0.5, float(number))
        assert journal.n == number + 1


class Interrupting:
    """A database whose user presses Ctrl-C at one statement, before it is run or after."""

    def __init__(self, database, statement, after):
        self._database, self._statement, self._after = database, statement, after

    def __getattr__(self, name):
        return getattr(self._database, name)

    def execute(self, statement, *values):
        if statement.startswith(self._statement):
            self._statement = "never again"
            if self._after:
                self._database.execute(statement, *values)
            raise KeyboardInterrupt
        return self._database.execute(statement, *values)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("statement", "snapshot"), [("INSERT", False), ("BEGIN", True), ("INSERT", True), ("COMMIT", True)]
)
def test_an_interrupt_neither_loses_nor_repeats_events(path, statement, after, snapshot):
    with Journal(path) as journal:
        journal.append(b"first")
        journal.acknowledge()
        journal.append(b"second")
        journal._database = Interrupting(journal._database, statement, after)
        with pytest.raises(KeyboardInterrupt):
            journal.snapshot(b"state") if snapshot else journal.acknowledge()
        journal.append(b"third")
        assert journal.acknowledge() == 3
    with Journal(path) as journal:
        taken = snapshot and (statement, after) == ("COMMIT", True)
        assert journal.state() == (b"state" if taken else None)
        assert list(journal.events()) == ([b"third"] if taken else [b"first", b"second", b"third"])
        assert journal.n == 3


def test_a_closed_journal_takes_nothing(path):
    journal = Journal(path)
    journal.close()
    journal.close()
    with pytest.raises(StateError, match="closed"):
        journal.append(b"one")


# -- joins -----------------------------------------------------------------------------------------------------------


def test_a_join_is_resumed_from_its_journal_to_the_last_bit(path):
    twin = journal_kills.Uninterrupted()
    for stop in (150, 151, 700, 1500):
        with Journal(path) as journal:
            join = journal_kills.new_join(journal)
            while journal.n < stop:
                journal_kills.give(join, journal.n)
            if stop == 700:
                join.snapshot()
            assert json.dumps(join.state_dict()) == twin.state_after(stop)
    with Journal(path) as journal:
        resumed = journal_kills.new_join(journal)
        assert json.dumps(resumed.state_dict()) == twin.state_after(1500)
        assert len(list(journal.events())) == 800


@pytest.mark.sample(3)
@pytest.mark.parametrize(("unit", "within"), [(1.0, 0.0), (0.25, 0.0), (0.1, 1e-14)])
@pytest.mark.parametrize("method", [Auto, VennAbers])
def test_a_snapshot_that_another_process_wrote(path, method, unit, within):
    """As `streamcal serve` has it: the live join writes none, so that its sums are not added in another order."""
    with Journal(path) as journal:
        live, child = LabelJoin(method(), 50.0, journal=journal), LabelJoin(method(), 50.0)
        for k in range(400):
            if k == 300:
                journal.acknowledge()
                journal.snapshot(child._parts())
            for join in (live, child) if k < 300 else (live,):
                join.issue(k, k * 0.618 % 1.0, float(k), w=unit * (1 + k % 7))
                join.resolve(k, k * k % 7 < 3, k + 0.5)
        journal.acknowledge()
        told = [live.predict_one(score / 64) for score in range(65)]
    with Journal(path) as journal:
        resumed = LabelJoin(method(), 50.0, journal=journal)
        assert max(abs(resumed.predict_one(score / 64) - p) for score, p in enumerate(told)) <= within


def test_what_was_served_is_what_the_journal_says(path):
    """Forecasts are made again when a join is resumed, but what was served is not changed by another rounding."""
    with Journal(path) as journal:
        join = LabelJoin(OnlinePlatt(), 10.0, journal=journal)
        served = join.issue("a", 0.3, 0.0).p
        journal.append(packed.issued(join.predictions["a"]._replace(id="b", p=0.25)))
    with Journal(path) as journal:
        again = LabelJoin(OnlinePlatt(), 10.0, journal=journal).predictions
    assert (again["a"].p, again["b"].p) == (served, 0.25)


@pytest.mark.parametrize("method", ["online-platt", "online-beta", "tracking-ops", "hedged-ops", "protected", "auto"])
def test_a_replay_of_a_sequential_method_ends_with_the_state_that_was_written(path, method):
    """Forecasts that leave no trace are not made again, also those of a second version, which mixes two."""
    with Journal(path) as journal:
        join = LabelJoin(method, 5.0, journal=journal)
        for k in range(60):
            join.issue(k, k * 0.618 % 1.0, float(k), version="first" if k < 40 else "second")
            join.resolve(k, k * k % 7 < 3, k + 0.5)
        written = join.to_bytes()
    with Journal(path) as journal:
        assert LabelJoin(method, 5.0, journal=journal).to_bytes() == written


def test_a_calibrator_that_has_learned_is_part_of_the_journal(path):
    cal = Platt()
    cal.learn_many([0.2, 0.4, 0.6], [0, 1, 1])
    with Journal(path) as journal:
        LabelJoin(cal, 10.0, journal=journal).issue("a", 0.3, 0.0)
    with Journal(path) as journal:
        assert LabelJoin(Platt(), 10.0, journal=journal).calibrator.predict_one(0.4) == cal.predict_one(0.4)


@pytest.mark.parametrize("other", [(Platt(), 10.0), (OnlinePlatt(), 11.0), (OnlinePlatt(discount=0.9), 10.0)])
def test_the_journal_of_another_join_is_refused(path, other):
    with Journal(path) as journal:
        LabelJoin(OnlinePlatt(), 10.0, journal=journal)
    with Journal(path) as journal, pytest.raises(StateError, match="another join"):
        LabelJoin(*other, journal=journal)


def test_limits_may_change_between_two_runs(path):
    with Journal(path) as journal:
        LabelJoin(OnlinePlatt(), 10.0, journal=journal, max_held=10)
    with Journal(path) as journal:
        assert LabelJoin(OnlinePlatt(), 10.0, journal=journal, max_held=20).max_held == 20


@pytest.mark.sample(2)
@pytest.mark.parametrize("calibrator", [OnlinePlatt(), Multicalibrated("platt", by=["campaign"])])
@pytest.mark.parametrize("stops", [(100, 200, 300), (100, 101, 102)])
def test_lower_limits_forget_at_once_and_any_are_resumed_from(path, calibrator, stops):
    """A snapshot held more than the lower limits, with which it was no state."""
    limits = [(1_000, 50), (30, 5), (1_000, 50), (40, 7)]
    whole = LabelJoin(calibrator.clone(), 100.0, max_held=1_000, max_unknown=50)
    for (begin, end), (held, unknown) in zip(pairwise((0, *stops, 400)), limits, strict=True):
        if begin:
            whole._limit(held, unknown)
            whole.to_bytes()  # as a snapshot does
        with Journal(path) as journal:
            join = LabelJoin(calibrator.clone(), 100.0, journal=journal, max_held=held, max_unknown=unknown)
            assert join.waiting <= len(join.predictions) <= held
            assert join.to_bytes() == whole.to_bytes()
            for k in range(begin, end):
                for one in (join, whole):
                    one.issue(k, k % 10 / 10.0, k / 2.0, keys={"campaign": k % 3})
                    one.resolve(k if k % 2 else f"unknown {k}", k % 4 == 1, k / 2.0)
            if begin == stops[0]:
                join.snapshot()
                whole.to_bytes()


@pytest.mark.parametrize("event", [b"", b"\x07", b"\x00\x00", b"\x00\x02\x01\x00" + bytes(24) + b"a{", b"\x02abc"])
def test_what_is_no_event_of_a_join_is_noticed(event):
    with pytest.raises(StateError, match="journal holds"):
        packed.read(event)


def test_an_event_takes_few_bytes():
    one = LabelJoin(OnlinePlatt(), 10.0).issue(
        "0123456789abcdef" * 2, 0.1, 1.7e9, keys={"campaign": "c1234", "placement": 7}
    )
    assert len(packed.issued(one)) <= 150
    assert len(packed.resolved(one.id, True, 1.7e9)) <= 50


# -- kills -----------------------------------------------------------------------------------------------------------


def kills(number, tmp_path, stream="PLAIN"):
    """In a process of its own, which forks without the threads of pytest."""
    here = Path(__file__).parent
    code = f"import journal_kills; print(journal_kills.run({number}, {str(tmp_path)!r}, journal_kills.{stream}))"
    search = os.pathsep.join((str(here), str(Path(streamcal.__file__).parents[1])))
    search = {**os.environ, "PYTHONPATH": search, "STREAMCAL_COMPILE": "0"}
    done = subprocess.run([sys.executable, "-c", code], env=search, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 0


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")


@needs_fork
def test_kills_lose_nothing_and_repeat_nothing(tmp_path):
    kills(5, tmp_path)


@pytest.mark.full
@pytest.mark.in_every_share
@needs_fork
def test_kills_repeat_no_promotion_and_lose_none(tmp_path):
    kills(3, tmp_path, "SHADOW")


@needs_fork
@pytest.mark.full
def test_a_thousand_kills_lose_nothing_and_repeat_nothing(tmp_path):
    kills(1000, tmp_path)


FORKS = """
import os, pathlib, pickle, signal, sys
from streamcal import OnlinePlatt, TrackingOPS
from streamcal.live import Journal, LabelJoin, Segmented, Shadow
from streamcal.stream.checkpoints import locked

folder = pathlib.Path(sys.argv[1])
journal = Journal(folder / "events.journal")
join = LabelJoin(Shadow(OnlinePlatt(), {"ops": TrackingOPS()}), 60.0, journal=journal)
stored = Segmented("identity", ["user"], max_levels=2, store=folder / "levels")
for k in range(50):
    join.issue(k, 0.2, float(k))
    stored.learn_one(0.2, True, keys={"user": k})
stored.to_bytes()
join.acknowledge()
parts = journal.write_parts(journal.n)
with locked(folder / "state.json"):
    child = os.fork()
    if not child:
        for act in (
            lambda: join.issue("new", 0.2, 60.0), lambda: join.issue(1, 0.2, 60.0), lambda: join.resolve(1, True, 60.0),
            lambda: join.advance(90.0), lambda: join.note(1), join.acknowledge, join.snapshot,
            lambda: join.calibrator.remove("ops"), lambda: journal.append(b"x"), journal.acknowledge, journal.tidy,
            lambda: journal.snapshot(b"x"), lambda: list(journal.events()), lambda: journal.backup(folder / "copy"),
            lambda: parts.add(b"x"), parts.finish, lambda: LabelJoin("platt", 60.0, journal=journal),
            lambda: pickle.dumps(join), lambda: pickle.dumps(journal),
            lambda: [stored.learn_one(0.2, True, keys={"user": 99}), stored.to_bytes()],
        ):
            try:
                print("done", act())
            except Exception as error:
                print(type(error).__name__, error)
        print(join.predict_one(0.2), len(join.calibrator.challengers))
        journal.close()
        sys.exit()  # an end at which Python frees what it holds, connections too
    os.waitpid(child, 0)
    print((folder / "state.json.lock").exists(), flush=True)
for k in range(50, 100):
    join.issue(k, 0.2, float(k))
    stored.learn_one(0.2, True, keys={"user": k})
join.acknowledge()
(folder / "stored").write_bytes(stored.to_bytes())
os.kill(os.getpid(), signal.SIGKILL)
"""


@needs_fork
def test_a_forked_process_cannot_use_what_its_parent_has_opened_and_takes_nothing_from_it(tmp_path):
    search = {**os.environ, "PYTHONPATH": str(Path(streamcal.__file__).parents[1]), "STREAMCAL_COMPILE": "0"}
    done = subprocess.run([sys.executable, "-c", FORKS, tmp_path], env=search, capture_output=True, text=True)
    *told, predicted, locked = done.stdout.splitlines()
    assert len(told) == 20, done.stderr
    assert {one.split()[0] for one in told} == {"StateError"}
    for one in told[:17]:
        assert one.endswith(
            "a forked process cannot use the journal of another one; open it after the fork, in one process alone"
        )
    assert "belongs to one process" in told[17]
    assert "belongs to one process" in told[18]
    assert "a forked process cannot use the store of levels of another one" in told[19]
    assert (predicted, locked) == ("0.2 1", "True")
    with Journal(tmp_path / "events.journal") as journal:
        join = LabelJoin(Shadow(OnlinePlatt(), {"ops": TrackingOPS()}), 60.0, journal=journal)
        assert join.tally()["issued"] == 100
    assert Segmented.from_bytes((tmp_path / "stored").read_bytes()).n == 100.0


def test_a_join_with_a_journal_is_not_given_to_another_process(path):
    with Journal(path) as journal:
        join = LabelJoin(OnlinePlatt(), 60.0, journal=journal)
        with pytest.raises(StateError, match=r"belongs to one process, .* give another one its to_bytes\(\)"):
            pickle.dumps(join)
        with pytest.raises(StateError, match="give another one its path"):
            pickle.dumps(journal)
        assert pickle.loads(pickle.dumps(LabelJoin.from_bytes(join.to_bytes()))).predict_one(0.2) == 0.2


def test_keys_of_files_that_are_not_utf8_are_resumed(path):
    """Such files are read with lone surrogates in the place of their bytes."""
    with Journal(path) as journal:
        join = LabelJoin(OnlinePlatt(), horizon=60.0, journal=journal)
        join.issue("a", 0.1, 1.0, keys={"campaign": "caf\udce9"})
        state = join.state_dict()
    with Journal(path) as journal:
        assert LabelJoin(OnlinePlatt(), horizon=60.0, journal=journal).state_dict() == state
