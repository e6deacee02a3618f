"""`streamcal serve` is killed at random moments under load; what it acknowledged is all there, and nothing twice.

    python tests/serving_kills.py --kills 200      # some minutes; the suite makes three

Clients issue impressions and tell outcomes, one by one and in lists of JSON and Arrow, and repeat some. After a random
time the server is killed by SIGKILL, a new one resumes from the journal, and the clients send again what was not
acknowledged. At the end the journal has to hold exactly the ids that were sent, each issued once and with the
probability that was answered, and their outcomes.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import socket
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa

from streamcal import OnlinePlatt
from streamcal.live import Journal, LabelJoin, events
from streamcal.serving.arrow import MEDIA_TYPE
from streamcal.serving.running import serve
from streamcal.serving.service import Service
from streamcal.serving.settings import Settings

#: No label is learned while the test runs: what is learned at its end depends on all that came.
HORIZON = 1e6
CLIENTS = 4
#: A snapshot now and then, so that some kills come in its midst.
SETTINGS = Settings(snapshot_every=2_000)


def new_join(journal=None):
    return LabelJoin(OnlinePlatt(), HORIZON, journal=journal, max_jump=1e14)


def started(path, port):
    """Start a new server and return its process id."""
    child = os.fork()
    if child:
        return child
    try:
        with Journal(path) as journal:
            done = serve(Service(new_join(journal), journal, SETTINGS), "127.0.0.1", port)
        os._exit(0 if done else 1)
    finally:
        os._exit(2)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Client:
    """Sends impressions and outcomes of its own; knows what was acknowledged, and sends again what was not."""

    def __init__(self, name, port):
        self.name, self.port, self.rng = name, port, random.Random(name)
        self.forecasts, self.outcomes = {}, {}  # those acknowledged
        self.scores, self.open, self.number = {}, [], 0
        self.request = None  # the one that was not acknowledged
        self.last = None  # the one before
        self.failure = None

    def next(self):
        """Return a request: its path and its items. One in five is the one before, again."""
        if self.last is not None and self.rng.random() < 0.2:
            return self.last
        if self.open and self.rng.random() < 0.5:
            told = [self.open.pop(self.rng.randrange(len(self.open))) for _ in range(min(len(self.open), 10))]
            return "/v1/outcome", [{"id": id, "y": self.rng.random() < 0.3} for id in told]
        items = []
        for _ in range(self.rng.choice((1, 5, 20))):
            self.number += 1
            items.append({"id": f"{self.name}-{self.number}", "score": self.rng.random()})
        return "/v1/issue", items

    def run(self, stop):
        """Send requests until the server is gone, or until `stop` is set and everything is acknowledged."""
        connection = None
        while not (stop.is_set() and self.request is None):
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20.0)
                    connection.connect()
            except OSError:  # not there yet, or killed
                connection = None
                if stop.is_set():
                    return
                time.sleep(0.005)
                continue
            try:
                self.request = self.request or self.next()
                self.send(connection, *self.request)
                self.last, self.request = self.request, None
            except (OSError, http.client.HTTPException):
                return
            except AssertionError as error:  # in a thread, where nobody would hear of it
                self.failure = error
                return

    def send(self, connection, path, items):
        single = len(items) == 1
        content, where = (items[0], path) if single else (items, f"{path}/batch")
        body, kind = json.dumps(content), "application/json"
        if not single and self.rng.random() < 0.4:
            body, kind = streamed(items), MEDIA_TYPE
        connection.request("POST", where, body, {"Content-Type": kind})
        response = connection.getresponse()
        answered = json.loads(response.read())
        assert response.status == 200, answered
        results = [answered] if single else answered["results"]
        assert single or not answered["errors"], answered
        for item, result in zip(items, results, strict=True):
            assert result["id"] == item["id"]
            if path == "/v1/issue":
                new = item["id"] not in self.forecasts
                before = self.forecasts.setdefault(item["id"], result["p"])
                assert before == result["p"], "another forecast for the same id"
                self.scores[item["id"]] = item["score"]
                if new:
                    self.open.append(item["id"])
            else:
                assert result["known"], f"{item['id']} was issued and acknowledged, and is lost"
                self.outcomes[item["id"]] = item["y"]


def streamed(items):
    """Return items as a stream of Arrow."""
    table, sink = pa.Table.from_pylist(items), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def one_round(path, port, clients, seconds, number):
    """Run a server with its clients for a time and end it by a signal; its exit code."""
    server = started(path, port)
    stop = threading.Event()
    threads = [threading.Thread(target=client.run, args=(stop,)) for client in clients]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    if number == signal.SIGTERM:
        stop.set()
        for thread in threads:
            thread.join()
    os.kill(server, number)
    code = os.waitstatus_to_exitcode(os.waitpid(server, 0)[1])
    stop.set()
    for thread in threads:
        thread.join()
    for client in clients:
        if client.failure is not None:
            raise client.failure
    return code


def run(kills, folder, seed=1):
    """Kill a server so many times; the number of impressions and outcomes acknowledged, all of which were found."""
    path, port, rng = Path(folder, "events.journal"), free_port(), random.Random(seed)
    clients = [Client(f"client{k}", port) for k in range(CLIENTS)]
    for _ in range(kills):
        seconds = rng.choice((0.05, 0.2, 0.6)) * (0.5 + rng.random())
        assert one_round(path, port, clients, seconds, signal.SIGKILL) == -signal.SIGKILL, "it ended before"
    assert one_round(path, port, clients, 1.0, signal.SIGTERM) == 0, "the last one did not stop as it should"
    return audit(path, clients)


def audit(path, clients):
    forecasts = {id: p for client in clients for id, p in client.forecasts.items()}
    scores = {id: score for client in clients for id, score in client.scores.items()}
    outcomes = {id: y for client in clients for id, y in client.outcomes.items()}
    with Journal(path) as journal:
        logged = Counter(one[1] for one in map(events.read, journal.events()) if one[0] == events.ISSUE)
        assert not logged or max(logged.values()) == 1, "an impression is there twice"
        join = new_join(journal)
        tally = join.tally()
        assert tally["issued"] == join.held == len(forecasts), (tally, len(forecasts))
        for id, p in forecasts.items():
            one = join.predictions.get(id)
            assert one is not None, f"{id} is lost"
            assert (one.p, one.score) == (p, scores[id])
        join.advance(time.time() + 2 * HORIZON)  # all labels are learned
        tally = join.tally()
    assert tally["learned"] == len(forecasts)
    assert tally["positives"] == sum(outcomes.values())
    assert tally["timed_out"] == len(forecasts) - len(outcomes)
    assert tally["unknown"] == tally["contradicted"] == 0
    return len(forecasts), len(outcomes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        begun = time.perf_counter()
        issued, told = run(given.kills, place, given.seed)
        seconds = time.perf_counter() - begun
        print(f"{given.kills} kills, {issued} impressions and {told} outcomes, none lost, none twice; {seconds:.0f} s")
