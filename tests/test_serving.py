"""`streamcal serve`: every address, errors, limits, repeated requests, a full disk, kills, the end."""

import asyncio
import base64
import contextlib
import errno
import gc
import hashlib
import importlib.util
import json
import logging
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")
pytest.importorskip("prometheus_client", reason="the extra serve is not installed")
pytest.importorskip("httpx", reason="starlette's test client needs httpx")

import serving_kills
import uvicorn
from starlette.testclient import TestClient

from streamcal import Auto, Identity, InputError, OnlinePlatt, StateError, VennAbers, Window, load_map, save
from streamcal.app.html_report import live_page
from streamcal.app.html_style import POLICY
from streamcal.live import Journal, LabelJoin, Multicalibrated, Segmented, Shadow
from streamcal.maps.writing import written
from streamcal.serving import running
from streamcal.serving.acknowledging import Acknowledging
from streamcal.serving.app import application
from streamcal.serving.forking import Forked
from streamcal.serving.quality import OTHER, Quality
from streamcal.serving.running import JSONFormatter, Server
from streamcal.serving.service import Page, Service
from streamcal.serving.settings import Settings

HORIZON = 100.0
TOKEN = "a token of some length"


def service_of(path=None, horizon=HORIZON, early=None, page=None, **settings):
    """Make a service under event time, so that the tests set the time."""
    journal = None if path is None else Journal(path)
    join = LabelJoin(OnlinePlatt(), horizon, early=early, journal=journal)
    return Service(join, journal, Settings(**{"event_time": True, **settings}), page)


def client_of(service):
    return TestClient(application(service), raise_server_exceptions=False)


@pytest.fixture
def client(tmp_path):
    with client_of(service_of(tmp_path / "events.journal", page=Page(live_page, POLICY))) as one:
        yield one


def issue(client, id, score=0.25, t=0.0, **more):
    return client.post("/v1/issue", json={"id": id, "score": score, "t": t, **more})


def outcome(client, id, y=True, t=1.0):
    return client.post("/v1/outcome", json={"id": id, "y": y, "t": t})


def metric(client, name):
    lines = [line for line in client.get("/metrics").text.splitlines() if line.startswith(f"{name} ")]
    return float(lines[0].split()[1]) if lines else None


# -- what is answered ------------------------------------------------------------------------------------------------


def test_the_forecasts_are_those_of_a_label_join(client):
    twin = LabelJoin(OnlinePlatt(), HORIZON)
    for k in range(0, 300, 3):
        p = twin.issue(f"i{k}", 0.25, float(k)).p
        assert issue(client, f"i{k}", t=float(k)).json() == {"id": f"i{k}", "p": p, "version": None}
        if k % 30 == 0:
            twin.resolve(f"i{k}", True, k + 0.5)
            assert outcome(client, f"i{k}", t=k + 0.5).json() == {"id": f"i{k}", "known": True, "contradicts": False}
    assert p < 0.25  # the twin has learned


def test_batches_do_what_single_requests_do():
    one, many = service_of(), service_of()
    with client_of(one) as single, client_of(many) as batch:
        items = [
            {"id": k, "score": 0.3, "t": 0.5 * k, "keys": {"c": "a"}, "version": "v1", "w": 2.0} for k in range(60)
        ]
        told = [{"id": k, "y": k % 3 == 0, "t": 30.0} for k in range(60)]
        for item in items:
            single.post("/v1/issue", json=item)
        for item in told:
            single.post("/v1/outcome", json=item)
        issued = batch.post("/v1/issue/batch", json=items).json()
        known = batch.post("/v1/outcome/batch", json=told).json()
    assert issued["errors"] == known["errors"] == []
    assert [one["id"] for one in issued["results"]] == list(range(60))
    assert known["results"][7] == {"id": 7, "known": True, "contradicts": False}
    assert one.join.state_dict() == many.join.state_dict()


def test_what_cannot_be_used_in_a_batch_is_named_and_the_rest_is_taken(client):
    items = [{"id": "a", "score": 0.5, "t": 0}, {"id": "b", "score": 2, "t": 0}, 7, {"id": "c", "score": 0.5, "t": 0}]
    answered = client.post("/v1/issue/batch", json=items).json()
    assert [result and result["id"] for result in answered["results"]] == ["a", None, None, "c"]
    assert [(error["index"], error["status"], error["where"]) for error in answered["errors"]] == [
        (1, 422, "[1].score"),
        (2, 422, "[2]"),
    ]
    assert metric(client, "streamcal_held") == 2


def test_refused_requests_and_items_are_logged_with_id_and_reason_and_counted(client, caplog):
    issue(client, "a")
    with caplog.at_level(logging.WARNING, logger="streamcal.serving.app"):
        assert issue(client, "a", score=0.5).status_code == 409
        assert issue(client, "b", score=2).status_code == 422
        items = [{"id": f"c{k}", "score": 2, "t": 0} for k in range(12)] + [{"id": "a", "score": 0.5, "t": 0}, 7]
        client.post("/v1/issue/batch", json=items)
    own = [record for record in caplog.records if record.name == "streamcal.serving.app"]
    told = [json.loads(JSONFormatter().format(record)) for record in own]
    single = [(one["status"], one["id"], one["where"]) for one in told if one["event"] == "request"]
    assert single == [(409, "a", "id"), (422, "b", "score")]
    assert all(one["reason"] for one in told if one["event"] != "items refused")
    assert [one["id"] for one in told if one["event"] == "item refused"] == [f"c{k}" for k in range(10)]
    assert [one["refused"] for one in told if one["event"] == "items refused"] == [14]
    page = client.get("/metrics").text
    assert 'streamcal_refused_items_total{kind="issue",status="422"} 13.0' in page
    assert 'streamcal_refused_items_total{kind="issue",status="409"} 1.0' in page


def test_an_outcome_that_contradicts_an_earlier_one_is_told(client):
    """The positive one counts, in whatever order they come; before the impression too."""
    issue(client, "a")
    for id in ("a", "unknown"):
        told = [outcome(client, id, y=y).json()["contradicts"] for y in (True, True, False, True, 1, 0)]
        assert told == [False, False, True, True, True, True]
    both = [{"id": "b", "y": y, "t": 1.0} for y in (False, True)]
    results = client.post("/v1/outcome/batch", json=both).json()["results"]
    assert [one["contradicts"] for one in results] == [False, True]


def test_the_page_of_documentation_names_every_address_and_loads_nothing(client):
    answered = client.get("/docs")
    text = answered.text
    assert answered.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answered.headers["content-security-policy"]
    assert all(f" {path}</code>" in text for path in client.get("/openapi.json").json()["paths"])
    assert "at least 0, at most 1" in text
    assert "at least -9223372036854775808, at most 18446744073709551615" in text
    assert "src=" not in text
    with client_of(service_of(token=TOKEN)) as guarded:
        assert guarded.get("/docs").status_code == 401
        text = guarded.get("/docs", headers={"Authorization": f"Bearer {TOKEN}"}).text
        assert "$STREAMCAL_TOKEN" in text
        assert TOKEN not in text


def test_segments_know_the_levels_of_a_journal_that_was_taken_over(tmp_path):
    path = tmp_path / "events.journal"

    def begun():
        journal = Journal(path)
        join = LabelJoin(Segmented("ops", by=["campaign"]), HORIZON, journal=journal)
        return Service(join, journal, Settings(event_time=True))

    with client_of(begun()) as client:
        issue(client, 1, keys={"campaign": "learned", "device": "d"})
        issue(client, 2, t=3 * HORIZON, keys={"campaign": "held", "device": "e"})
    with client_of(begun()) as client:
        levels = client.get("/v1/segments/campaign").json()["levels"]
        assert [(one["level"], one["labels"], one["effect"]["n"]) for one in levels] == [
            ("held", None, 0.0),
            ("learned", None, 1.0),
        ]
        assert [one["level"] for one in client.get("/v1/segments/device").json()["levels"]] == ["e"]
        unknown = client.get("/v1/segments/campain")
        assert unknown.status_code == 404
        assert unknown.json()["error"] == "no label of the field 'campain' is known"
        assert unknown.json()["allowed"] == "known fields are campaign, device"


def test_a_request_may_be_sent_again(client):
    first = issue(client, "a").json()
    assert issue(client, "a", t=50.0).json() == first
    refused = issue(client, "a", score=0.5)
    assert refused.status_code == 409
    assert refused.json()["where"] == "id"
    for _ in range(2):
        assert outcome(client, "a").json()["known"]
    issue(client, "late", t=101.0)
    page = client.get("/metrics").text
    assert 'streamcal_events_total{kind="positives"} 1.0' in page
    assert 'streamcal_events_total{kind="repeated"} 2.0' in page, "an impression and an outcome"


def test_an_outcome_may_have_a_weight():
    service = Service(LabelJoin(OnlinePlatt(), HORIZON), None, Settings(event_time=True))
    with client_of(service) as client:
        issue(client, "a")
        assert client.post("/v1/outcome", json={"id": "a", "y": 0, "t": 1.0, "w": 50.0}).json()["known"]
        refused = client.post("/v1/outcome", json={"id": "a", "y": 0, "t": 1.0, "w": -1.0})
        assert (refused.status_code, refused.json()["where"]) == (422, "w")
        issue(client, "b", t=2 * HORIZON)
        assert service.join.calibrator.n == 50.0


def test_the_outcome_of_an_id_that_is_not_known_is_kept(client):
    assert outcome(client, "a", t=0.0).json() == {"id": "a", "known": False, "contradicts": False}
    issue(client, "a", t=1.0)
    assert 'kind="matched"} 1.0' in client.get("/metrics").text


