"""Lists of `streamcal serve`, in JSON and as streams of Arrow: what single requests do, and what cannot be read."""

import json
import random
import time

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")
pytest.importorskip("prometheus_client", reason="the extra serve is not installed")
pytest.importorskip("msgspec", reason="the extra serve is not installed")
pytest.importorskip("httpx", reason="starlette's test client needs httpx")

import pyarrow as pa
from starlette.testclient import TestClient

from streamcal import Auto, OnlinePlatt
from streamcal.live import Journal, LabelJoin, Segmented
from streamcal.serving.app import application
from streamcal.serving.arrow import MEDIA_TYPE
from streamcal.serving.service import Service
from streamcal.serving.settings import Settings

ARROW = {"Content-Type": MEDIA_TYPE, "Accept": MEDIA_TYPE}
METHODS = {"online-platt": OnlinePlatt, "auto": Auto, "segmented": lambda: Segmented(OnlinePlatt(), ["campaign"])}


def service_of(path=None, method=OnlinePlatt, **settings):
    journal = None if path is None else Journal(path)
    join = LabelJoin(method(), 100.0, journal=journal)
    return Service(join, journal, Settings(**{"event_time": True, **settings}))


def client_of(service):
    return TestClient(application(service), raise_server_exceptions=False)


@pytest.fixture
def service():
    return service_of()


@pytest.fixture
def client(service):
    with client_of(service) as one:
        yield one


def stream_of(columns, **options):
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, **options) as stream:
        stream.write_table(table, max_chunksize=100)
    return bytes(sink.getvalue())


def read(response):
    assert response.headers["content-type"] == MEDIA_TYPE, response.text
    return pa.ipc.open_stream(response.content).read_all().to_pydict()


def impressions(seed, count):
    """Make impressions, of which some are not plain, known, or wrong."""
    rng = random.Random(seed)
    items = []
    for k in range(count):
        item = {"id": f"i{seed}-{k}", "score": rng.random(), "t": float(100 * seed + k)}
        if rng.random() < 0.5:
            item["keys"] = {"campaign": rng.choice(["c1", "c2", "ä", 7, "7", None]), "site": rng.randrange(5)}
        odd = rng.randrange(25)
        item |= (
            [
                {"id": k + 1000 * seed},
                {"id": f"a:b:{seed}:{k}"},
                {"id": f"i{seed}-{max(k - 3, 0)}"},
                {"id": 'quo"te' + str(k)},
                {"id": f"ö{k}"},
                {"id": ""},
                {"score": 2},
                {"score": 1},
                {"w": 3.5},
                {"w": None, "version": None},
                {"w": -1.0},
                {"t": 100.0 * seed + k - 20.0},
                {"t": None},
                {"keys": {}},
                {"keys": {"campagn": None}},
                {"keys": {f"f{j}": j for j in range(17)}},
                {"more": 1},
            ][odd]
            if odd < 17
            else {}
        )
        items.append(item)
    return items


def outcomes(seed, count):
    """Make outcomes of impressions before, of which some are known, weighted or wrong."""
    rng = random.Random(seed)
    items = []
    for k in range(0, count, 2):
        item = {"id": f"i{seed}-{k}", "y": rng.random() < 0.4, "t": 100.0 * seed + k + rng.choice([-2.0, 5.0, 80.0])}
        odd = rng.randrange(16)
        item |= (
            [
                {"id": f"i{seed - 1}-{k}"},
                {"id": "unknown"},
                {"id": f"i{seed}-{max(k - 2, 0)}"},
                {"y": 1},
                {"y": 2},
                {"w": 2.0},
                {"t": "now"},
            ][odd]
            if odd < 7
            else {}
        )
        items.append(item)
    return items


