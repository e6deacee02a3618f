"""States as bytes: the same plain data, in few bytes, and nothing but `StateError` for other bytes."""

import struct
import zlib
from contextlib import suppress
from enum import Enum, IntEnum

import msgspec
import numpy as np
import pytest
from golden.cases import ROOMS
from golden.make import read as golden
from hypothesis import given, settings
from hypothesis import strategies as st

from streamcal import (
    Auto,
    Bernstein,
    Calibrator,
    Decay,
    HistogramBinning,
    Isotonic,
    OnlinePlatt,
    Platt,
    StateError,
    TrackingOPS,
    VennAbers,
    Window,
    encoding,
)
from streamcal.encoding import HEADER, LONG, MAGIC, VERSION, decode, encode, pack, unpack
from streamcal.fusion import BernsteinFusion, CopulaFusion, LogisticFusion
from streamcal.fusion.base import Fusion
from streamcal.learners.learner import Learner
from streamcal.live import LabelJoin, Segmented
from streamcal.multiclass import VectorScaling
from streamcal.states import Rows, plain

CASES = [(room, case) for room, (_, cases) in ROOMS.items() for case in cases]
#: One of each class of each room; the others have the same fields.
SOME = list({(room, case.name.split("/")[0]): (room, case) for room, case in CASES}.values())
NUMBERS = st.one_of(st.floats(allow_nan=False), st.integers(), st.booleans())
PLAIN = st.recursive(
    st.one_of(st.none(), NUMBERS, st.text()),
    lambda inner: st.one_of(
        st.lists(inner),
        st.dictionaries(st.text(), inner),
        st.lists(st.floats(allow_nan=False), min_size=4),
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=4),
        st.lists(st.integers(-300, 300).map(float), min_size=4),
        st.lists(st.booleans(), min_size=4),
        st.lists(st.tuples(st.floats(allow_nan=False), st.integers()).map(list), min_size=4),
    ),
)


def same(one, other):
    """Equal values of equal types; floats by their bits; tuples are lists, as in JSON."""
    one, other = (list(value) if isinstance(value, tuple) else value for value in (one, other))
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    return one == other


@settings(max_examples=30, deadline=None)
@given(PLAIN, st.booleans())
def test_plain_data_come_back_with_types_and_bits(plain, compress):
    assert same(unpack(pack(plain, compress)), plain)
    assert same(decode(encode(plain)), plain)


@pytest.mark.parametrize(
    "plain",
    [
        [0.0, -0.0, 1.0, 2.0],
        [-0.0] * 9,
        [float("nan"), 1.0, 2.0, 3.0],
        [float("inf"), 1e300, 5e-324, 2.0],
        [2.0**53, 2.0**63, -(2.0**63), 0.0],
        [2**63 - 1, -(2**63), 0, 1],
        [2**63, 0, 1, 2],
        [-(10**400), 10**400],
        [True, 1, 1.0, None],
        [[1.0, 2], [3.0, 4], [5.0, 6], [7.0, None]],
        [[], [], [], []],
        [0.5, 0.25, 1.5, 3.0],
        {"": {"ü\ud800": "\x00"}},
    ],
)
def test_what_could_lose_a_type_or_a_bit(plain):
    assert same(unpack(pack(plain)), plain)


@pytest.mark.parametrize(
    "listed",
    [
        np.array([0.5, -0.0, 1.0, np.nan]),
        np.array([3, -(2**63), 2**63 - 1, 0]),
        np.array([True, False, True, True]),
        np.array([1.0, 2.0, 3.0]),
        np.array([1, 2, 3, 4], dtype=np.int32),
        np.array([0.5, 1.5, 2.5, 3.5], dtype=np.float32),
        np.linspace(0.0, 1.0, 200)[::2],
        np.linspace(0.0, 1.0, 200),
        np.linspace(0.0, 1.0, 60).reshape(20, 3),
        np.linspace(0.0, 1.0, 300).reshape(3, 100),
        np.linspace(0.0, 1.0, 300).reshape(100, 3)[:, ::-1],
        np.linspace(0.0, 1.0, 120).reshape(20, 2, 3),
        np.empty((5, 0)),
        np.empty((0, 5)),
        Rows([np.arange(100), np.linspace(0.0, 1.0, 100), np.arange(100) % 2 == 0]),
        Rows([np.arange(100.0), Rows([np.arange(100), np.arange(100) * 0.1])]),
        Rows([np.arange(5.0), np.arange(10.0).reshape(5, 2)]),
        Rows([np.arange(2.0), np.arange(2)]),
        Rows([np.empty(0), np.empty(0)]),
    ],
)
def test_long_arrays_and_rows_come_back_as_such_and_short_ones_as_lists(listed):
    found = unpack(pack({"x": listed}))["x"]
    assert isinstance(found, (np.ndarray, Rows)) == (len(listed) >= LONG)
    assert same(plain(found), plain(listed))


