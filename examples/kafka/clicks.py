"""A consumer of Kafka: impressions are answered with calibrated probabilities, and clicks are learned when they come.

    pip install confluent-kafka
    python examples/kafka/clicks.py --brokers localhost:9092 --journal clicks.journal --horizon 6h

| topic | a message, as JSON |
|---|---|
| `impressions` | `{"id": "a1", "score": 0.02, "t": 1767225600.0}`, also with `keys`, `version` and `w` |
| `clicks` | `{"id": "a1", "t": 1767225840.0}`, with the time of the click |
| `calibrated` | `{"id": "a1", "p": 0.0174}`, which this program writes |

**Nothing is lost and no event is learned twice.** The offsets are a note in the journal, between the events before and
after them. They are committed to Kafka once the journal is on the disk, and a restart reads on from the note. So a
prediction may be written twice after a crash, and an event is learned once.

**Order.** A backlog is read in the order of the times of the events, across topics and partitions: if impressions were
read faster than their clicks, the horizon would pass before a click is seen. A partition that is at its end holds up no
other. `max_ahead` messages of a partition are held at most.

**One journal has one process**, which assigns itself the partitions: all, or those of `--partitions`. To share the
work, give impressions and clicks their id as key and equal numbers of partitions, and start a process with a journal
for each.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections import deque
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from streamcal import InputError
from streamcal.live import Journal, LabelJoin

IMPRESSIONS, CLICKS, CALIBRATED = "impressions", "clicks", "calibrated"
#: Messages after which events, offsets and predictions are made safe, and the seconds in which they come at most.
BATCH, WAIT = 1_000, 0.2
#: Events after which the whole state takes their place in the journal.
SNAPSHOT_EVERY = 1_000_000

Place = tuple[str, int]
#: The time of a message, its offset and what it contains.
Event = tuple[float, int, dict[str, Any]]


class Clicks:
    """Reads the partitions of both topics in the order of time, and lets a join issue and learn."""

    def __init__(self, join: LabelJoin, kafka: dict[str, Any], partitions: set[int] | None, max_ahead: int = 10_000):
        self.join, self.max_ahead = join, max_ahead
        own = {"group.id": "streamcal", "enable.auto.commit": False, "enable.partition.eof": True}
        self.consumer = Consumer({"auto.offset.reset": "earliest", **own, **kafka})
        self.producer = Producer(kafka)
        self.failed: list[str] = []  # predictions that could not be delivered
        noted = join.noted or {}
        self.next: dict[Place, int] = {(topic, number): offset for topic, number, offset in noted.get("offsets", ())}
        numbers = {topic: self._partitions(topic) for topic in (IMPRESSIONS, CLICKS)}
        found = [
            TopicPartition(topic, number)
            for topic, those in numbers.items()
            for number in those
            if partitions is None or number in partitions
        ]
        self.held: dict[Place, deque[tuple[float, int, dict[str, Any]]]] = {
            (p.topic, p.partition): deque() for p in found
        }
        self.at_end: dict[Place, bool] = dict.fromkeys(self.held, False)
        self.paused: set[Place] = set()
        for one in found:
            one.offset = self.next.get((one.topic, one.partition), one.offset)
        self.consumer.assign(found)

    def run(self, running: list[bool]) -> None:
        """Read until `running` is empty; what was learned is safe at the end."""
        since = 0
        while running:
            for message in self.consumer.consume(BATCH, WAIT):
                self._hold(message)
            done = 0
            while done < BATCH and (place := self._earliest()) is not None:
                self._take(place, *self.held[place].popleft())
                done += 1
            self._resume()
            if done:
                self._make_safe()
                since += done
            if since >= SNAPSHOT_EVERY:
                self.join.snapshot()
                since = 0
        self.consumer.close()

    def _partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions."""
        found = list(self.consumer.list_topics(topic, timeout=30.0).topics[topic].partitions)
        if not found:
            raise SystemExit(f"there is no topic {topic!r}; make it, or give other --brokers")
        return found

    def _hold(self, message: Message) -> None:
        """Keep a message until its time has come; a bad one is told of and left out."""
        place = str(message.topic()), int(message.partition() or 0)
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            self.at_end[place] = True
            return
        if error is not None:
            raise KafkaException(error)
        self.at_end[place] = False
        offset = int(message.offset() or 0)
        try:
            event = json.loads(message.value() or b"")
            self.held[place].append((float(event["t"]), offset, event))
        except (ValueError, KeyError, TypeError) as error:
            print(f"{place[0]}, partition {place[1]}, offset {offset} cannot be read: {error!r}", file=sys.stderr)
            if not self.held[place]:
                self.next[place] = offset + 1
        if len(self.held[place]) >= self.max_ahead and place not in self.paused:
            self.consumer.pause([TopicPartition(*place)])
            self.paused.add(place)

    def _earliest(self) -> Place | None:
        """Return where the earliest event is; None while a partition may have an earlier one that was not read."""
        if not all(held or self.at_end[place] or place in self.paused for place, held in self.held.items()):
            return None
        waiting = [place for place, held in self.held.items() if held]
        return min(waiting, key=lambda place: self.held[place][0][0], default=None)

    def _take(self, place: Place, t: float, offset: int, event: dict[str, Any]) -> None:
        """Issue an impression, or learn of a click."""
        self.next[place] = offset + 1
        try:
            if place[0] == CLICKS:
                self.join.resolve(event["id"], True, t)
                return
            more = {"keys": event.get("keys"), "version": event.get("version"), "w": event.get("w", 1.0)}
            issued = self.join.issue(event["id"], event["score"], t, **more)
        except (InputError, KeyError) as error:
            print(f"{place[0]}, partition {place[1]}, offset {offset} is left out: {error}", file=sys.stderr)
            return
        answer = json.dumps({"id": issued.id, "p": issued.p}).encode()
        self.producer.produce(CALIBRATED, answer, str(issued.id).encode(), on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failed.append(error.str())

    def _resume(self) -> None:
        """Read on where there is room again."""
        ready = {place for place in self.paused if len(self.held[place]) < self.max_ahead // 2}
        if ready:
            self.consumer.resume([TopicPartition(*place) for place in ready])
            self.paused -= ready

    def _make_safe(self) -> None:
        """Deliver the predictions, write events and offsets to the disk, and then commit the offsets."""
        self.producer.flush()
        if self.failed:
            raise SystemExit(f"{len(self.failed)} predictions were not delivered: {self.failed[0]}")
        self.join.note({"offsets": [[*place, offset] for place, offset in sorted(self.next.items())]})
        self.join.acknowledge()
        places = [TopicPartition(*place, offset) for place, offset in self.next.items() if place in self.held]
        self.consumer.commit(offsets=places, asynchronous=False)


def main(arguments: list[str] | None = None) -> None:
    """Consume until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--brokers", required=True, help="host:port of some brokers, with commas")
    parser.add_argument("--journal", required=True, help="the file of events and offsets, from which it resumes")
    parser.add_argument("--horizon", default="6h", help="after this span an impression is negative")
    parser.add_argument("--early", help="learn early clicks after this span")
    parser.add_argument("--method", default="auto", help="one of `streamcal methods`")
    parser.add_argument("--partitions", help="numbers with commas; all by default")
    given = parser.parse_args(arguments)
    running = [True]
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: running.clear())
    partitions = None if given.partitions is None else {int(one) for one in given.partitions.split(",")}
    with Journal(given.journal) as journal:
        join = LabelJoin(given.method, given.horizon, given.early, journal=journal)
        Clicks(join, {"bootstrap.servers": given.brokers}, partitions).run(running)
        join.snapshot()


if __name__ == "__main__":
    main()