def alone(client, path, items):
    """Send each item in a request; return what a list is answered."""
    results, errors = [], []
    for place, item in enumerate(items):
        response = client.post(path, json=item)
        found = response.json()
        results.append(found if response.status_code == 200 else None)
        if response.status_code != 200:
            where = f"[{place}].{found['where']}" if found["where"] else f"[{place}]"
            errors.append({"index": place, "status": response.status_code, **found, "where": where})
    return {"results": results, "errors": errors}


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", METHODS)
def test_lists_do_what_single_requests_do(tmp_path, method):
    """Answers, errors, the state, the journal and the measures, with everything that is not plain in some rows."""
    one = service_of(tmp_path / "one.journal", METHODS[method])
    many = service_of(tmp_path / "many.journal", METHODS[method])
    with client_of(one) as single, client_of(many) as lists:
        for seed, count in enumerate((150, 20)):
            for path, items in (("issue", impressions(seed, count)), ("outcome", outcomes(seed, count))):
                size = len(items) if seed else 9  # of which some have no item that keeps the list from columns
                for begin in range(0, len(items), size):
                    expected = alone(single, f"/v1/{path}", items[begin : begin + size])
                    assert lists.post(f"/v1/{path}/batch", json=items[begin : begin + size]).json() == expected
                assert any(expected["results"])
        assert one.join.tally() == many.join.tally()
        assert one.join.tally()["learned"] > 20
        assert one.join.state_dict() == many.join.state_dict()
        assert one.quality.delays == many.quality.delays
        assert one.quality.delay == pytest.approx(many.quality.delay)
        written = [list(service._journal.events()) for service in (one, many)]
    assert written[0] == written[1]