@pytest.mark.parametrize(
    ("numbers", "size"),
    [
        (np.arange(1000) % 100, 1),
        (np.arange(1000.0) % 100, 1),
        (np.arange(1000) % 2 == 0, 1),
        (np.arange(1000) * 100, 1),  # as differences
        (np.arange(1000) % 2 * 30_000, 2),
        (np.arange(1000) % 2 * -(2**31), 4),
        (np.arange(1000) % 2 * (2**63 - 1) - (np.arange(1000) % 3 == 0), 8),
        (np.linspace(0.0, 1.0, 1000).astype(np.float32).astype(np.float64), 4),
        (np.append(np.arange(999.0), -0.0), 4),
        (np.append(np.arange(999.0), 1e300), 8),
        (np.append(np.arange(999.0), np.nan), 4),
        (np.cumsum(np.arange(1000) * 2**54, dtype=np.int64), 8),  # whose differences wrap around
    ],
)
def test_each_array_is_stored_in_the_shortest_type_that_holds_it(numbers, size):
    content = pack(numbers)
    assert len(content) <= HEADER.size + 10 + size * len(numbers)
    assert same(unpack(content).tolist(), numbers.tolist())


@pytest.mark.sample(17)
@pytest.mark.parametrize("long", [4, LONG], ids=["all arrays", "long arrays"])
@pytest.mark.parametrize(("room", "case"), SOME, ids=lambda value: getattr(value, "name", value))
def test_every_class_goes_on_from_bytes(room, case, long, monkeypatch):
    monkeypatch.setattr(encoding, "LONG", long)
    state = golden(room)["cases"][case.name]["state"]
    learner = Learner.class_named(state["class"]).from_state(state)
    content = learner.to_bytes()
    assert same(plain(unpack(content)[2]), plain(learner._written()["learned"]))
    for copied in (type(learner).from_bytes(content), Learner.from_bytes(learner.to_bytes(compress=True))):
        assert type(copied) is type(learner)
        assert copied.to_bytes() == content


@pytest.mark.parametrize(
    "make",
    [
        Auto,
        VennAbers,
        lambda: VennAbers(forgetting=Window(300)),
        lambda: VennAbers(forgetting=Window(300.0, by="time")),
        lambda: Isotonic(forgetting=Decay(100.0)),
        lambda: HistogramBinning(15, forgetting=Decay(100.0, by="time")),
        lambda: LogisticFusion(2),
        lambda: CopulaFusion(forgetting=Window(300)),
    ],
)
def test_what_is_learned_after_saving_does_not_change_the_bytes_and_goes_on_alike(make):
    """Nothing in a state is a view of what goes on learning, and nothing that was read is read-only."""
    rng = np.random.default_rng(3)
    cal = make()
    scores = rng.random((600, 2)) if isinstance(cal, Fusion) else rng.random(600)
    y, t = rng.random(600) < 0.4, {"t": np.arange(600.0)} if "time" in repr(cal) else {}

    def learn(one, rows):
        one.learn_many(scores[rows], y[rows], **{name: values[rows] for name, values in t.items()})

    learn(cal, slice(0, 400))
    written = cal._written()
    again = type(cal).from_bytes(cal.to_bytes())
    plainly = plain(written)
    for one in (cal, again):
        learn(one, slice(400, 600))
        assert same(plain(written), plainly)
    assert again.to_bytes() == cal.to_bytes()


def test_sizes():
    """Of 20,000 different scores, or of the cells of a grid."""
    rng = np.random.default_rng(0)
    scores = rng.random(20_000)
    y = rng.random(20_000) < scores

    def size(cal):
        cal.learn_many(scores, y)
        cal.predict_one(0.5)
        return len(cal.to_bytes())

    assert size(OnlinePlatt()) <= 512
    assert size(OnlinePlatt(discount=1.0)) <= 256
    assert size(TrackingOPS()) <= 320
    assert size(Bernstein(20)) <= 2048
    cells = len(np.unique(np.round(scores * 4096)))
    for cal in (HistogramBinning(15), VennAbers(resolution=4096), Isotonic(resolution=4096)):
        assert size(cal) <= 40 * cells + 1024, cal
    assert size(VennAbers()) <= 24 * len(scores)
    assert size(VennAbers(forgetting=Window(5_000))) <= 24 * 5_000
    assert size(VennAbers(forgetting=Decay(5_000.0))) <= 64 * len(scores), "weights and sums are doubles there"


def test_a_base_class_reads_all_its_methods():
    cal = Platt()
    cal.learn_one(0.3, True)
    assert type(Calibrator.from_bytes(cal.to_bytes())) is Platt
    assert type(Calibrator.from_state(cal.state_dict())) is Platt
    with pytest.raises(StateError, match="one of 'Platt', not of 'VennAbers'"):
        VennAbers.from_bytes(cal.to_bytes())
    with pytest.raises(StateError, match="one of 'LogisticFusion', which is no Calibrator"):
        Calibrator.from_bytes(LogisticFusion(2).to_bytes())


# -- other bytes -------------------------------------------------------------------------------------------------------


def content():
    cal = VennAbers(resolution=64, forgetting=Window(50))
    cal.learn_many(np.linspace(0.0, 1.0, 80), np.arange(80) % 3 == 0)
    return cal.to_bytes()


