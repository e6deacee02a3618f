"""The table of pending predictions against a dict, and both forms of `pending_table` and of `pending_steps`."""

import json
import struct
import uuid
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_kernel_forms import autos, bits, plain_kernels, twins

from streamcal.calibrators.online_platt import MEMORIES, MEMORY_PRIOR
from streamcal.errors import StateError
from streamcal.kernels import COMPILED
from streamcal.kernels.pending.pending_table import PendingTable, plain_ids
from streamcal.live import events
from streamcal.live.issued import Issued, check_id
from streamcal.live.journal import SIZE, event_at
from streamcal.live.levels import levels_in

IDS = st.one_of(
    st.integers(-(2**53), 2**53),
    st.integers(0, 30),
    st.integers(2**53 + 1, 2**64 + 5).map(str),
    st.uuids().map(str),
    st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1, max_size=20).map(check_id),
    st.sampled_from(["a", "007", "1e5", "A" * 36, str(uuid.UUID(int=7)), str(uuid.UUID(int=10**37)).upper()]),
)
VERSIONS = st.none() | st.sampled_from(["v1", 2])
KEYS = st.none() | st.dictionaries(st.sampled_from("abc"), st.integers(0, 3) | st.sampled_from("xyz"), min_size=1)
ROWS = st.tuples(
    IDS,
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
    st.floats(-1e9, 1e9),
    VERSIONS,
    KEYS,
    st.sampled_from([1.0, 1.0, 2.5]),
    st.floats(0.0, 10.0),
    st.integers(1, 3),
    st.none() | st.sampled_from([b"abcdefgh", b"12345678", b"xy"]),
)
OUTCOMES = st.tuples(
    st.booleans(), st.booleans(), st.floats(-1e9, 1e9), st.integers(0, 9), st.none() | st.floats(0.0, 10.0)
).filter(lambda one: one[0] or one[1])
STEPS = st.lists(
    st.one_of(
        *[st.tuples(st.just("add"), ROWS)] * 4,
        st.tuples(st.just("outcome"), st.integers(0, 1_000), OUTCOMES),
        st.tuples(st.just("said"), st.integers(0, 1_000), st.none() | st.just(b"another")),
        st.tuples(st.just("drop"), st.integers(1, 4)),
        st.tuples(st.just("keep"), st.integers(0, 1_000), st.integers(0, 2**16)),
        st.tuples(st.just("copy")),
    ),
    max_size=60,
)
Rows = OrderedDict[Any, list[Any]]


def assert_same(table: Any, rows: Rows) -> None:
    """Compare a table with the rows that a dict holds: what was added, what is remembered, the outcome."""
    assert len(table) == len(rows)
    for place, (id, (row, said, outcome)) in enumerate(rows.items(), table.first):
        assert table.place_of(id) == place
        assert type(table.id_at(place)) is type(id)
        assert table.issued(place) == row
        assert list(map(type, table.issued(place))) == list(map(type, row))
        assert (table.record(place), table.outcome(place), table.number(place)) == (said, outcome, row[8])
    assert table.numbers(table.first, table.end).tolist() == [row[8] for row, _, _ in rows.values()]
    assert not table.has_twice()


def lived(table: Any, steps: list[Any], make: Callable[[], Any]) -> None:
    """Take the steps in a table and in a dict, and compare them after each."""
    rows: Rows = OrderedDict()
    at, number = 0.0, 0
    for verb, *values in steps:
        if verb == "add":
            id, p, score, t, version, keys, w, later, more, said = values[0]
            if id in rows:
                continue
            at, number = at + later, number + more
            row = (id, p, score, t, version, keys, w, at, number)
            table.add(*row, said)
            rows[id] = [row, said, None]
        elif verb == "drop":
            for _ in range(min(values[0], len(rows))):
                table.drop_first()
                rows.popitem(last=False)
        elif verb == "copy" and rows:
            copied = make()
            copied.names, copied.fields = table.names, table.fields
            copied.extend(table.columns(table.first, table.end))
            copied.enter_all()
            assert_same(copied, rows)
            assert copied.place_of("nobody") == -1
            assert copied.ids(copied.first, copied.end) == list(rows)
        elif rows:
            place = values[0] % len(rows)
            id = list(rows)[place]
            if verb == "outcome":
                table.set_outcome(table.first + place, *values[1])
                rows[id][2] = values[1]
            elif verb == "said":
                table.set_record(table.first + place, values[1])
                rows[id][1] = values[1]
            else:
                kept = np.array([values[1] >> (k % 16) & 1 == 0 for k in range(len(rows) - place)], dtype=np.bool_)
                table.keep(table.first + place, kept)
                for one, stays in zip(list(rows)[place:], kept.tolist(), strict=True):
                    if not stays:
                        del rows[one]
        assert_same(table, rows)