@pytest.mark.parametrize("arrow", [False, True])
def test_plain_lists_are_taken_in_columns(service, client, monkeypatch, arrow):
    client.post("/v1/issue", json={"id": "first", "score": 0.5, "t": 0.0})
    for name in ("issue", "resolve"):
        monkeypatch.setattr(service.join, name, lambda *_, **__: pytest.fail("an item was taken alone"))
    ids = [f"urn:{k}" for k in range(300)]
    t = [float(k // 7) for k in range(300)]
    keys = [{"campaign": f"c{k % 5}", "site": k % 3} for k in range(300)]
    issue = {"id": ids, "score": [0.25] * 300, "t": t, "keys": keys, "w": [1.0, 2.0] * 150}
    told = {"id": ids[::3], "y": [True, False] * 50, "t": t[::3]}
    for path, columns in (("issue", issue), ("outcome", told)):
        if arrow:
            response = client.post(f"/v1/{path}/batch", content=stream_of(columns), headers=ARROW)
            assert set(read(response)["status"]) == {None}
        else:
            rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            assert client.post(f"/v1/{path}/batch", json=rows).json()["errors"] == []
    assert service.join.tally()["issued"] == 301
    assert sum(service.quality.delays) == 50


@pytest.mark.parametrize("name", ["t", "w"])
@pytest.mark.parametrize("path", ["issue", "outcome"])
def test_a_number_that_is_none_is_no_null_in_a_stream(service, client, path, name):
    """A null has the default, and NaN is refused, in columns as in rows."""
    client.post("/v1/issue", json={"id": "first", "score": 0.5, "t": 0.0})
    value = {"score": [0.25] * 4} if path == "issue" else {"y": [True] * 4}
    columns = {"id": ["first", "first", "first", "first"] if path == "outcome" else list("abcd"), **value}
    columns |= {"t": [1.0] * 4, name: [1.0, None, float("nan"), float("nan")]}
    found = read(client.post(f"/v1/{path}/batch", content=stream_of(columns), headers=ARROW))
    assert found["where"] == [None, None if name == "w" else "[1].t", f"[2].{name}", f"[3].{name}"]


def test_times_of_lists_are_held_to_the_clock_of_the_server():
    service = service_of(event_time=False)
    now = time.time()
    with client_of(service) as client:
        client.post("/v1/issue", json={"id": "first", "score": 0.5})
        items = [{"id": k, "score": 0.5, "t": now} if k % 2 else {"id": k, "score": 0.5} for k in range(20)]
        assert client.post("/v1/issue/batch", json=items).json()["errors"] == []
        for t, error in ((now + 1e3, "ahead of the server"), (now - 1e9, "behind the server")):
            items = [{"id": f"{t}-{k}", "score": 0.5, "t": t if k == 12 else None} for k in range(20)]
            refused = client.post("/v1/issue/batch", json=items).json()["errors"]
            assert [(one["index"], one["status"], one["where"]) for one in refused] == [(12, 409, "[12].t")]
            assert error in refused[0]["error"]
            told = [{"id": k, "y": True, "t": t if k == 12 else now} for k in range(20)]
            refused = client.post("/v1/outcome/batch", json=told).json()["errors"]
            assert [(one["index"], one["status"]) for one in refused] == [(12, 409)]
        assert service.join.clock < now + 60.0
        assert service.join.tally()["issued"] == 1 + 20 + 2 * 19
        issued = [one.t for one in service.join.predictions.values()]
        assert now - 1e-3 <= min(issued) <= max(issued) <= time.time()


def test_a_key_that_is_given_twice_is_seen_in_a_plain_list(service, client):
    for body in (
        b'[{"id": "a", "score": 0.1, "t": 0, "score": 0.9}]',
        b'[{"id": "a", "score": 0.1, "t": 0, "keys": {"c": "x", "c": "y"}}]',
        b'[{"id": "a", "score": 0.1, "t": 0, "keys": {"c": "x", "\\u0063": "y"}}]',
    ):
        refused = client.post("/v1/issue/batch", content=body, headers={"Content-Type": "application/json"})
        assert (refused.status_code, refused.json()["where"]) == (400, "body")
        assert "is given twice" in refused.json()["error"]
    assert service.join.tally()["issued"] == 0


# -- Arrow -----------------------------------------------------------------------------------------------------------


def test_streams_of_arrow_do_what_lists_of_json_do():
    """The same rows as JSON and as Arrow of several types, with rows that are refused."""
    one, other = service_of(), service_of()
    n = 250
    ids = np.where(np.arange(n) % 9, [f"i{k}" for k in range(n)], [f"{k}" for k in range(n)]).tolist()
    rng = np.random.default_rng(3)
    scores = rng.random(n).tolist()
    scores[7], ids[11] = 1.5, ids[10]
    t = np.arange(n, dtype=np.float64).tolist()
    t[20] = t[220] = None
    w = [None if k % 3 else 2.0 for k in range(n)]
    w[30] = -1.0
    keys = [{"c": f"c{k % 4}", "d": None if k % 2 else k} if k % 5 else None for k in range(n)]
    rows = [
        {name: value for name, value in zip(("id", "score", "t", "w", "keys"), row, strict=True) if value is not None}
        for row in zip(ids, scores, t, w, keys, strict=True)
    ]
    text = pa.array(ids)
    forms = [
        {"id": text, "keys": keys, "score": scores, "t": t, "w": w},
        {
            "id": text.dictionary_encode(),
            "score": scores,
            "t": t,
            "w": w,
            "keys": pa.StructArray.from_arrays(
                [
                    pa.array([key and key["c"] for key in keys]).dictionary_encode(),
                    pa.array([key and key["d"] for key in keys], pa.int16()),
                ],
                ["c", "d"],
                mask=pa.array([key is None for key in keys]),
            ),
        },
    ]
    with client_of(one) as json_client:
        expected = json_client.post("/v1/issue/batch", json=rows).json()
    assert len(expected["errors"]) == 5
    by_row = {error["index"]: error for error in expected["errors"]}
    for columns in forms:
        other = service_of()
        with client_of(other) as client:
            found = read(client.post("/v1/issue/batch", content=stream_of(columns), headers=ARROW))
            told = client.post(
                "/v1/outcome/batch",
                content=stream_of(
                    {"id": ids[221:241:2], "y": pa.array([k % 2 for k in range(10)], pa.int8()), "t": t[230:240]}
                ),
                headers={"Content-Type": MEDIA_TYPE},
            ).json()
        assert found["id"] == ids
        assert found["p"] == [one and one["p"] for one in expected["results"]]
        for name in ("status", "error", "where", "allowed"):
            assert found[name] == [by_row[k][name] if k in by_row else None for k in range(n)]
        assert [one["known"] for one in told["results"]] == [True] * 10
        assert one.join.tally()["issued"] == other.join.tally()["issued"]
        assert {k: v.score for k, v in one.join.predictions.items()} == {
            k: v.score for k, v in other.join.predictions.items()
        }
        assert [v.keys for v in one.join.predictions.values()] == [v.keys for v in other.join.predictions.values()]


def test_levels_may_be_a_map(service, client):
    keys = pa.array([[("c", "c1"), ("d", "7")], None, [("c", None)]], pa.map_(pa.string(), pa.string()))
    body = stream_of({"id": [1, 2, 3], "score": [0.5] * 3, "t": [0, 0, 0], "keys": keys})
    assert read(client.post("/v1/issue/batch", content=body, headers=ARROW))["id"] == [1, 2, 3]
    assert [one.keys for one in service.join.predictions.values()] == [{"c": "c1", "d": 7}, None, None]


def test_an_answer_in_arrow_may_be_asked_for_with_json(client):
    items = [{"id": 7, "score": 0.5, "t": 0, "version": "v1"}, {"id": 8, "score": 5, "t": 0}, 9]
    found = read(client.post("/v1/issue/batch", json=items, headers={"Accept": MEDIA_TYPE}))
    assert found["id"] == [7, 8, None]
    assert found["version"] == ["v1", None, None]
    assert found["status"] == [None, 422, 422]
    items = [{"id": 7, "y": True, "t": 1.0}, {"id": "later", "y": True, "t": 1.0}]
    found = read(client.post("/v1/outcome/batch", json=items, headers={"Accept": f"{MEDIA_TYPE}, */*"}))
    assert (found["id"], found["known"]) == (["7", "later"], [True, False])


PLAIN = {"id": ["a", "b"], "score": [0.5, 0.5], "t": [0.0, 0.0]}


@pytest.mark.parametrize(
    ("columns", "status", "where", "error"),
    [
        ({**PLAIN, "y": [True, False]}, 422, "y", "is unknown"),
        ({"id": ["a"], "t": [0.0]}, 422, "score", "score is missing"),
        ({**PLAIN, "score": ["x", "y"]}, 422, "score", "of type string is not possible"),
        ({**PLAIN, "id": [0.5, 1.5]}, 422, "id", "of type double is not possible"),
        ({**PLAIN, "t": pa.array([0, 0], pa.timestamp("s"))}, 422, "t", "of type timestamp"),
        ({**PLAIN, "keys": [["c"], ["d"]]}, 422, "keys", "of type list"),
        ({**PLAIN, "keys": [{f"f{k}": 1 for k in range(17)}] * 2}, 422, "keys", "17 keys are not possible"),
        ({name: column * 6 for name, column in PLAIN.items()}, 422, "body", "12 items are too many"),
        (
            {**PLAIN, "id": pa.array(["x" * 300, "b"]).dictionary_encode()},
            422,
            "id",
            "a text is too long",
        ),
        (
            {**PLAIN, "keys": pa.array([[("c", "1"), ("c", "2")], None], pa.map_(pa.string(), pa.string()))},
            400,
            "[0].keys",
            "a field is given twice",
        ),
        (
            {**PLAIN, "keys": pa.array([[("c", "1")] * 40, None], pa.map_(pa.string(), pa.string()))},
            422,
            "keys",
            "too many keys",
        ),
    ],
)
def test_columns_that_cannot_be_used_are_named_and_nothing_is_issued(columns, status, where, error):
    service = service_of(max_batch=10)
    with client_of(service) as client:
        refused = client.post("/v1/issue/batch", content=stream_of(columns), headers=ARROW)
    assert (refused.status_code, refused.json()["where"]) == (status, where), refused.text
    assert error in refused.json()["error"]
    assert refused.json()["allowed"]
    assert service.join.tally()["issued"] == 0


def test_a_column_may_be_there_once(client):
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array([0.5]), pa.array([0.9])], ["id", "score", "score"])
    refused = client.post("/v1/issue/batch", content=stream_of(table), headers=ARROW)
    assert (refused.status_code, refused.json()["error"]) == (400, "the column score is given twice")