def signed(body, raw=None, how=0):
    """Bytes with a checksum that is right."""
    raw = len(body) if raw is None else raw
    return HEADER.pack(MAGIC, VERSION, how, zlib.crc32(struct.pack("<Q", raw) + body), raw) + body


def extension(code, content):
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(code, content))


def column(length):
    return extension(1, b"i=i1" + bytes(length))


#: Of an unknown type, odd types of numbers, columns of several lengths or of none, and columns that are none.
NO_EXTENSIONS = [
    (4, b""),
    (1, b"i=i"),
    (1, b"i=i8" + bytes(7)),
    (1, b"i=O8" + bytes(8)),
    (1, b"i=f8" + bytes(8)),
    (1, b"f+f8" + bytes(8)),
    (1, b"O=i8" + bytes(8)),
    (1, b"c=i8" + bytes(8)),
    (1, b"c=f4" + bytes(8)),
    (2, b"\x90"),
    (2, b"\xc0"),
    (2, b"\x92" + column(2) + column(3)),
    (2, b"\x91\x91\x01"),
    (3, b"[" * 100_000),
    (3, b"{"),
    (3, b"\xff"),
]


def test_each_changed_or_missing_byte_is_noticed():
    whole = content()
    for place in range(len(whole)):
        for other in (whole[:place], whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]):
            with pytest.raises(StateError):
                VennAbers.from_bytes(other)
    with pytest.raises(StateError):
        VennAbers.from_bytes(whole + b"\0")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (b"", "no state"),
        (b"{}" * 20, "no state"),
        ("text", "from bytes, not from str"),
        (HEADER.pack(MAGIC, 2, 0, 0, 0), "version 2; this streamcal reads version 1"),
        (signed(b"\xc0"), "something else than a state"),
        (signed(b"\xc1"), "the bytes are damaged"),
        (signed(b"\xc0\xc0"), "the bytes are damaged"),
        (signed(b"\xdd" + b"\xff" * 4), "the bytes are damaged"),
        (signed(b"\xdd\xff\xff\xff\xff" * 100), "the bytes are damaged"),
        (signed(b"\x91" * 100_000), "the bytes are damaged"),
        (signed(b"\xc7\x02\x03" + b"\x00" * 2), "the bytes are damaged"),
        (signed(b"\xc0", how=7), "the bytes are damaged"),
        (signed(zlib.compress(b"\0" * 10**6), raw=10**15, how=1), "the bytes are damaged"),
        (signed(b"\x28\xb5\x2f\xfd", raw=10, how=1), "the bytes are damaged"),
        *((signed(extension(*parts)), "the bytes are damaged") for parts in NO_EXTENSIONS),
    ],
)
def test_bytes_that_are_no_state(given, message):
    """Also with a right checksum: too deep, too long, more numbers than bytes could hold."""
    with pytest.raises(StateError, match=message):
        OnlinePlatt.from_bytes(given)


def test_no_other_error_whatever_the_bytes():
    """Damaged in some bytes, under a right checksum: read as other plain data, or refused."""
    body = content()[HEADER.size :]
    rng = np.random.default_rng(7)
    read = 0
    for _ in range(2_000):
        changed = bytearray(body)
        for place in rng.integers(len(body), size=rng.integers(1, 4)):
            changed[place] = rng.integers(256)
        with suppress(StateError):
            decode(changed)
        try:
            unpack(signed(bytes(changed[: rng.integers(1, len(body) + 1)] if rng.random() < 0.3 else changed)))
            read += 1
        except StateError:
            continue
    assert 100 < read < 1_900


class Word(str, Enum):  # noqa: UP042 - the members of `StrEnum` are texts of their value
    """Members whose `str` is not their value."""

    A = "a"
    LOG_MINIMAX = "log-minimax"


class Number(IntEnum):
    TWO = 2


def test_members_of_an_enum_are_their_values():
    """As in JSON: they are labels, names of scores, parameters, ids and levels."""
    assert unpack(pack([Word.A, Number.TWO, [Number.TWO] * 5, {Word.A: Word.A}])) == ["a", 2, [2] * 5, {"a": "a"}]
    classes, fusion = VectorScaling(), BernsteinFusion(2)
    classes.learn_one({Word.A: 0.5, Number.TWO: 0.5}, Word.A)
    fusion.learn_one({Word.A: 0.5, "b": 0.5}, True)
    assert [*classes.predict_one({"a": 0.5, 2: 0.5})] == ["a", 2]
    for learned in (classes, fusion, VennAbers(Word.LOG_MINIMAX)):
        assert type(learned).from_bytes(learned.to_bytes()).state_dict() == learned.state_dict()
    segmented, join = Segmented("online-platt", ["site"]), LabelJoin("platt", 5.0)
    segmented.learn_one(0.5, True, keys={"site": Word.A})
    assert segmented.predict_one(0.5, keys={"site": Word.A}) == segmented.predict_one(0.5, keys={"site": "a"}) > 0.5
    join.issue(Word.A, 0.5, 0.0)
    assert join.resolve("a", True, 1.0)