def test_the_clock_of_the_server_is_used_where_no_time_is_given():
    service = service_of(event_time=False)
    with client_of(service) as client:
        before = time.time()
        assert client.post("/v1/issue", json={"id": "a", "score": 0.5}).status_code == 200
        assert before <= service.join.predictions["a"].t <= time.time()
        assert issue(client, "b", t=time.time() - 5.0).status_code == 200
        ahead = issue(client, "c", t=time.time() + 1000.0)
        assert (ahead.status_code, ahead.json()["where"]) == (409, "t")
        for t in (time.time() / 60.0, time.time() / 86_400.0 + 25_569.0):  # in minutes, or in days of a spreadsheet
            behind = issue(client, "d", t=t)
            assert (behind.status_code, behind.json()["where"]) == (409, "t")
            assert "s behind the server" in behind.json()["error"]
        assert outcome(client, "a", t=5.0).status_code == 409


def test_keys_under_another_name_and_an_address_with_a_slash():
    service = Service(LabelJoin(Segmented(OnlinePlatt(), by=["campaign"]), HORIZON), None, Settings(event_time=True))
    with client_of(service) as client:
        refused = issue(client, "a", keys={"campain": "c17"})
        assert (refused.status_code, refused.json()["where"]) == (422, "keys")
        assert "give 'campaign'" in refused.json()["allowed"]
        assert client.post("/v1/issue/", json={"id": "a", "score": 0.5}, follow_redirects=False).status_code == 404


def test_a_clock_that_is_behind_the_events_is_told(caplog):
    service = service_of(event_time=False)
    with client_of(service) as client, caplog.at_level("WARNING"):
        issue(client, "a", t=time.time() - 1.0)
        service._warn_of_clock()
        assert not caplog.messages
        service.join.advance(time.time() + 5e3)
        for _ in range(3):
            service._warn_of_clock()
        (told,) = [one for one in caplog.messages if "behind that of the events" in one]
        assert "restart with --migrate" in told
        assert metric(client, "streamcal_clock_behind_seconds") == pytest.approx(5e3, abs=100.0)


@pytest.mark.filterwarnings("ignore:few clicks are known")
def test_how_late_clicks_are_told_is_in_the_metrics():
    service = Service(LabelJoin(OnlinePlatt(), HORIZON, early=10.0), None, Settings(event_time=True))
    with client_of(service) as client:
        names = ["report_delay_seconds", "clicks_known_late_ratio", "early_share"]
        assert [metric(client, f"streamcal_{name}") for name in names] == [None, None, pytest.approx(0.75)]
        for k in range(12):
            issue(client, f"early {k}", t=0.0)
            outcome(client, f"early {k}", t=0.0)
        issue(client, "old enough", t=HORIZON)
        for k in range(20, 60):
            issue(client, k, t=HORIZON + k)
        for k in range(38, 48):
            outcome(client, k, t=HORIZON + k + 2.0)  # told at 59
        for k in range(50, 60):
            outcome(client, k, t=HORIZON + 59.0)
        issue(client, "next", t=HORIZON + 80.0)
        found = [metric(client, f"streamcal_{name}") for name in names]
    assert found == pytest.approx([14.5 * 10 / 32, 10 / 32, service.join.early_share()[0]])


@pytest.mark.sample(4)
@pytest.mark.parametrize("with_keys", [None, 0, 98, 99])
def test_a_client_that_sends_no_keys_is_told(caplog, with_keys):
    """Impressions without keys are corrected for no segment: of some clients that is meant, and of all a mistake."""
    service = Service(LabelJoin(Segmented(OnlinePlatt(), by=["campaign"]), HORIZON), None, Settings(event_time=True))
    with client_of(service) as client, caplog.at_level("WARNING"):
        for k in range(150):
            keys = {"keys": {"campaign": "c1"}} if k == with_keys else {}
            assert issue(client, f"a{k}", t=float(k), **keys).status_code == 200
    told = [one for one in caplog.messages if "has keys, which the segments need" in one]
    assert len(told) == (with_keys is None)
    assert all("{'campaign': ...}" in one for one in told)


@pytest.mark.parametrize("id", ["7", 7, "a7", "7.0"])
def test_an_answer_has_the_id_that_was_asked_with(client, id):
    assert issue(client, id).json()["id"] == id
    assert outcome(client, id).json() == {"id": id, "known": True, "contradicts": False}
    (answered,) = client.post("/v1/issue/batch", json=[{"id": id, "score": 0.25, "t": 1.0}]).json()["results"]
    assert answered["id"] == id


def test_labels_are_learned_by_the_clock_of_the_server_alone():
    service = service_of(event_time=False, horizon=0.1)
    with client_of(service) as client:
        client.post("/v1/issue", json={"id": "a", "score": 0.5})
        until = time.monotonic() + 20.0
        while service.join.waiting and time.monotonic() < until:
            time.sleep(0.05)
        assert service.join.tally()["timed_out"] == 1


# -- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("item", "where", "allowed"),
    [
        ({"score": 0.5}, "id", "give id, score"),
        ({"id": "a"}, "score", "give id, score"),
        ({"id": None, "score": 0.5}, "id", "printable ASCII"),
        ({"id": "", "score": 0.5}, "id", "printable ASCII"),
        ({"id": "é", "score": 0.5}, "id", "printable ASCII"),
        ({"id": "a\n", "score": 0.5}, "id", "printable ASCII"),
        ({"id": "x" * 257, "score": 0.5}, "id", "1 to 256"),
        ({"id": 2**64, "score": 0.5}, "id", "64 bits"),
        ({"id": True, "score": 0.5}, "id", "64 bits"),
        ({"id": "a", "score": "0.5"}, "score", "give one"),
        ({"id": "a", "score": True}, "score", "give one"),
        ({"id": "a", "score": 1.5, "t": 0}, "score", "choose a scale"),
        ({"id": "a", "score": 10**400}, "score", "a float can hold"),
        ({"id": "a", "score": 0.5, "w": -1}, "w", "give 0"),
        ({"id": "a", "score": 0.5, "t": "noon"}, "t", "give one"),
        ({"id": "a", "score": 0.5}, "t", "give the time"),
        ({"id": "a", "score": 0.5, "keys": ["c"]}, "keys", "such as"),
        ({"id": "a", "score": 0.5, "keys": {"c": 1.5}}, "keys", "whole number"),
        ({"id": "a", "score": 0.5, "keys": {"c": "x" * 300}}, "keys", "256"),
        ({"id": "a", "score": 0.5, "keys": {str(k): k for k in range(17)}}, "keys", "at most 16"),
        ({"id": "a", "score": 0.5, "version": 1.5}, "version", "printable"),
        ({"id": "a", "scoer": 0.5}, "scoer", "did you mean 'score'?"),
        ({"id": "a", "score": 0.5, "t": 0, "kyes": None}, "kyes", "did you mean 'keys'?"),
        ([], "", "give one with id, score"),
    ],
)
def test_errors_say_where_and_what_is_allowed(client, item, where, allowed):
    refused = client.post("/v1/issue", json=item)
    assert refused.status_code == 422
    assert set(refused.json()) == {"error", "where", "allowed"}
    assert refused.json()["where"] == where
    assert allowed in refused.json()["allowed"]
    assert metric(client, "streamcal_held") == 0


def test_whole_numbers_may_have_a_point(client):
    assert issue(client, 5.0, keys={"c": 7.0}, version=2.0).json() == {"id": 5, "p": 0.25, "version": 2}
    assert outcome(client, 5).json()["known"]
    assert issue(client, 5.5).status_code == 422


def test_a_level_that_is_not_known_is_null(client):
    for id, keys in (("a", {"c": None, "d": 1}), ("b", {"c": None}), ("c", {"d": 1})):
        assert issue(client, id, keys=keys).json() == {"id": id, "p": 0.25, "version": None}