def test_a_stream_that_is_cut_off_is_refused_wherever_that_is(service, client):
    body = stream_of(PLAIN)
    for end in (*range(0, len(body), 11), len(body) - 8):  # the last is at the end of a message
        refused = client.post("/v1/issue/batch", content=body[:end], headers=ARROW)
        assert (refused.status_code, refused.json()["where"]) == (400, "body")
    assert "may be cut off" in refused.json()["error"]
    assert service.join.tally()["issued"] == 0
    assert client.post("/v1/issue/batch", content=body, headers=ARROW).status_code == 200


def test_foreign_and_compressed_bodies_are_refused(service, client):
    compressed = stream_of({name: column * 500 for name, column in PLAIN.items()}, options=ZSTD)
    for body, status, error in (
        (json.dumps([{"id": "a", "score": 0.5, "t": 0}]).encode(), 400, "is no stream of Arrow"),
        (b"\0" * 100, 400, "is no stream of Arrow"),
        (b"PAR1" + stream_of(PLAIN), 400, "is no stream of Arrow"),
        (compressed, 415, "are compressed"),
    ):
        refused = client.post("/v1/issue/batch", content=body, headers=ARROW)
        assert (refused.status_code, refused.json()["where"]) == (status, "body"), refused.text
        assert error in refused.json()["error"]
    single = client.post("/v1/issue", content=stream_of(PLAIN), headers=ARROW)
    assert (single.status_code, single.json()["allowed"]) == (
        415,
        "send it to the address of lists, such as /v1/issue/batch",
    )
    assert service.join.tally()["issued"] == 0


