"""The state of a `CountedJoin` as plain data: writing and reading."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from streamcal.encoding import encode, pack
from streamcal.kernels.counts.counted_rows import ClickFilter, CountedRows
from streamcal.kernels.pending.pending_steps import COUNTS
from streamcal.live.counted_bucket import FURTHEST, Bucket, group_of
from streamcal.live.counted_tokens import Tokens
from streamcal.live.early import CELLS, DelayCurve
from streamcal.live.issued import check_id, check_keys
from streamcal.live.versions import VersionLearner
from streamcal.parameters.inputs import LARGEST_WEIGHT
from streamcal.states import (
    MOST,
    counts,
    ensure,
    flag,
    listed,
    maybe,
    number,
    numbers,
    record,
    row,
    text,
    unread,
    whole,
)
from streamcal.statistics.grid import MOST_CELLS


def head_of(join: Any) -> dict[str, Any]:
    """Return all of a state but its buckets."""
    groups, free = join._groups.state()
    return {
        "clock": None if math.isinf(join._now.clock) else join._now.clock,
        "number": join._now.number,
        "serial": join._serial,
        "versions": [[version, learner.state()] for version, learner in join._versions.items()],
        "newest": join._newest,
        "groups": [None if group is None else [group.version, group.keys, group.w] for group in groups],
        "free": free,
        "counts": join.tally(),
        "curve": None if join._curve is None else join._curve.state(),
        "key": None if join._tokens.stored is None else join._tokens.stored.hex(),
        "fingerprint": join._tokens.fingerprint,
        "note": join._note,
    }


def parts_of(join: Any, name: str, params: dict[str, Any]) -> Iterator[bytes | bytearray]:
    """Yield a state as bytes in parts, the head and then each bucket; the join must not change meanwhile."""
    yield pack([name, params, head_of(join)])
    for bucket in join._buckets.values():
        yield encode(bucket_of(bucket))


def bucket_of(bucket: Bucket) -> dict[str, Any]:
    """Return a bucket as plain data, with columns for its rows."""
    is_open = bucket.rows is not None
    if is_open:
        keys, scores, differences, n = bucket.rows.columns()
    else:
        keys, scores, differences, n = bucket.groups, bucket.scores, None, bucket.n
    size = bucket.size
    clicked, early = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    some = min(size, len(bucket.clicked))
    clicked[:some], early[:some] = bucket.clicked[:some], bucket.early[:some]
    records = None if all(content is None for content in bucket.records) else bucket.records
    return {
        **{name: getattr(bucket, name) for name in ("serial", "place", "first", "issued", "counted", "grown")},
        "learned": bucket.learned,
        "open": is_open,
        "keys": np.asarray(keys, dtype=np.int64),
        "scores": scores,
        "differences": differences,
        "n": np.asarray(n, dtype=np.int64),
        "clicked": clicked,
        "early": early,
        "exact": bool(bucket.clicks.exact),
        "clicks": bucket.clicks.places(),
        "delays": list(bucket.delays),
        "sizes": None
        if records is None
        else np.array([0 if content is None else len(content) for content in records], dtype=np.int64),
        "records": None
        if records is None
        else b64encode(b"".join([content for content in records if content is not None])).decode(),
    }


def read(state: Any, params: Mapping[str, Any]) -> tuple[dict[str, Any], list[Bucket]]:
    """Read what `head_of` and `bucket_of` wrote of a join with these parameters; `StateError` for anything else."""
    version, early = maybe(check_id), params["early"]
    group = row(version, maybe(check_keys), number(0.0, LARGEST_WEIGHT))
    fields = {
        "clock": maybe(number()),
        "number": whole(),
        "serial": whole(),
        "versions": listed(row(version, VersionLearner.loaded)),
        "newest": version,
        "groups": listed(maybe(lambda value: group_of(*group(value)))),
        "free": listed(whole()),
        "counts": record(dict.fromkeys(COUNTS, whole(0, MOST))),
        "curve": maybe(lambda value: DelayCurve.loaded(value, early, params["horizon"], params["early_share"])),
        "key": maybe(lambda value: bytes.fromhex(text(2048, "[0-9a-f]{32,}")(value))),
        "fingerprint": text(16, "[0-9a-f]{16}"),
        "note": maybe(text(2**30)),
        "held": unread,
    }
    head = record(fields)(state)
    ensure(head["clock"] is None or abs(head["clock"]) < FURTHEST * params["bucket"], "the clock is too far")
    ensure((head["curve"] is None) == (early is None), "there is a curve of delays without an early window")
    head["versions"] = dict(head["versions"])
    ensure(head["newest"] in head["versions"], "the newest version has no calibration")
    ensure(isinstance(head["held"], (list, Iterator)), "buckets are in no list")
    missing = [place for place, group in enumerate(head["groups"]) if group is None]
    ensure(sorted(head["free"]) == missing, "groups that are free are not those missing")
    present = [group for group in head["groups"] if group is not None]
    ensure(len(set(present)) == len(present), "a group is there twice")
    buckets = [_bucket(bucket, params, head) for bucket in head["held"]]
    serials = [bucket.serial for bucket in buckets]
    ensure(
        serials == sorted(set(serials)) and (not serials or serials[-1] < head["serial"]), "buckets are not in order"
    )
    ensure(all(bucket.rows is None for bucket in buckets[:-1]), "a bucket is open that is not the last one")
    return head, buckets


def _bucket(value: Any, params: Mapping[str, Any], head: Mapping[str, Any]) -> Bucket:
    """Read what `bucket_of` wrote."""
    names = ("serial", "first", "issued", "counted", "grown")
    columns = {name: counts() for name in ("keys", "n", "clicked", "early")}
    fields = {**dict.fromkeys(names, whole()), **columns, "place": whole(-MOST), "learned": flag, "open": flag}
    fields |= {"scores": numbers(None), "differences": maybe(numbers(None)), "exact": flag, "clicks": counts()}
    fields |= {"delays": listed(whole(), CELLS + 2), "sizes": maybe(counts()), "records": maybe(text(2**31))}
    saved = record(fields)(value)
    size = len(saved["keys"])
    ensure(all(len(saved[name]) == size for name in (*columns, "scores")), "rows have columns of several lengths")
    bits = params["click_bits"]
    ensure(not len(saved["clicks"]) or int(saved["clicks"].max()) < bits, "a click is beyond the end")
    groups = saved["keys"] // MOST_CELLS if saved["open"] else saved["keys"]
    known = head["groups"]
    ensure(all(place < len(known) and known[place] is not None for place in np.unique(groups).tolist()), "no group")
    bucket = Bucket(
        saved["serial"], saved["place"], saved["first"], ClickFilter(bits, saved["clicks"].tolist(), saved["exact"]), 0
    )
    bucket.issued, bucket.counted, bucket.grown = saved["issued"], saved["counted"], saved["grown"]
    bucket.delays, bucket.learned, bucket.records = saved["delays"], saved["learned"], _records(saved, size)
    ensure(1 <= bucket.grown <= CELLS + 1 and bucket.counted <= bucket.issued, "a bucket counts what it has not")
    ensure(bucket.learned or (saved["clicked"] <= saved["n"]).all(), "there are more clicks than predictions")
    ensure((saved["early"] <= saved["clicked"]).all(), "there are more early clicks than clicks")
    short = {name: saved[name].astype(np.int32) for name in ("n", "clicked", "early")}
    bucket.clicked, bucket.early = short["clicked"], short["early"]
    if saved["open"]:
        ensure(saved["differences"] is not None and len(saved["differences"]) == size, "an open bucket has no sums")
        ensure(len(np.unique(saved["keys"])) == size, "a row is there twice")
        bucket.rows = CountedRows(saved["keys"], saved["scores"], saved["differences"], saved["n"])
        bucket.of = set(groups.tolist())
    else:
        bucket.rows, bucket.scores, bucket.n, bucket.groups = None, saved["scores"], short["n"], groups.astype(np.int32)
    return bucket


def _records(saved: Mapping[str, Any], size: int) -> list[bytes | None]:
    """Read what is remembered of the predictions of each row."""
    if saved["sizes"] is None:
        return [None] * size if not saved["learned"] else []
    ensure(len(saved["sizes"]) == size and saved["records"] is not None, "what is remembered is of other rows")
    content, ends = b64decode(saved["records"], validate=True), np.cumsum(saved["sizes"])
    ensure((int(ends[-1]) if size else 0) == len(content), "more or less is remembered than there are rows")
    return [content[a:b] if a < b else None for a, b in pairwise([0, *ends.tolist()])]


def take_over(join: Any, state: Mapping[str, Any], buckets: list[Bucket]) -> None:
    """Give a new join what was read."""
    for name in ("serial", "versions", "newest", "curve", "note"):
        setattr(join, f"_{name}", state[name])
    join._tokens = Tokens.loaded(state["key"], state["fingerprint"])
    join._now.clock = -math.inf if state["clock"] is None else state["clock"]
    join._now.number, join._now.counts = state["number"], state["counts"]
    if math.isfinite(join._now.clock):
        join._place = math.floor(join._now.clock / join.spans.bucket)
    join._groups.load(state["groups"], state["free"])
    for bucket in buckets:
        join._buckets[bucket.serial] = bucket
        (join._learned if bucket.learned else join._waiting).append(bucket)
        join._rows += bucket.size
        groups = bucket.groups.tolist() if bucket.rows is None else sorted(bucket.of)
        for group in dict.fromkeys(groups):
            join._groups.use(group)
    if buckets and buckets[-1].rows is not None:
        join._open = buckets[-1]
    join._follow_curve()
