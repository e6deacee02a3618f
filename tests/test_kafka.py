"""`examples/kafka/clicks.py` on librdkafka's mock broker: order, kills, and messages that cannot be used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from streamcal import OnlinePlatt
from streamcal.live import Journal, LabelJoin

kafka = pytest.importorskip(
    "confluent_kafka", reason="confluent-kafka is not installed, the example is not tried: pip install confluent-kafka"
)

PROGRAM = Path(__file__).parents[1] / "examples" / "kafka" / "clicks.py"
HORIZON, PATIENCE = 600.0, 60.0


@pytest.fixture
def broker():
    """Return a producer with a mock cluster of one broker inside, and the address of that broker."""
    producer = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    for topic in ("impressions", "clicks", "calibrated"):
        producer.list_topics(topic, timeout=PATIENCE)  # which makes it
    (one,) = producer.list_topics(timeout=PATIENCE).brokers.values()
    return producer, f"{one.host}:{one.port}"


def events(n, seed=1):
    """Return impressions, a second apart, and clicks on a tenth of them, up to 20 minutes later, each in its order."""
    rng = np.random.default_rng(seed)
    impressions = [{"id": f"i{k}", "score": round(float(rng.beta(2, 5)), 3), "t": 1e9 + k} for k in range(n)]
    clicked = np.flatnonzero(rng.random(n) < 0.1).tolist()
    clicks = [{"id": f"i{k}", "t": 1e9 + k + round(float(rng.exponential(300.0)), 3)} for k in clicked]
    return impressions, sorted(clicks, key=lambda one: one["t"])


def send(producer, topic, messages):
    for message in messages:
        value = message if isinstance(message, bytes) else json.dumps(message).encode()
        producer.produce(topic, value, partition=0)
    producer.flush()


def started(address, journal, *options):
    here = str(PROGRAM.parents[2])
    search = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    words = [sys.executable, str(PROGRAM), "--brokers", address, "--journal", str(journal), "--method", "ops"]
    return subprocess.Popen(
        [*words, "--horizon", f"{HORIZON:g}s", *options],
        stderr=subprocess.PIPE,
        text=True,
        env={"STREAMCAL_COMPILE": "0", **os.environ, "PYTHONPATH": search},
    )


class Answers:
    """The predictions in the topic, the latest of each id."""

    def __init__(self, address):
        self.reader = kafka.Consumer({"bootstrap.servers": address, "group.id": "test"})
        partitions = self.reader.list_topics("calibrated", timeout=PATIENCE).topics["calibrated"].partitions
        self.reader.assign([kafka.TopicPartition("calibrated", number, 0) for number in partitions])
        self.found, self.written = {}, 0

    def until(self, n, process):
        """Read until n impressions have a prediction."""
        end = time.monotonic() + PATIENCE
        while len(self.found) < n:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < end, f"{len(self.found)} of {n} predictions"
            for message in self.reader.consume(1_000, 0.1):
                if message.error() is None:
                    one = json.loads(message.value())
                    self.found[one["id"]] = one["p"]
                    self.written += 1
        return self.found


def by_hand(impressions, clicks):
    """Return the join that reads both in the order of time, and its predictions."""
    join, found = LabelJoin(OnlinePlatt(), HORIZON), {}
    for event in sorted([*impressions, *clicks], key=lambda one: (one["t"], "score" not in one)):
        if "score" in event:
            found[event["id"]] = join.issue(event["id"], event["score"], event["t"]).p
        else:
            join.resolve(event["id"], True, event["t"])
    return join, found


@pytest.mark.full
def test_a_backlog_is_read_in_the_order_of_time_also_after_kills(broker, tmp_path):
    """Predictions and state are those of one pass by hand; no click is lost, and none is learned twice."""
    producer, address = broker
    impressions, clicks = events(6_000)
    send(producer, "clicks", clicks)
    send(producer, "impressions", impressions)
    journal, wanted = tmp_path / "events.journal", by_hand(impressions, clicks)
    answers = Answers(address)
    process = started(address, journal)
    answers.until(1_500, process)
    process.kill()
    process.wait()
    process = started(address, journal)
    answers.until(4_000, process)
    process.kill()
    process.wait()
    process = started(address, journal)
    assert answers.until(len(impressions), process) == wanted[1]
    committed = kafka.Consumer({"bootstrap.servers": address, "group.id": "streamcal"})
    places = [kafka.TopicPartition(topic, 0) for topic in ("impressions", "clicks")]
    end = time.monotonic() + PATIENCE
    while [one.offset for one in committed.committed(places, timeout=PATIENCE)] != [len(impressions), len(clicks)]:
        assert time.monotonic() < end
        time.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0, process.communicate()[1]
    with Journal(journal) as opened:
        join = LabelJoin(OnlinePlatt(), HORIZON, journal=opened)
        assert join.noted == {"offsets": [["clicks", 0, len(clicks)], ["impressions", 0, len(impressions)]]}
        assert join.tally() == wanted[0].tally()
        assert join.calibrator.state_dict() == wanted[0].calibrator.state_dict()


@pytest.mark.full
def test_messages_that_cannot_be_used_are_told_of_and_left_out(broker, tmp_path):
    producer, address = broker
    impressions, _ = events(20)
    bad = [b"{", b"[1]", {"id": "x", "score": 0.5}, {"id": "x", "score": 2.0, "t": 1e9 + 19.0}]
    send(producer, "impressions", [*impressions, *bad, {"id": "last", "score": 0.5, "t": 1e9 + 20.0}])
    process = started(address, tmp_path / "events.journal")
    answers = Answers(address)
    assert set(answers.until(21, process)) == {"last", *(f"i{k}" for k in range(20))}
    for k in range(21, 25):  # one after another, as in live traffic, each of which waits for no other
        send(producer, "impressions", [{"id": f"live {k}", "score": 0.5, "t": 1e9 + k}])
        assert f"live {k}" in answers.until(k + 1, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    said = process.communicate()[1]
    assert [f"offset {k}" in said for k in (20, 21, 22, 23)] == [True] * 4
    assert "offset 23 is left out: score" in said, said


@pytest.mark.full
def test_a_topic_that_is_missing_ends_it(tmp_path):
    producer = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (one,) = producer.list_topics(timeout=PATIENCE).brokers.values()
    process = started(f"{one.host}:{one.port}", tmp_path / "events.journal")
    assert process.wait(PATIENCE) == 1
    assert "there is no topic 'impressions'" in process.communicate()[1]