ZSTD = pa.ipc.IpcWriteOptions(compression="zstd")


def test_a_stream_has_the_limits_of_a_body():
    with client_of(service_of(max_body=1_000)) as client:
        body = stream_of({name: column * 400 for name, column in PLAIN.items()})
        assert client.post("/v1/issue/batch", content=body, headers=ARROW).status_code == 413


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(4))
def test_damaged_streams_are_answered_as_errors_of_the_client(seed):
    """Bytes that are another, and parts that are missing: an answer or a refusal, never a failure."""
    rng = random.Random(seed)
    bodies = [
        stream_of({**PLAIN, "keys": [{"c": "c1"}, {"c": None}]}),
        stream_of({**PLAIN, "id": pa.array(["a", "b"]).dictionary_encode(), "version": ["v", "v"]}),
        stream_of({**PLAIN, "keys": pa.array([[("c", "1")], None], pa.map_(pa.string(), pa.string()))}),
    ]
    statuses = set()
    with client_of(service_of()) as client:
        for _ in range(150):
            body = bytearray(rng.choice(bodies))
            place = rng.randrange(len(body) - 8)
            if rng.random() < 0.7:
                body[place] = rng.randrange(256)
            else:
                del body[place : place + rng.choice((1, 8, 64))]
            statuses.add(client.post("/v1/issue/batch", content=bytes(body), headers=ARROW).status_code)
    assert statuses <= {200, 400, 415, 422}
    assert 400 in statuses