@given(steps=STEPS, hash_bits=st.sampled_from([1, 3, 64]))
@settings(deadline=None, max_examples=25)
def test_a_table_is_a_dict_in_order(steps: list[Any], hash_bits: int) -> None:
    """Ids of all kinds, of few hashes too: added, found, dropped, thinned out and copied."""
    lived(PendingTable(hash_bits), steps, lambda: PendingTable(hash_bits))


@given(steps=STEPS)
@settings(deadline=None, max_examples=15)
def test_the_plain_form_of_pending_table_is_the_same(steps: list[Any]) -> None:
    if not COMPILED:
        pytest.skip("kernels are not compiled here")
    plain = plain_kernels()["pending_table"].PendingTable
    lived(plain(), steps, plain)


def test_many_rows_over_several_blocks() -> None:
    """Places, chains and numbers where blocks and buckets come and go."""
    table, n, held = PendingTable(), 60_000, 20_000
    ids = np.random.default_rng(2).permutation(2 * n)[:n].tolist()
    for k, id in enumerate(ids):
        table.add(id, 0.5, 0.25, float(k), None, None, 1.0, float(k), 2 * k, None)
        if k >= held:
            assert table.place_of(ids[k - held]) >= 0
            table.drop_first()
            assert table.place_of(ids[k - held]) < 0
    last = ids[-held:]
    assert [table.place_of(id) for id in last] == list(range(table.first, table.end))
    kept = np.arange(held // 2) % 2 == 0
    table.keep(table.first + held // 2, kept)
    left = [*last[: held // 2], *last[held // 2 :: 2]]
    assert table.ids(table.first, table.end) == left
    assert [table.place_of(id) for id in left] == list(range(table.first, table.end))
    numbers = 2 * np.arange(n - held, n)
    assert table.numbers(table.first, table.end).tolist() == [
        *numbers[: held // 2].tolist(),
        *numbers[held // 2 :: 2].tolist(),
    ]


def test_an_id_in_two_rows_is_noticed() -> None:
    table = PendingTable()
    for k, id in enumerate(["a", 7, "b", "a"]):
        table.add(id, 0.5, 0.5, 0.0, None, None, 1.0, 0.0, k, None)
    assert table.has_twice()


@given(values=st.lists(st.one_of(IDS, st.integers(-(2**70), 2**70), st.text(min_size=1), st.integers().map(str))))
@settings(deadline=None)
def test_plain_ids_are_those_of_the_check(values: list[Any]) -> None:
    expected = []
    for value in values:
        try:
            expected.append(check_id(value))
        except ValueError:
            return
    found = plain_ids(values, check_id)
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


KERNELS: dict[str, Callable[[int], Any]] = {
    "online_newton": lambda form: twins("online_newton")[form].OnlineNewton((1.0, 0.0), 1.0, 1.0, 10.0, 1.0, 16.0),
    "line_ladder": lambda form: twins("line_ladder")[form].LineLadder(MEMORIES, MEMORY_PRIOR, 16.0),
    "auto_steps": lambda form: autos(0)[form],
}
BY, NAMES = ("place", ("place", "site")), ("place", "site")
#: Levels of rows: both, one, none, and what is checked by the calibrator.
LEVELS = [{"place": "a", "site": 3}, {"place": "b", "site": 4}, {"place": "a"}, None, {"place": "7a", "site": 3}]


class Learning:
    """A kernel and the steps of a `Segmented` over it, and all that they have learned."""

    def __init__(self, form: int, method: str, segmented: bool) -> None:
        self.steps = self.kernel = KERNELS[method](form)
        self.state = [self.kernel.mixture if method == "auto_steps" else self.kernel]
        if segmented:
            modules = ("segment_chain", "weights", "delay_variance", "segmented_steps")
            chains, weights, delays, steps = (twins(name)[form] for name in modules)
            self.chain, scale, delay = chains.SegmentChain(2, 3), weights.WeightScale(), delays.DelayVariance()
            self.state += [scale, delay]
            self.steps = steps.SegmentedSteps(
                self.chain, self.kernel, scale, delay, BY, NAMES, lambda keys: levels_in(BY, NAMES, keys)
            )

    def learned(self) -> str:
        """Return the states as text."""
        places = [self.chain.state(j)[:2] for j in range(3)] if len(self.state) > 1 else []
        return json.dumps([[one.state() for one in self.state], places], default=lambda one: np.asarray(one).tolist())


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize("method", KERNELS)
def test_both_forms_of_pending_steps_are_the_same(method: str, segmented: bool) -> None:
    """Probabilities, labels judged, and all that is learned."""
    rng, n = np.random.default_rng(4), 300
    scores, t, y = rng.beta(1.0, 4.0, n), np.cumsum(rng.exponential(1.0, n)), rng.random(n) < 0.3
    t[9::10] = t[8::10] - 3.0  # behind the clock
    when = np.where(y, t + rng.exponential(20.0, n), np.inf)
    join = SimpleNamespace(max_jump=1e9, max_behind=5.0, max_held=10_000, on_learned=None, _aside={})
    made = []
    for form in (0, 1):
        tables, steps = (twins(name)[form] for name in ("pending_table", "pending_steps"))
        table, learning = tables.PendingTable(), Learning(form, method, segmented)
        own = steps.PendingSteps(table, 30.0, None, 30.0)
        own.clock = 0.0
        own.use(join, learning.steps, None, False)
        own.watch(-segmented, True)
        p = np.empty(n)
        labels, came = y.astype(np.uint8), when.copy()
        keys = [LEVELS[k % len(LEVELS)] for k in range(n)] if segmented else None
        assert own.issue(join, list(range(n)), scores, t, np.ones(n), labels, came, 0, keys, p) == n
        assert type(own.clock) is float
        counts = own.learned, own.positives, own.timed_out, own.known, own.reports, own.backwards
        made.append(
            (bits(p), bits(came), bits(own.judged_labels()), learning.learned(), counts, table.first, own.unlearned)
        )
    assert made[0] == made[1]
    assert made[0][4][0] > 200
    assert (came < np.inf).tolist() == (when <= np.maximum.accumulate(t) + 30.0).tolist()


@settings(max_examples=60)
@given(st.lists(st.tuples(IDS, st.floats(0.0, 1.0), KEYS, st.booleans(), st.floats(-1.0, 30.0)), max_size=20), VERSIONS)
def test_both_forms_of_pending_events_write_what_is_written_of_each(rows: list[Any], version: Any) -> None:
    """Here the form is stated by `struct` and `json`."""
    n = len(rows)
    t = np.arange(float(n))
    one_by_one, outcomes, weighed = [], [], []
    for k, (id, p, keys, y, delay) in enumerate(rows):
        own = struct.pack("<q", id) if isinstance(id, int) else id.encode()
        whole, more = isinstance(id, int), version is not None or keys is not None
        rest = json.dumps([version, keys, 1.0], ensure_ascii=False, separators=(",", ":")).encode() if more else b""
        one_by_one.append(struct.pack("<BBHddd", 0, whole | 2 * more, len(own), k, 0.5 * p, p) + own + rest)
        outcomes.append(struct.pack("<BBHd", 1, whole | 4 * y, len(own), k + delay) + own)
        weighed.append(struct.pack("<BBHd", 1, whole | 4 * y | 8, len(own), k + delay) + own + struct.pack("<d", p))
        assert events.issued(Issued(id, p, 0.5 * p, float(k), version, keys)) == one_by_one[-1]
        if float(k) + delay - float(k) <= 20.0:
            one_by_one.append(outcomes[k])
    ids, p = [row[0] for row in rows], np.array([row[1] for row in rows])
    y, when = np.array([row[3] for row in rows], dtype=np.uint8), t + [row[4] for row in rows]
    follow = np.where(when - t <= 20.0, when, np.inf)
    for module in twins("pending_events"):
        rests = module.rests_of(version, [row[2] for row in rows], np.ones(n), {}, events._more)
        count, content = module.issued_events(ids, t, 0.5 * p, p, rests, y, follow)
        assert count == len(one_by_one)
        assert content == sized(one_by_one)
        assert module.resolved_events(ids, y, when) == sized(outcomes)
        outcome = [module.resolved_event(*row) for row in zip(ids, y.tolist(), when, [None] * n, strict=True)]
        assert outcome == outcomes
        outcome = [module.resolved_event(*row) for row in zip(ids, y.tolist(), when, p.tolist(), strict=True)]
        assert outcome == weighed
        assert [module.read_event(one) for one in weighed] == [
            (1, row[0], row[3], k + row[4], row[1]) for k, row in enumerate(rows)
        ]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(IDS, st.floats(0.0, 1.0), KEYS, st.integers(0, 9), st.floats(-1.0, 30.0)), max_size=30),
    VERSIONS,
    st.integers(0, 10_000),
    st.integers(0, 255),
)
def test_both_forms_of_pending_events_read_what_is_read_of_each(
    rows: list[Any], version: Any, place: int, byte: int
) -> None:
    """Also of damaged bytes: what is not plain is left, and nothing beyond the end is read."""
    written = []
    for k, (id, p, keys, kind, delay) in enumerate(rows):
        if kind < 7:
            written.append(events.issued(Issued(id, p, 0.5 * p, float(k), version, keys, 2.0 if kind == 6 else 1.0)))
        if 3 < kind < 9:
            written.append(events.resolved(id, delay > 9.0, k + delay, 0.5 if kind == 8 else None))
        if kind == 9:
            written.append(events.advanced(k + 0.5))
    whole = sized(written)
    damaged = bytearray(whole)
    if damaged:
        damaged[place % len(damaged)] = byte
    for module in twins("pending_events"):
        assert read_again(module, whole)[0] == [events.read(one) for one in written]
    first, second = (read_again(module, bytes(damaged)) for module in twins("pending_events"))
    assert json.dumps(first) == json.dumps(second)
    for event in written:
        single = bytearray(event)
        single[place % len(single)] = byte
        first, second = (read_alone(module, bytes(single)) for module in twins("pending_events"))
        assert repr(first) == repr(second)


def read_alone(module: Any, event: bytes) -> tuple[Any, ...] | None:
    """Read an impression or an outcome; None for bytes that are neither."""
    try:
        return module.read_event(event)
    except ValueError:
        return None


def read_again(module: Any, content: bytes) -> tuple[list[Any], int]:
    """Read events in columns, and what is left one by one; return them and where they end or cannot be read."""
    at, found = 0, []
    with suppress(StateError, struct.error):
        while at < len(content):
            issues, ids, *columns, ends = module.read_events(content, at, 1_000, 20.0)
            if not ids:
                at, event = event_at(content, at)
                found.append(events.read(event))
            for id, *row, end in zip(ids, *columns, ends, strict=True):
                at = end
                if not issues:
                    found.append((events.RESOLVE, id, row[1], row[0]))
                    continue
                score, t, p, rest, y, when = row
                found.append((events.ISSUE, id, score, t, *events.read_rest(rest), p))
                if when < np.inf:
                    found.append((events.RESOLVE, id, y, when))
    return found, at


def sized(written: list[bytes]) -> bytes:
    """Return events, each after its size."""
    return b"".join([SIZE.pack(len(event)) + event for event in written])