@pytest.mark.sample(4)
@pytest.mark.parametrize("y", ["1", "yes", "", None, 2, -1, 0.5, [1], {"y": 1}])
def test_labels_are_binary(client, y):
    """The check is that of the library; nothing else is taken as a negative."""
    issue(client, "a")
    refused = outcome(client, "a", y=y)
    assert (refused.status_code, refused.json()["where"]) == (422, "y")
    assert refused.json()["error"] == f"label {y!r} is not binary"
    assert "give True or False, or 1 or 0" in refused.json()["allowed"]
    items = client.post("/v1/outcome/batch", json=[{"id": "a", "y": y, "t": 1.0}]).json()
    assert items["results"] == [None]
    body = b'{"id": "a", "y": NaN, "t": 1.0}'
    headers = {"Content-Type": "application/json"}
    assert client.post("/v1/outcome", content=body, headers=headers).status_code == 400
    assert outcome(client, "a", y=1).json()["contradicts"] is False  # the state is as it was


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "body",
    [
        b'{"id": "a", "score": 0.1, "score": 0.9}',
        b'{"id": "a", "score": 0.1, "keys": {"c": "x", "c": "y"}}',
        b"",
        b"{",
        b"\xff",
        b'{"id": "a", "score": NaN}',
        b"[" * 100_000,
        b'{"id": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_no_json_is_refused(client, body):
    refused = client.post("/v1/issue", content=body, headers={"Content-Type": "application/json"})
    assert (refused.status_code, refused.json()["where"]) == (400, "body")
    assert refused.json()["allowed"] == "give JSON in UTF-8"  # and nothing that is for programs in Python


def test_halves_of_characters_are_refused(client):
    body = b'{"id": "a", "score": 0.5, "t": 0, "keys": {"c": "\\ud800"}}'
    refused = client.post("/v1/issue", content=body, headers={"Content-Type": "application/json"})
    assert (refused.status_code, refused.json()["where"]) == (422, "keys")


def test_a_time_far_from_the_clock_is_in_conflict_with_it(client):
    issue(client, "a", t=0.0)
    far = issue(client, "b", t=1e9)
    assert (far.status_code, far.json()["where"]) == (409, "t")


def test_other_addresses_and_methods(client):
    assert client.get("/nothing").status_code == 404
    assert client.get("/v1/issue").status_code == 405
    assert set(client.get("/nothing").json()) == {"error", "where", "allowed"}


# -- limits and the token --------------------------------------------------------------------------------------------


def test_limits():
    with client_of(service_of(max_body=1000, max_batch=3, max_header=2000)) as client:
        assert client.post("/v1/issue", json={"id": "x" * 2000}).status_code == 413
        parts = (b" " * 600 for _ in range(2))  # without a length
        kind = {"Content-Type": "application/json"}
        assert client.post("/v1/issue", content=parts, headers=kind).status_code == 413
        assert client.post("/v1/issue/batch", json=[0] * 4).status_code == 422
        assert client.post("/v1/issue/batch", json={}).status_code == 422
        assert client.get("/healthz", headers={"X-Long": "x" * 2000}).status_code == 431
        assert client.post("/v1/issue", content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
        packed = client.post("/v1/issue", content=b"{}", headers={**kind, "Content-Encoding": "gzip"})
        assert (packed.status_code, packed.json()["where"]) == (415, "content-encoding")


def status_of(service, receive):
    """Return the status of the answer to an impression whose body of 10 bytes `receive` gives."""

    async def ask():
        sent = []

        async def send(message):
            sent.append(message)

        headers = [(b"content-type", b"application/json"), (b"content-length", b"10")]
        scope = {"type": "http", "method": "POST", "path": "/v1/issue", "raw_path": b"/v1/issue", "headers": headers}
        await application(service)({**scope, "query_string": b"", "http_version": "1.1"}, receive, send)
        return sent[0]["status"]

    return asyncio.run(ask())


def test_a_body_that_does_not_come_is_not_waited_for():
    async def receive():
        await asyncio.sleep(3600)

    assert status_of(service_of(body_timeout=0.01), receive) == 408


def test_a_client_that_leaves_half_way_is_no_error_of_the_server(caplog):
    parts = [{"type": "http.request", "body": b'{"id":', "more_body": True}, {"type": "http.disconnect"}]

    async def receive():
        return parts.pop(0)

    assert status_of(service_of(), receive) == 400
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_the_token_is_asked_for_except_by_probes():
    with client_of(service_of(token=TOKEN, page=Page(live_page, POLICY))) as client:
        for path in ("/healthz", "/readyz"):
            assert client.get(path).status_code == 200
        for path in ("/", "/metrics", "/openapi.json", "/v1/map", "/nothing"):
            refused = client.get(path)
            assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert issue(client, "a").status_code == 401
        wrong = {"Authorization": f"Bearer {TOKEN}x"}
        assert client.get("/metrics", headers=wrong).status_code == 401
        for other in (f"Basic {TOKEN}", TOKEN, f"Bearer{TOKEN}", "Bearer", ""):
            assert client.get("/metrics", headers={"Authorization": other}).status_code == 401
        assert client.get("/metrics", headers={"Authorization": f"bearer  {TOKEN}"}).status_code == 200
        right = {"Authorization": f"Bearer {TOKEN}"}
        assert client.get("/metrics", headers=right).status_code == 200
        assert client.get("/openapi.json", headers=right).json()["security"] == [{"token": []}]


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_tokens_are_changed_while_the_service_runs(tmp_path, caplog):
    """Old and new ones are valid together; a file that cannot be used changes nothing."""
    file, tokens = tmp_path / "tokens", [f"token number {k} of a client" for k in range(4)]
    file.write_text(f"# of bidders\n{tokens[0]}\n\n  # of other bidders\n  {tokens[1]}\n")
    service = service_of(token=f"{tokens[2]}, {TOKEN}", token_file=str(file))
    with client_of(service) as client:

        def valid(*asked):
            return [client.get("/metrics", headers=bearer(one)).status_code == 200 for one in asked]

        assert valid(*tokens, TOKEN, "", f"{tokens[2]}, {TOKEN}") == [True, True, True, False, True, False, False]
        assert valid("# of other bidders") == [False]
        file.write_text(f"{tokens[3]}\n")
        service.tokens.refresh()
        assert valid(*tokens, TOKEN) == [False, False, True, True, True]
        for content in ("short\n", "", "ä" * 20):
            file.write_text(content)
            with caplog.at_level(logging.ERROR):
                service.tokens.refresh()
            assert "stay valid" in caplog.text
            caplog.clear()
        file.unlink()
        service.tokens.refresh()
        service.tokens.refresh()
        assert len(caplog.records) == 1
        assert valid(tokens[3], TOKEN) == [True, True]
        assert not any(one in caplog.text for one in tokens)
    with pytest.raises(InputError, match="cannot be read"):
        Settings(token_file=str(file))


def test_a_backup_is_made_while_events_come_and_can_be_opened(tmp_path):
    path, copy = tmp_path / "events.journal", tmp_path / "copy.journal"
    copy.write_bytes(b"an earlier one")
    service = service_of(path, backup=str(copy))
    with client_of(service) as client:
        for k in range(50):
            issue(client, k, t=float(k))
        told = client.post("/v1/backup").json()
        assert told["path"] == str(copy)
        assert (told["events"], told["bytes"]) == (50, copy.stat().st_size)
        issue(client, "later", t=60.0)
        assert sorted(one.name for one in tmp_path.iterdir() if "copy" in one.name) == ["copy.journal"]
        with Journal(copy) as journal:
            assert LabelJoin(OnlinePlatt(), HORIZON, journal=journal).tally()["issued"] == 50
    with client_of(service_of(tmp_path / "other.journal")) as client:
        assert client.post("/v1/backup").status_code == 404
    service = service_of(tmp_path / "third.journal", backup=str(tmp_path / "nowhere" / "copy"))
    with client_of(service) as client:
        refused = client.post("/v1/backup")
        assert (refused.status_code, "cannot be written" in refused.json()["error"]) == (503, True)
        assert issue(client, "a").status_code == 200


def test_the_alerts_and_the_board_of_the_examples_read_what_is_there(client):
    """Each name in them is one of /metrics, and each kind of event is counted."""
    issue(client, "a", keys={"campaign": "c"})
    outcome(client, "a")
    client.post("/v1/issue/batch", json=[7])
    issue(client, "no click")
    issue(client, "b", t=2 * HORIZON)
    page = client.get("/metrics").text
    folder = Path(__file__).parents[1] / "examples" / "serving"
    board = json.loads((folder / "grafana.json").read_text("utf-8"))
    places = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in board["panels"]]
    assert len(set(places)) == len(places) >= 10
    queries = [target["expr"] for one in board["panels"] for target in one["targets"]]
    alerts = (folder / "alerts.yml").read_text("utf-8")
    for text in (alerts, "\n".join(queries)):
        names = set(re.findall(r"streamcal_[a-z_]+", text))
        assert len(names) >= 10
        missing = [name for name in names if not re.search(rf"^{name}[ {{]", page, re.MULTILINE)]
        assert missing == []
        kinds = set(re.findall(r'kind="([a-z]+)"', text))
        assert kinds <= service_of().join.tally().keys()


def test_settings_are_checked():
    with pytest.raises(InputError, match="16 printable"):
        Settings(token="short")
    with pytest.raises(InputError, match="max_batch=0"):
        Settings(max_batch=0)
    for name, wrong in (("max_batch", 10.5), ("max_body", True), ("body_timeout", math.nan), ("run_length", "1e6")):
        with pytest.raises(InputError, match=f"{name}={wrong!r} is not possible; give a number such as"):
            Settings(**{name: wrong})


def test_settings_of_numpy_are_those_of_python():
    plain = Settings(max_batch=10, metric_segments=0, body_timeout=0.5, run_length=1e5)
    whole = {"max_batch": np.int64(10), "metric_segments": np.uint8(0)}
    found = Settings(**whole, body_timeout=np.float32(0.5), run_length=np.float64(1e5))
    assert repr(found) == repr(plain)
    assert (type(found.max_batch), type(found.body_timeout)) == (int, float)


# -- pages -----------------------------------------------------------------------------------------------------------


def test_the_map_is_that_of_the_calibrator(tmp_path):
    service = service_of(tmp_path / "events.journal", map_every=0.001)  # so that it is made anew
    with client_of(service) as client:
        before = client.get("/v1/map").json()
        assert (before["learned"], before["version"], before["exact"]) == (0, None, True)
        client.post("/v1/issue/batch", json=[{"id": k, "score": 0.25, "t": k} for k in range(200)])
        shown = client.get("/v1/map").json()
        assert shown["learned"] == service.join.tally()["learned"] == 100
        told = service.join.calibrator.predict_one(0.25)
        assert load_map(json.dumps(shown["map"]))(0.25) == pytest.approx(told, rel=1e-12)  # rounding of the logarithm
        client.post("/v1/issue", json={"id": "new", "score": 0.25, "t": 200.0, "version": "v2"})
        client.get("/v1/map")
        client.post("/v1/issue", json={"id": "newer", "score": 0.25, "t": 200.0, "version": "v3"})  # and no label
        shown = client.get("/v1/map").json()
        assert (shown["learned"], shown["version"], shown["exact"]) == (101, "v3", False)


def test_the_map_has_a_label_that_was_corrected(tmp_path):
    service = Service(LabelJoin("platt", HORIZON), None, Settings(event_time=True, map_every=0.001))
    with client_of(service) as client:
        client.post("/v1/issue/batch", json=[{"id": k, "score": 0.25, "t": 0.0} for k in range(20)])
        issue(client, "later", t=HORIZON)
        before = client.get("/v1/map").json()
        outcome(client, 1, t=HORIZON + 1.0)
        after = client.get("/v1/map").json()
    assert service.join.tally()["corrected"] == 1
    assert before["learned"] == after["learned"] == 20
    assert load_map(json.dumps(after["map"]))(0.25) == pytest.approx(service.join.predict_one(0.25), rel=1e-12)


@pytest.mark.parametrize("format", ["c", "json", "sql", "js", "onnx"])
def test_the_map_is_given_in_every_format(format):
    service = service_of(map_every=0.001)
    with client_of(service) as client:
        client.post("/v1/issue/batch", json=[{"id": k, "score": 0.25, "t": k} for k in range(200)])
        answer = client.get("/v1/map", params={"format": format})
        if format == "onnx" and importlib.util.find_spec("onnx") is None:
            assert (answer.status_code, ".[onnx]" in answer.text) == (422, True)
            return
        assert answer.headers["Streamcal-Exact"] == "true"
        assert answer.content == written(service.overall.map(), format)
        refused = client.get("/v1/map", params={"format": "pmml"})
        assert (refused.status_code, "give one of onnx, c, json" in refused.text) == (422, True)


def test_the_map_is_made_seldom_and_says_when_it_is_not_what_is_served():
    service = service_of(map_every=1e6)
    with client_of(service) as client:
        first = client.get("/v1/map").json()
        for k in range(200):
            issue(client, k, t=float(k))
        issue(client, "new", t=200.0, version="v1")
        issue(client, "newer", t=200.0, version="v2")
        assert client.get("/v1/map").json() == first
        assert not service.served_by_map
        assert service.join.versions[-1][0] == "v2"


@pytest.mark.parametrize(
    ("method", "exact"),
    [(OnlinePlatt(), True), (Auto(), False), (VennAbers(forgetting=Window(50.0, by="time")), False)],
)
def test_the_map_is_not_all_where_forecasts_depend_on_the_time(method, exact):
    service = Service(LabelJoin(method, HORIZON), None, Settings(event_time=True))
    with client_of(service) as client:
        assert client.get("/v1/map").json()["exact"] == exact


def test_measures_and_segments():
    service = service_of(metric_segments=2)
    with client_of(service) as client:
        items = [{"id": k, "score": 0.25, "t": 0.0, "keys": {"c": f"c{k % 3}"}} for k in range(90)]
        client.post("/v1/issue/batch", json=items)
        client.post("/v1/outcome/batch", json=[{"id": k, "y": True, "t": 1.0} for k in range(0, 90, 3)])
        assert client.get("/v1/segments/c").status_code == 404
        issue(client, "later", t=100.0)
        assert metric(client, "streamcal_labels_total") == 90
        outcome(client, 0, t=1.0)  # sent again
        assert metric(client, "streamcal_label_delay_seconds_count") == 30
        assert 'streamcal_label_delay_seconds_bucket{le="1.0"} 30.0' in client.get("/metrics").text
        assert metric(client, "streamcal_calibration_ratio") == pytest.approx(0.75)  # 90 times ¼ for 30 clicks
        page = client.get("/metrics").text
        assert 'streamcal_segment_positives_total{field="c",level="c0"} 30.0' in page
        assert f'streamcal_segment_labels_total{{field="c",level="{OTHER}"}} 30.0' in page
        levels = {one["level"]: one for one in client.get("/v1/segments/c").json()["levels"]}
        assert (levels["c0"]["labels"], levels["c0"]["positives"]) == (30, 30)
        assert levels["c0"]["e_value"] > 1.0 > levels["c1"]["e_value"] or levels["c2"]["labels"] is None


def test_measures_of_segments_are_bounded_whatever_the_fields_are():
    join, quality = LabelJoin(OnlinePlatt(), HORIZON), Quality(1e6, 3, OnlinePlatt())
    for k in range(1000):
        quality.take(join.issue(k, 0.25, 0.0, keys={"c": k % 4, f"field {k}": 1}), False)
    quality.settle()
    assert len(quality.segments) < 100
    assert sum(one.labels for one in quality.segments.values()) == 2000


def test_segments_show_the_effects_of_a_segmented_calibrator(tmp_path):
    path = tmp_path / "events.journal"
    with Journal(path) as journal:
        join = LabelJoin(Segmented(OnlinePlatt(), by=["c"]), HORIZON, journal=journal)
        service = Service(join, journal, Settings(event_time=True))
        with client_of(service) as client:
            items = [{"id": k, "score": 0.25, "t": 0.0, "keys": {"c": f"c{k % 2}", "d": 1}} for k in range(200)]
            client.post("/v1/issue/batch", json=items)
            client.post("/v1/outcome/batch", json=[{"id": k, "y": True, "t": 1.0} for k in range(0, 200, 2)])
            issue(client, "later", t=100.0, keys={"c": "c0"})
            effects = {one["level"]: one["effect"] for one in client.get("/v1/segments/c").json()["levels"]}
            assert effects["c0"]["mean"] > 0.0 > effects["c1"]["mean"]
            assert effects["c0"]["n"] == 100
            assert "effect" not in client.get("/v1/segments/d").json()["levels"][0]
            assert client.get("/v1/map").json()["exact"] is False


def test_segments_show_the_groups_of_a_multicalibrated_calibrator(tmp_path):
    with Journal(tmp_path / "events.journal") as journal:
        join = LabelJoin(Multicalibrated(Segmented(OnlinePlatt(), by=["d"]), by=["c"]), HORIZON, journal=journal)
        service = Service(join, journal, Settings(event_time=True))
        with client_of(service) as client:
            items = [{"id": k, "score": 0.25, "t": 0.0, "keys": {"c": f"c{k % 2}", "d": 1}} for k in range(200)]
            client.post("/v1/issue/batch", json=items)
            client.post("/v1/outcome/batch", json=[{"id": k, "y": True, "t": 1.0} for k in range(0, 200, 2)])
            issue(client, "later", t=100.0, keys={"c": "c0", "d": 1})
            groups = {one["level"]: one["group"] for one in client.get("/v1/segments/c").json()["levels"]}
            assert groups["c0"]["gap"] > 0.0 > groups["c1"]["gap"]
            group = join.calibrator.gap("c", "c0")
            assert (groups["c0"]["bound"], groups["c0"]["pending"]) == (group.bound, group.pending)
            (level,) = client.get("/v1/segments/d").json()["levels"]
            assert "group" not in level
            assert level["effect"]["n"] == 200
            page = client.get("/metrics").text
            certificate = join.calibrator.certificate()
            assert f"streamcal_multicalibrated_certified_regret {certificate.regret}" in page
            assert f"streamcal_multicalibrated_evidence {certificate.evidence}" in page
            assert client.get("/v1/map").json()["exact"] is False


def test_a_field_may_have_a_slash():
    with client_of(service_of()) as client:
        issue(client, "a", keys={"site/app": "x"})
        issue(client, "later", t=HORIZON)
        levels = client.get("/v1/segments/site%2Fapp").json()["levels"]
        assert [(one["level"], one["labels"]) for one in levels] == [("x", 1)]


def test_segments_of_a_pair_and_the_worst_first():
    by = ["c", ("c", "d")]
    join = LabelJoin(Multicalibrated(Segmented(OnlinePlatt(), by=by), by=by, bins=0), HORIZON)
    with client_of(Service(join, None, Settings(event_time=True))) as client:
        items = [{"id": k, "score": 0.25, "t": 0.0, "keys": {"c": f"c{k % 3}", "d": 1}} for k in range(300)]
        client.post("/v1/issue/batch", json=items)
        client.post("/v1/outcome/batch", json=[{"id": k, "y": True, "t": 1.0} for k in range(2, 300, 3)])
        issue(client, "later", t=100.0)
        levels = client.get("/v1/segments/c").json()["levels"]
        evidence = [one["group"]["evidence"] for one in levels]
        assert evidence == sorted(evidence, reverse=True)
        pairs = client.get("/v1/segments/c,d").json()["levels"]
        assert {tuple(one["level"]) for one in pairs} == {(one["level"], 1) for one in levels}
        assert pairs[0]["group"]["evidence"] > 0.0
        assert pairs[0]["effect"]["n"] == 100
        assert client.get("/v1/segments/d,c").status_code == 404


def test_the_report_is_that_of_the_labels_so_far(tmp_path):
    with client_of(service_of(page=Page(live_page, POLICY), report_every=0.001)) as client:
        empty = client.get("/")
        assert "No label is certain yet" in empty.text
        assert (empty.status_code, empty.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert empty.headers["Content-Security-Policy"] == POLICY
        client.post("/v1/issue/batch", json=[{"id": k, "score": 0.001 * k, "t": 0.0} for k in range(1000)])
        client.post("/v1/outcome/batch", json=[{"id": k, "y": True, "t": 1.0} for k in range(0, 1000, 10)])
        issue(client, "later", t=100.0)
        text = client.get("/").text
        assert "1,000 rows, 100 positive" in text
        assert "Calibration maps" in text
        assert repr(OnlinePlatt()) in text
        for kind in ("style", "script"):  # those that the policy allows
            content = re.search(rf"<{kind}>(.*?)</{kind}>", text, re.DOTALL)[1].encode()
            assert base64.b64encode(hashlib.sha256(content).digest()).decode() in POLICY


def test_the_report_is_made_once_for_all_that_ask():
    service = service_of(page=Page(lambda comparison: f"at {time.monotonic_ns()}", POLICY))
    with client_of(service) as client:
        first = client.get("/").text
        client.post("/v1/issue/batch", json=[{"id": k, "score": 0.5, "t": 0.0} for k in range(100)])
        issue(client, "later", t=100.0)
        assert client.get("/").text == first


def test_a_report_that_cannot_be_made_is_said():
    with client_of(service_of(page=Page(lambda comparison: 1 / 0, POLICY))) as client:
        refused = client.get("/")
        assert (refused.status_code, refused.json()["where"], refused.headers["Retry-After"]) == (503, "report", "1")
        assert issue(client, "a").status_code == 200


def test_a_stop_writes_no_snapshot_where_the_last_one_and_few_events_do(tmp_path):
    path = tmp_path / "events.journal"
    with client_of(service_of(path)) as client:
        for k in range(100):
            issue(client, k, t=0.01 * k)
    for new, snapshots, replayed in ((0, 0, 0), (5, 0, 0), (5, 0, 5), (5, 1, 10), (0, 0, 0)):
        service = service_of(path)
        assert service.join.replayed == replayed
        with client_of(service) as client:
            for _ in range(new):
                outcome(client, 1)
        assert service.acknowledging.snapshots == snapshots
        assert service.stopped
    service = service_of(path)
    with client_of(service) as client:
        issue(client, "late", t=1.5 * HORIZON)  # a hundred labels are learned
    assert service.acknowledging.snapshots == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_stop_with_events_to_write_begins_one_snapshot_alone(tmp_path):
    service = service_of(tmp_path / "events.journal", snapshot_every=1)

    async def lived():
        await service.start()
        service.issue({"id": "a", "score": 0.5, "t": 0.0})
        await service.stop()

    asyncio.run(lived())
    assert (service.stopped, service.acknowledging.snapshots) == (True, 1)


def test_an_idle_service_writes_no_events(tmp_path, monkeypatch):
    """The time is told to the join when a label is due, after events, and before an impression with an old time."""
    service = service_of(tmp_path / "events.journal", event_time=False)
    times = [1000.0]
    monkeypatch.setattr("streamcal.serving.service.time.time", lambda: times[-1])
    journal, join = service.acknowledging._journal, service.join
    service._advance()
    assert journal.n == 0
    service.issue({"id": 1, "score": 0.5})
    for now in (1001.0, 1002.0, 1003.0):
        times.append(now)
        service._advance()
    assert (journal.n, join.clock) == (2, 1001.0)
    service.issue({"id": 2, "score": 0.5, "t": 1000.5})
    assert (journal.n, join.predictions[2].at) == (4, 1003.0)
    times.append(1000.0 + HORIZON)
    service._advance()
    assert (journal.n, join.tally()["learned"]) == (5, 1)
    journal.close()


def test_a_stop_that_cannot_write_says_so(tmp_path, monkeypatch):
    service = service_of(tmp_path / "events.journal")

    def full(journal):
        raise StateError("the journal cannot be written: database or disk is full")

    async def lived():
        await service.start()
        service.issue({"id": "a", "score": 0.5, "t": 0.0})
        monkeypatch.setattr(Journal, "acknowledge", full)
        await service.stop()

    with pytest.raises(StateError, match="disk is full"):
        asyncio.run(lived())
    assert not service.stopped


def test_an_alarm_is_logged_and_counted(caplog):
    service = service_of(run_length=100.0)
    with caplog.at_level(logging.WARNING), client_of(service) as client:
        client.post("/v1/issue/batch", json=[{"id": k, "score": 0.1, "t": 0.0} for k in range(300)])
        client.post("/v1/outcome/batch", json=[{"id": k, "y": True, "t": 1.0} for k in range(0, 300, 2)])
        issue(client, "later", t=100.0)
        assert metric(client, "streamcal_alarms_total") >= 1
    record = next(one for one in caplog.records if "calibration alarm" in one.message)
    told = json.loads(JSONFormatter().format(record))
    assert (told["event"], told["moved"], told["direction"], told["level"]) == ("alarm", "level", "higher", "warning")


def test_with_an_early_window_forecasts_are_judged_when_the_horizon_has_passed():
    service = service_of(early=20.0)
    with client_of(service) as client:
        client.post("/v1/issue/batch", json=[{"id": k, "score": 0.25, "t": 0.0} for k in range(40)])
        client.post("/v1/outcome/batch", json=[{"id": k, "y": True, "t": 50.0} for k in range(10)])
        client.post("/v1/issue/batch", json=[{"id": f"e{k}", "score": 0.25, "t": 0.0} for k in range(12)])
        client.post("/v1/outcome/batch", json=[{"id": f"e{k}", "y": k % 4 == 0, "t": 5.0} for k in range(12)])
        issue(client, "later", t=60.0)
        assert metric(client, "streamcal_labels_total") == 0
        issue(client, "last", t=100.0)
        assert metric(client, "streamcal_labels_total") == 52
        assert service.quality.ratio.get() == pytest.approx(1.0, rel=0.2)  # of 10 clicks; the forecasts are about ¼


def test_a_jump_of_the_clock_judges_every_forecast_once():
    judged = []
    join = LabelJoin(OnlinePlatt(), HORIZON, early=20.0, late=0.0)
    join.watch(lambda one, y: judged.append((one.id, y)))
    for k in range(50):
        join.issue(k, 0.25, 10.0 * k)
        join.resolve(k, k % 2 == 0, 10.0 * k + 5.0)
    join.advance(9_000.0)
    assert judged == [(k, k % 2 == 0) for k in range(50)]


def test_what_a_resumed_join_holds_is_judged_too(tmp_path):
    path, judged = tmp_path / "events.journal", []
    for seen in range(2):
        with Journal(path) as journal:
            join = LabelJoin(OnlinePlatt(), HORIZON, early=20.0, journal=journal)
            join.watch(lambda one, y: judged.append(one.id))
            if not seen:
                for k in range(5):
                    join.issue(k, 0.25, 10.0 * k)  # some are learned, and none is judged
            else:
                join.advance(1_000.0)
    assert judged == list(range(5))


def test_quality_does_not_depend_on_when_it_is_read():
    join = LabelJoin(OnlinePlatt(), HORIZON)
    often, seldom = Quality(1e6, 10, OnlinePlatt()), Quality(1e6, 10, OnlinePlatt())
    for k in range(700):
        one = join.issue(k, 0.1 + 0.001 * k, 0.0, keys={"c": k % 4} if k % 2 else None)
        often.take(one, k % 7 == 0)
        seldom.take(one, k % 7 == 0)
        often.settle()
    seldom.settle()
    assert often.segments == seldom.segments
    assert often.monitor.e_value == pytest.approx(seldom.monitor.e_value, rel=1e-9)  # sums of another order


def test_labels_in_columns_are_measured_as_rows_are_and_many_at_once(monkeypatch):
    join = LabelJoin(OnlinePlatt(), HORIZON)
    alone, columns = Quality(1e6, 10, OnlinePlatt()), Quality(1e6, 10, OnlinePlatt())
    sizes, measure = [], columns._measure
    monkeypatch.setattr(columns, "_measure", lambda p, *rest: (sizes.append(len(p)), measure(p, *rest)))
    rows = [(join.issue(k, 0.1 + 0.0005 * k, 0.0, w=1.0 + k % 2), k % 7 == 0) for k in range(1500)]
    for begin in range(0, 1500, 50):
        some = rows[begin : begin + 50]
        for one, y in some:
            alone.take(one, y)
        if begin == 600:
            columns.take(*some[0])  # between columns
            some = some[1:]
        given = np.array([(one.p, one.score, float(y), one.w, one.t) for one, y in some])
        columns.take_many(*np.ascontiguousarray(given.T))
    alone.settle()
    columns.settle()
    assert len(sizes) < 8
    assert alone.labels == columns.labels == 1500
    assert alone.monitor.e_value == pytest.approx(columns.monitor.e_value, rel=1e-9)
    assert alone.log_loss.get() == pytest.approx(columns.log_loss.get(), rel=1e-12)
    assert alone.entropy.get() == pytest.approx(columns.entropy.get(), rel=1e-12)


def test_the_schema_names_every_address(client):
    described = client.get("/openapi.json").json()
    assert described["openapi"].startswith("3.1")
    assert set(described["paths"]) == {route.path.replace(":path", "") for route in client.app.routes}
    assert described["paths"]["/v1/issue"]["post"]["requestBody"]["content"]["application/json"]["schema"][
        "required"
    ] == [
        "id",
        "score",
        "t",
    ]


# -- the disk --------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_nothing_acknowledged_is_lost(tmp_path, monkeypatch):
    path = tmp_path / "events.journal"
    service = service_of(path)
    with client_of(service) as client:
        assert issue(client, "a").status_code == 200
        right = Journal.acknowledge

        def full(journal):
            raise StateError(f"{journal.path}: the journal cannot be written: database or disk is full")

        monkeypatch.setattr(Journal, "acknowledge", full)
        refused = outcome(client, "a")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert "disk is full" in refused.json()["error"]
        assert issue(client, "b").status_code == 503  # before it is taken
        assert "b" not in service.join.predictions
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        assert metric(client, "streamcal_journal_failing") == 1
        monkeypatch.setattr(Journal, "acknowledge", right)
        until = time.monotonic() + 20.0
        while client.get("/readyz").status_code != 200 and time.monotonic() < until:
            time.sleep(0.05)
        assert issue(client, "b").status_code == 200
    with Journal(path) as journal:
        join = LabelJoin(OnlinePlatt(), HORIZON, journal=journal)
        join.advance(HORIZON)
        assert join.tally()["positives"] == 1  # also of the outcome that was answered with 503


def test_impressions_need_not_wait_for_the_disk(tmp_path, monkeypatch):
    service = service_of(tmp_path / "events.journal", durable_issues=False)
    with client_of(service) as client:
        with monkeypatch.context() as patched:
            patched.setattr(service.acknowledging, "wait", lambda: pytest.fail("an impression waited"))
            assert issue(client, "a").status_code == 200
        until = time.monotonic() + 20.0
        while service.acknowledging.pending and time.monotonic() < until:
            time.sleep(0.01)
        assert service.acknowledging.pending == 0


def ten_at(client, k):
    answered = client.post("/v1/issue/batch", json=[{"id": 10 * k + j, "score": 0.5, "t": float(k)} for j in range(10)])
    assert answered.status_code == 200


def wait_until(happened):
    until = time.monotonic() + 20.0
    while not happened() and time.monotonic() < until:
        time.sleep(0.01)
    assert happened()


def test_requests_are_answered_while_a_snapshot_is_made(tmp_path, monkeypatch):
    path, going = tmp_path / "events.journal", threading.Event()
    service = service_of(path, snapshot_every=100)
    read = Forked.read
    monkeypatch.setattr(Forked, "read", lambda writer: going.wait(20.0) and read(writer))
    with client_of(service) as client:
        for k in range(30):  # three times as many events as lead to a snapshot: there is one at a time
            ten_at(client, k)
        assert service.acknowledging.snapshots == 0
        going.set()
        wait_until(lambda: service.acknowledging.snapshots == 1)
        twin = LabelJoin(OnlinePlatt(), HORIZON)
        for k in range(10):
            for j in range(10):
                twin.issue(10 * k + j, 0.5, float(k))
        journal = service.acknowledging._journal
        assert journal.state() == b"".join(twin._parts())
        assert len(list(journal.events())) == 200
        wait_until(service.acknowledging._snapshot.done)  # until then no other one is begun
        ten_at(client, 30)
        wait_until(lambda: service.acknowledging.snapshots == 2)
    with Journal(path) as journal:
        assert list(journal.events()) == []  # the one at the end holds everything
        assert LabelJoin(OnlinePlatt(), HORIZON, journal=journal).tally()["issued"] == 310


def test_a_snapshot_that_is_not_made_is_told_and_tried_again(tmp_path, monkeypatch, caplog):
    service = service_of(tmp_path / "events.journal", snapshot_every=50)
    with client_of(service) as client:
        with monkeypatch.context() as patched:
            patched.setattr(Acknowledging, "_state", lambda _: 1 / 0)  # in the child
            for k in range(6):
                ten_at(client, k)
            wait_until(lambda: service.acknowledging.snapshot_failures == 1)
        assert "ended with status 1" in caplog.text
        assert metric(client, "streamcal_journal_snapshot_failures_total") == 1
        assert client.get("/readyz").status_code == 200
        for k in range(6, 11):
            ten_at(client, k)
        wait_until(lambda: service.acknowledging.snapshots == 1)


def test_where_no_process_can_be_forked_the_loop_makes_the_snapshot(tmp_path, monkeypatch):
    service = service_of(tmp_path / "events.journal", snapshot_every=50)
    monkeypatch.setattr("streamcal.serving.acknowledging.CAN_FORK", False)
    with client_of(service) as client:
        for k in range(6):
            ten_at(client, k)
        wait_until(lambda: service.acknowledging.snapshots == 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_snapshot_under_way_is_given_up_at_the_end(tmp_path, monkeypatch):
    path = tmp_path / "events.journal"
    service, right = service_of(path, snapshot_every=50), Acknowledging._state
    this = os.getpid()
    monkeypatch.setattr(Acknowledging, "_state", lambda one: right(one) if os.getpid() == this else time.sleep(3600))
    with client_of(service) as client:
        for k in range(6):
            ten_at(client, k)
    assert service.stopped
    assert (service.acknowledging.snapshots, service.acknowledging.snapshot_failures) == (1, 0)
    with Journal(path) as journal:
        assert list(journal.events()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_hangs_is_given_up(monkeypatch):
    writer = Forked(lambda: time.sleep(3600))
    with monkeypatch.context() as patched:
        patched.setattr("streamcal.serving.forking.LONGEST", 0.05)
        with pytest.raises(StateError, match="status -9"):
            writer.read()
    writer.end()  # nothing happens
    writer = Forked(lambda: [b"x" * 10**6, b"", b"y"])
    assert [writer.read() for _ in range(5)] == [b"x" * 10**6, b"", b"y", None, None]


def test_without_a_pipe_there_is_no_snapshot_and_events_are_acknowledged(tmp_path, monkeypatch, caplog):
    service = service_of(tmp_path / "events.journal", snapshot_every=50)

    def none_left():
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with client_of(service) as client:
        with monkeypatch.context() as patched:
            patched.setattr("streamcal.serving.forking.os.pipe", none_left)
            for k in range(6):
                ten_at(client, k)
            with pytest.raises(StateError, match="Too many open files"):
                Forked(lambda: [b""])
        assert service.acknowledging.snapshot_failures == 1
        assert "no pipe to a further process" in caplog.text
        assert service.acknowledging.pending == 0
        for k in range(6, 11):
            ten_at(client, k)
        wait_until(lambda: service.acknowledging.snapshots == 1)
    assert service.stopped


@pytest.mark.parametrize("failing", ["__init__", "read"])
def test_a_snapshot_that_fails_in_any_way_is_counted(tmp_path, monkeypatch, caplog, failing):
    path = tmp_path / "events.journal"
    service = service_of(path, snapshot_every=50)
    monkeypatch.setattr("streamcal.serving.acknowledging.CAN_FORK", True)
    monkeypatch.setattr(Forked, "__init__", lambda writer, make: None)
    monkeypatch.setattr(Forked, "end", lambda writer: None)
    monkeypatch.setattr(Forked, failing, lambda *_: 1 / 0)
    with client_of(service) as client:
        for k in range(6):
            ten_at(client, k)
        wait_until(lambda: service.acknowledging.snapshot_failures == 1)
        assert "ZeroDivisionError" in caplog.text
    assert service.stopped
    assert service.acknowledging.snapshots == 1  # the one at the end
    with Journal(path) as journal:
        assert list(journal.events()) == []


@pytest.fixture
def no_statuses():
    """SIGCHLD is ignored: the system keeps no exit status of a child."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_leaves_no_status_has_failed(no_statuses, monkeypatch):
    writer, gone = Forked(lambda: [b"x"]), Forked(lambda: [b"x"])
    assert writer.read() == b"x"
    with pytest.raises(StateError, match="SIGCHLD is ignored"):
        writer.read()
    with pytest.raises(ChildProcessError):  # it waits until the other child is gone too
        os.waitpid(gone._process, 0)
    gone.end()  # nothing happens
    gone.read()
    with pytest.raises(StateError, match="SIGCHLD is ignored"):
        gone.read()
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("the number may be that of another process"))
    writer.end()


@pytest.mark.sample(2)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("under_way", [False, True])
def test_without_statuses_of_children_the_end_writes_everything(no_statuses, tmp_path, monkeypatch, under_way):
    path = tmp_path / "events.journal"
    service, right = service_of(path, page=Page(live_page, POLICY), snapshot_every=50), Acknowledging._state
    this = os.getpid()
    if under_way:
        monkeypatch.setattr(Acknowledging, "_state", lambda a: right(a) if os.getpid() == this else time.sleep(3600))
    with client_of(service) as client:
        for k in range(6):
            ten_at(client, k)
        if not under_way:
            wait_until(lambda: service.acknowledging.snapshot_failures == 1)
            outcome(client, 1)
            issue(client, "late", t=10 * HORIZON)
            assert client.get("/").status_code == 503  # no report
    assert service.stopped
    assert service.acknowledging.snapshots == 1
    with Journal(path) as journal:
        assert list(journal.events()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_command_has_statuses_of_its_children(no_statuses):
    with Server(None).capture_signals():
        assert signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL
        writer = Forked(lambda: [b"x"])
        assert (writer.read(), writer.read()) == (b"x", None)
    assert signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN


def test_the_collector_of_garbage_is_spared_what_is_held_until_the_end(monkeypatch):
    service, collections = service_of(), []

    async def lived():
        await service.start()
        service._spare_collector()
        assert gc.get_freeze_count() > 0
        monkeypatch.setattr("streamcal.serving.service.COLLECTED", 0.0)
        monkeypatch.setattr(gc, "collect", lambda: collections.append(gc.get_freeze_count()))
        service._spare_collector()
        assert collections == [0]  # a full one looks at everything
        await service.stop()

    asyncio.run(lived())
    assert gc.get_freeze_count() == 0


def test_requests_at_once_share_a_write(tmp_path):
    service = service_of(tmp_path / "events.journal")

    async def many():
        for k in range(200):
            service.issue({"id": k, "score": 0.5, "t": 0.0})
        await asyncio.gather(*(service.acknowledged(issue=True) for _ in range(200)))
        writes = service.acknowledging.writes
        await service.acknowledging.stop()
        return writes

    assert asyncio.run(many()) == 1


@pytest.mark.full
@pytest.mark.in_every_share
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_under_load_it_loses_nothing_and_counts_nothing_twice(tmp_path):
    issued, told = serving_kills.run(2, tmp_path)
    assert issued > 100
    assert told > 50


@pytest.mark.full
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_many_times(tmp_path):
    issued, _ = serving_kills.run(30, tmp_path, seed=2)
    assert issued > 1000


# -- the process -----------------------------------------------------------------------------------------------------


def asked(port, path, content=None):
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20.0) as response:
        return json.load(response)


@pytest.fixture
def command(tmp_path):
    """Start `streamcal serve` with these options; return the process and its port."""
    running = []

    def start(*options, **environment):
        port = serving_kills.free_port()
        command = [sys.executable, "-P", "-m", "streamcal", "serve", "--method", "ops", "--port", str(port), *options]
        inherited = {name: value for name, value in os.environ.items() if name != "STREAMCAL_TOKEN"}
        heard = partial(signal.signal, signal.SIGHUP, signal.SIG_DFL)  # also where the tests run under `nohup`
        piped = {"stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen(command, **piped, env={**inherited, **environment}, preexec_fn=heard)
        running.append(process)
        until = time.monotonic() + 60.0
        while process.poll() is None and time.monotonic() < until:
            try:
                asked(port, "/readyz")
                return process, port
            except OSError:
                time.sleep(0.1)
        pytest.fail(f"it did not start: {process.communicate()[1] if process.poll() is not None else ''}")

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
            process.communicate()


def lines_until(process, text):
    """What the process logs up to the line that contains `text`; it is killed after a minute without one."""
    timer = threading.Timer(60.0, process.kill)
    timer.start()
    try:
        for line in process.stderr:
            yield line
            if text in line:
                return
    finally:
        timer.cancel()


@pytest.mark.full
@pytest.mark.in_every_share
def test_the_command_resumes_after_a_kill_and_stops_when_told(command, tmp_path):
    options = ("--horizon", "1h", "--journal", str(tmp_path / "clicks.journal"), "--log-level", "debug")
    process, port = command(*options)
    p = asked(port, "/v1/issue", {"id": "a", "score": 0.2})["p"]
    # A request is logged after its answer is sent.
    log = [json.loads(line) for line in lines_until(process, "/v1/issue")]
    process.kill()
    log += [json.loads(line) for line in process.communicate()[1].splitlines()]
    assert [(one["replayed"], one["new"]) for one in log if one.get("event") == "resumed"] == [(0, True)]
    assert [one["port"] for one in log if one.get("event") == "listening"] == [port]
    assert any(one.get("event") == "request" and one["path"] == "/v1/issue" and one["status"] == 200 for one in log)
    process, port = command(*options)
    assert asked(port, "/v1/issue", {"id": "a", "score": 0.2})["p"] == p
    assert asked(port, "/v1/outcome", {"id": "a", "y": 1}) == {"id": "a", "known": True, "contradicts": False}
    process.send_signal(signal.SIGTERM)
    log = [json.loads(line) for line in process.communicate(timeout=60.0)[1].splitlines()]
    assert process.returncode == 0
    told = [one for one in log if one.get("event") in ("replaying", "resumed")]
    assert [one["event"] for one in told] == ["replaying", "resumed"]
    assert told[0]["events"] >= 1
    assert told[1]["held"] == 1
    assert log[-1]["event"] == "stopped"


@pytest.mark.full
@pytest.mark.in_every_share
def test_the_code_of_the_page_asks_in_arrow(command, capsys):
    _, port = command("--horizon", "6h", "--memory")
    page = (Path(__file__).parents[1] / "docs" / "serving.md").read_text(encoding="utf-8")
    code = re.search(r"```python title=.*\n([\s\S]*?)```", page)[1]
    exec(code.replace("localhost:8420", f"localhost:{port}"), {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^# (.*)$", code, re.MULTILINE)


def test_options_come_from_the_command_line_the_environment_and_a_file_in_this_order(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from streamcal.app.cli import app

    file = tmp_path / "serve.toml"
    file.write_text('horizon = "6"\nmemory = true\nmethod = "opz"\nset = ["lag=1", "bins=3"]\nmax-held = 5\n')

    def told(*options):
        return " ".join(CliRunner().invoke(app, ["serve", "--config", str(file), *options]).output.split())

    assert "opz" in told()
    assert "'6' has no unit" in told("--method", "platt", "--set", "refresh_every=7")
    monkeypatch.setenv("STREAMCAL_SERVE_METHOD", "opy")
    assert "opy" in told()
    monkeypatch.setenv("STREAMCAL_SERVE_CONFIG", str(file))
    assert "opz" in CliRunner().invoke(app, ["serve"], env={"STREAMCAL_SERVE_METHOD": None}).output
    misspelt = {"STREAMCAL_SERVE_MAXHELD": "5", "STREAMCAL_SERVE_SERVICE_HOST": "10.0.0.1"}
    output = CliRunner().invoke(app, ["serve"], env={"STREAMCAL_SERVE_METHOD": None, **misspelt}).output
    assert "STREAMCAL_SERVE_MAXHELD is no option (did you mean 'STREAMCAL_SERVE_MAX_HELD'?)" in output
    assert output.count("is no option") == 1
    for content, message in (
        ('horizn = "6h"', "did you mean 'horizon'"),
        ("horizon = ", "cannot be read as TOML"),
        ("[serve]\nport = 1", "'serve' is unknown"),
        ("[horizon]\nport = 1", "horizon is a table"),
        ('horizon = "1h"\nport = 0', "--port"),
        ('horizon = "1h"\nmemory = "perhaps"', "--memory"),
    ):
        file.write_text(content)
        assert message in told()
    file.write_text('horizon = "6h"\nsegment = "c"\nset = "lag=1"\n')  # one value of several
    assert "give --journal FILE" in told()
    for given in (["--memory"], ["--journal", tmp_path / "a"]):
        assert "--backup copies the journal to another file" in told(*map(str, given), "--backup", f"{tmp_path}/a")
    assert "the backup cannot be written" in told("--memory", "--backup", str(tmp_path / "nowhere" / "copy"))


@pytest.mark.full
@pytest.mark.in_every_share
@pytest.mark.parametrize("again", [False, pytest.param(True, marks=pytest.mark.full)])
def test_the_command_begins_from_a_state_and_migrates_its_journal(command, tmp_path, again):
    learned = OnlinePlatt()
    for k in range(2000):
        learned.learn_one(0.5, k % 10 == 0)
    save(learned, tmp_path / "state.json")
    journal = tmp_path / "clicks.journal"
    state = ("--state", str(tmp_path / "state.json"), "--journal", str(journal))
    process, port = command("--horizon", "1h", *state)
    assert asked(port, "/v1/issue", {"id": "a", "score": 0.5})["p"] == pytest.approx(
        learned.predict_one(0.5), abs=1e-12
    )
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60.0)
    process, port = command("--horizon", "2h", "--migrate", *state)
    assert asked(port, "/v1/issue", {"id": "a", "score": 0.5})["p"] == pytest.approx(
        learned.predict_one(0.5), abs=1e-12
    )
    assert asked(port, "/v1/outcome", {"id": "a", "y": 1})["known"]
    process.send_signal(signal.SIGHUP)  # as when its terminal is closed
    log = [json.loads(line) for line in process.communicate(timeout=60.0)[1].splitlines()]
    assert (process.returncode, log[-1]["event"]) == (0, "stopped")
    assert [one["same_calibrator"] for one in log if one.get("event") == "migrated"] == [True]
    assert any(one.get("event") == "state unused" for one in log)
    if again:
        process, port = command("--horizon", "2h", "--method", "platt", "--migrate", "--journal", str(journal))
        assert asked(port, "/v1/outcome", {"id": "a", "y": 1})["known"]
        process.kill()
        process.communicate()


def assert_headers_that_do_not_end_are_not_kept(port):
    with socket.create_connection(("127.0.0.1", port), timeout=20.0) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: ")
        answered = b""
        try:
            for _ in range(1000):
                connection.sendall(b"x" * 10_000)
            answered = connection.recv(100)
        except OSError:  # closed while this end still writes
            answered = answered or b"HTTP/1.1 431"
        assert answered.startswith(b"HTTP/1.1 431")
    assert asked(port, "/healthz") == {"status": "alive"}


@pytest.mark.full
@pytest.mark.in_every_share
def test_connections_that_wait_for_their_client_make_room_for_others(command):
    """Silent ones, ones that send a byte now and then, and ones whose body does not come."""
    process, port = command("--horizon", "1h", "--memory", "--max-connections", "3")
    beginnings = [b"", b"GET /healthz HT", b"POST /v1/issue HTTP/1.1\r\nHost: x\r\n"]
    beginnings[2] += b"Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    with contextlib.ExitStack() as stack:
        opened = []
        for beginning in 4 * beginnings:
            opened.append(stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20.0)))
            opened[-1].sendall(beginning)
            time.sleep(0.02)
        for k in range(5):
            assert asked(port, "/healthz") == {"status": "alive"}
            assert asked(port, "/v1/issue", {"id": k, "score": 0.2})["p"] == pytest.approx(0.2)
        for one in opened[:9]:  # the oldest
            with contextlib.suppress(ConnectionError):
                assert one.recv(100) == b""
    assert_headers_that_do_not_end_are_not_kept(port)
    process.kill()
    log = [json.loads(line) for line in process.communicate()[1].splitlines()]
    assert sum(one.get("event") == "connections dropped" for one in log) == 1


class Held:
    """An application whose answers wait, but for probes; its server, in a thread, takes three connections."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(running, "HEAD_TIMEOUT", 0.3)
        self.going, self.port = threading.Event(), serving_kills.free_port()
        config = uvicorn.Config(
            self.app,
            port=self.port,
            http=running.BoundedConnection,
            limit_concurrency=4,
            log_config=None,
            interface="asgi3",
        )
        self.server = uvicorn.Server(config)
        self.server.install_signal_handlers = lambda: None
        self.thread = threading.Thread(target=self.server.run)

    async def app(self, scope, receive, send):
        if scope["type"] != "http":
            raise RuntimeError("no lifespan")
        while scope["path"] == "/held" and not self.going.is_set():
            await asyncio.sleep(0.01)
        size = 10_000_000 if scope["path"] == "/long" else 2
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
        await send({"type": "http.response.body", "body": b"x" * size})

    def __enter__(self):
        self.thread.start()
        wait_until(lambda: self.server.started)
        return self

    def __exit__(self, *_):
        self.going.set()
        self.server.should_exit = True
        self.thread.join()

    def connected(self, stack, content=b""):
        found = stack.enter_context(socket.create_connection(("127.0.0.1", self.port), timeout=20.0))
        found.sendall(content)
        return found


def first_line(connection):
    return connection.recv(1000).partition(b"\r\n")[0]


def test_headers_have_to_come_in_time_and_busy_connections_keep_their_places(monkeypatch):
    with Held(monkeypatch) as held, contextlib.ExitStack() as stack:
        ask = b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n"
        silent, begun = held.connected(stack), held.connected(stack, b"GET /")
        since = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for _ in range(100):  # a byte now and then is no answer to the deadline
                begun.sendall(b"x")
                time.sleep(0.05)
        assert 0.2 < time.monotonic() - since < 3.0
        assert silent.recv(100) == b""
        quick = held.connected(stack, b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HT")
        assert first_line(quick) == b"HTTP/1.1 200 OK"
        assert first_line(quick) == b"HTTP/1.1 408 Request Timeout"
        unread = held.connected(stack, b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.1)
        busy = [held.connected(stack, ask) for _ in range(3)]  # the first in the place of the one that does not read
        time.sleep(0.6)  # longer than headers may take
        assert first_line(held.connected(stack, ask)) == b"HTTP/1.1 503 Service Unavailable"
        assert first_line(held.connected(stack, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")) == b"HTTP/1.1 200 OK"
        held.going.set()
        assert [first_line(one) for one in busy] == [b"HTTP/1.1 200 OK"] * 3
        with contextlib.suppress(ConnectionError):
            received = 0
            while part := unread.recv(2**20):
                received += len(part)
            assert received < 10_000_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--horizon", "1h", "--memory", "--state", "nowhere.json"], "there is no such file"),
        (["--horizon", "1h", "--memory", "--token-file", "nowhere"], "the tokens cannot be read"),
        (["--horizon", "1h"], "--journal FILE, or --memory"),
        (["--horizon", "6", "--memory"], "'6' has no unit; give 6s, 6m, 6h or 6d"),
        (["--horizon", "6h", "--memory", "--late", "1.5"], "--late: '1.5' has no unit"),
        (["--horizon", "soon", "--memory"], "--horizon: 'soon' is not a number, nor a time"),
        (["--horizon", "nan", "--memory"], "horizon=nan is not possible"),
        (["--horizon", "1h", "--memory", "--method", "opz"], "did you mean"),
        (["--horizon", "1h", "--memory", "--log-level", "loud"], "--log-level"),
        (["--horizon", "1h", "--memory", "--issue-durability", "none"], "disk, memory"),
        (["--horizon", "1h", "--memory", "--pending", "counts"], "streamcal.live.CountedJoin"),
        (["--horizon", "1h", "--memory", "--pending", "all"], "each, counts"),
    ],
)
def test_the_command_says_what_is_wrong_with_its_options(options, message):
    from typer.testing import CliRunner

    from streamcal.app.cli import app

    done = CliRunner().invoke(app, ["serve", *options])
    assert done.exit_code == 2
    assert message in " ".join(done.output.replace("│", " ").split())


def test_without_the_extra_it_is_named(monkeypatch):
    from typer.testing import CliRunner

    import streamcal.serving
    from streamcal.app.cli import app

    monkeypatch.setattr(streamcal, "serving", streamcal.serving)  # which the import below replaces
    for name in [one for one in sys.modules if one.startswith("streamcal.serving")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = CliRunner().invoke(app, ["serve", "--horizon", "1h", "--memory"])
    assert done.exit_code == 2
    assert "pip install '.[serve]'" in done.output


# -- challengers ---------------------------------------------------------------------------------------------------


def shadowed(path=None, page=None, **challengers):
    journal = None if path is None else Journal(path)
    given = {name: make() for name, make in (challengers or {"ops": OnlinePlatt}).items()}
    join = LabelJoin(Shadow(Identity(), given), HORIZON, journal=journal)
    return Service(join, journal, Settings(event_time=True), page)


def far_off(client, numbers, **more):
    """Issue scores that are far too high: a tenth of the impressions is clicked."""
    items = [{"id": f"i{k}", "score": 0.5, "t": float(k), **more} for k in numbers]
    issued = client.post("/v1/issue/batch", json=items).json()["results"]
    told = [{"id": f"i{k}", "y": True, "t": k + 1.0} for k in numbers if k % 10 == 0]
    client.post("/v1/outcome/batch", json=told)
    return [one["p"] for one in issued]


def test_a_challenger_is_promoted_by_request_and_rolled_back(tmp_path):
    path = tmp_path / "events.journal"
    with client_of(shadowed(path, Page(live_page, POLICY))) as client:
        assert set(far_off(client, range(50))) == {0.5}
        begun = client.get("/v1/challengers").json()
        assert (begun["number"], begun["name"], begun["since"]) == (1, "champion", 0)
        (one,) = begun["challengers"]
        assert (one["name"], one["verdict"], one["labels"]) == ("ops", "undecided", 0)
        assert one["difference"] is None
        assert one["low"] < 0.0 < one["high"]
        refused = client.post("/v1/promote", json={"name": "ops"})
        assert refused.status_code == 409
        assert "only a challenger that is shown to be better can be promoted" in refused.json()["error"]
        assert client.post("/v1/promote", json={}).status_code == 409
        far_off(client, range(50, 1_000))
        (one,) = client.get("/v1/challengers").json()["challengers"]
        assert one["verdict"] == "better"
        assert one["low"] < one["difference"] < one["high"] < 0.0
        assert one["labels"] == 900
        assert 'streamcal_challenger_better{name="ops"} 1.0' in client.get("/metrics").text
        assert client.post("/v1/promote", json={}).json() == {"number": 2, "name": "ops", "since": 900}
        assert metric(client, "streamcal_version") == 2.0
        assert max(far_off(client, range(1_000, 1_050))) < 0.3
        assert "OnlinePlatt" in client.get("/").text
    with client_of(shadowed(path)) as client:  # the promotion is in the journal
        assert client.get("/v1/challengers").json()["name"] == "ops"
        assert max(far_off(client, range(1_050, 1_060))) < 0.3
        assert client.post("/v1/rollback", json={"version": 1}).json() == {
            "number": 3,
            "name": "champion",
            "since": 960,
        }
        assert set(far_off(client, range(1_060, 1_070))) == {0.5}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("promote", {"name": "opps"}, 422, "there is no challenger 'opps'"),
        ("promote", {"name": 7}, 422, "name is no text"),
        ("promote", {"title": "ops"}, 422, "field 'title' is unknown"),
        ("promote", [], 422, "is no object"),
        ("rollback", {}, 422, "version is missing"),
        ("rollback", {"version": "1"}, 422, "version is no whole number"),
        ("rollback", {"version": 4}, 422, "there is no version 4"),
        ("rollback", {"version": 1}, 422, "there is no challenger 'champion'"),
    ],
)
def test_changes_that_are_not_possible(path, body, status, message):
    with client_of(shadowed()) as client:
        answered = client.post(f"/v1/{path}", json=body)
        assert (answered.status_code, message in answered.json()["error"]) == (status, True), answered.json()
        assert client.get("/v1/challengers").json()["number"] == 1
        assert "/v1/rollback" in client.get("/docs").text
        assert "-d &#x27;{&quot;version&quot;: 1}&#x27;" in client.get("/docs").text


def test_a_service_without_challengers_says_how_to_have_some(client):
    for answered in (
        client.get("/v1/challengers"),
        client.post("/v1/promote", json={}),
        client.post("/v1/rollback", json={"version": 1}),
    ):
        assert answered.status_code == 404
        assert answered.json()["allowed"] == "start it with --challenger METHOD"


def test_segments_of_the_calibrator_in_use_are_shown():
    with client_of(shadowed(by=lambda: Segmented("ops", by=["campaign"]))) as client:
        assert client.get("/v1/segments/campaign").status_code == 404
        for start in range(0, 400, 50):  # so that clicks come within the horizon
            far_off(client, range(start, start + 50), keys={"campaign": "c1"})
        assert client.post("/v1/promote", json={"name": "by"}).status_code == 200
        (level,) = client.get("/v1/segments/campaign").json()["levels"]
        assert level["effect"]["n"] > 0.0


@pytest.mark.full
def test_the_option_adds_challengers_to_a_journal_and_takes_them_out(command, tmp_path):
    options = ("--horizon", "1s", "--journal", str(tmp_path / "j"), "--clock", "events")
    process, port = command(*options)
    for k in range(30):
        asked(port, "/v1/issue", {"id": k, "score": 0.5, "t": 1e9 + k})
    process.terminate()
    assert process.wait(30) == 0
    process, port = command(*options, "--challenger", "auto", "--challenger", "platt", "--migrate")
    shown = asked(port, "/v1/challengers")
    assert shown["method"].startswith("OnlinePlatt(")
    assert sorted(one["name"] for one in shown["challengers"]) == ["auto", "platt"]
    process.terminate()
    assert process.wait(30) == 0
    process, port = command(*options, "--challenger", "auto", "--challenger", "isotonic")
    names = sorted(one["name"] for one in asked(port, "/v1/challengers")["challengers"])
    assert names == ["auto", "isotonic"]
    process.terminate()
    assert process.wait(30) == 0
    process, port = command(*options, "--migrate")
    with pytest.raises(urllib.error.HTTPError, match="404"):
        asked(port, "/v1/challengers")
    assert asked(port, "/v1/map")["learned"] == 29


# -- requests made from the schema -----------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.skipif(
    importlib.util.find_spec("schemathesis") is None,
    reason="SCHEMATHESIS IS NOT INSTALLED, the schema is not tried: pip install schemathesis",
)
def test_requests_made_from_the_schema_find_nothing(command, tmp_path):
    # each refused request is a warning, and the pipe that nobody reads would be full after some hundred of them
    _, port = command("--horizon", "1h", "--journal", str(tmp_path / "clicks.journal"), "--log-level", "error")
    address = f"http://127.0.0.1:{port}/openapi.json"
    tool = [sys.executable, "-m", "schemathesis.cli", "run", address, "--max-examples", "50", "--seed", "1"]
    done = subprocess.run(tool, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
