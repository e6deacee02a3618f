"""The page of /metrics: what Prometheus reads of a service."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from streamcal.live.label_join import LabelJoin
from streamcal.live.multicalibrated import Multicalibrated
from streamcal.live.shadow import Shadow
from streamcal.serving.quality import DELAYS
from streamcal.serving.service import Service

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
#: Seconds of a request.
LATENCIES = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
#: Items of a batch.
BATCHES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000)


class Meters:
    """What is counted of requests, and the page of all that is known of a service."""

    def __init__(self, service: Service) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "streamcal_requests", "Requests answered.", ("path", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "streamcal_request_seconds", "Seconds of a request.", ("path",), buckets=LATENCIES, registry=self._registry
        )
        self._items = Histogram("streamcal_batch_items", "Items of a batch.", buckets=BATCHES, registry=self._registry)
        self._refused = Counter(
            "streamcal_refused_items",
            "Items refused inside batches, which are answered with 200.",
            ("kind", "status"),
            registry=self._registry,
        )
        self._registry.register(State(service))
        self._service = service
        self._of: dict[tuple[str, int], tuple[Any, Any]] = {}  # looking labels up takes longer than counting

    def request(self, path: str, status: int, seconds: float) -> None:
        """Count a request."""
        meters = self._of.get((path, status))
        if meters is None:
            meters = self._of[path, status] = self._requests.labels(path, status), self._seconds.labels(path)
        meters[0].inc()
        meters[1].observe(seconds)

    def batch(self, items: int) -> None:
        """Count a batch."""
        self._items.observe(items)

    def refused_item(self, kind: str, status: int) -> None:
        """Count an item of a batch that was refused."""
        self._refused.labels(kind, status).inc()

    def page(self) -> bytes:
        """Return all metrics as text."""
        self._service.quality.settle()
        return generate_latest(self._registry)


class State(Collector):
    """What is read from a service when the page is asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        join, acknowledging = self._service.join, self._service.acknowledging
        events = CounterMetricFamily(
            "streamcal_events", "Events of the join by kind, resumed ones too.", labels=("kind",)
        )
        for kind, number in join.tally().items():
            events.add_metric((kind,), number)
        yield events
        yield GaugeMetricFamily("streamcal_waiting", "Predictions whose label is to be learned.", join.waiting)
        yield GaugeMetricFamily("streamcal_held", "Predictions remembered.", join.held)
        yield GaugeMetricFamily("streamcal_set_aside", "Outcomes of unknown ids kept.", join.set_aside)
        oldest = join.oldest(-math.inf if self._service.settings.event_time else time.time())
        yield GaugeMetricFamily("streamcal_oldest_waiting_seconds", "Age of the oldest of those waiting.", oldest)
        behind = self._service.behind
        yield GaugeMetricFamily("streamcal_clock_behind_seconds", "Time until the clock is that of the events.", behind)
        yield from _early(join)
        yield GaugeMetricFamily("streamcal_unwritten_events", "Events not on the disk.", acknowledging.pending)
        yield GaugeMetricFamily(
            "streamcal_journal_failing", "Whether the last write failed.", bool(acknowledging.failure)
        )
        yield CounterMetricFamily("streamcal_journal_writes", "Writes of the journal.", acknowledging.writes)
        yield CounterMetricFamily("streamcal_journal_snapshots", "Snapshots of the state.", acknowledging.snapshots)
        failures = acknowledging.snapshot_failures
        yield CounterMetricFamily("streamcal_journal_snapshot_failures", "Snapshots that were not made.", failures)
        yield from self._measures()
        yield from self._certificate()
        yield from self._challengers()
        yield from self._segments()

    def _measures(self) -> Iterator[Metric]:
        quality = self._service.quality
        yield CounterMetricFamily("streamcal_labels", "Labels certain since the start.", quality.labels)
        yield CounterMetricFamily("streamcal_alarms", "Alarms of the calibration monitor.", quality.alarms)
        yield GaugeMetricFamily("streamcal_calibration_e_value", "Value of the e-detector.", quality.monitor.e_value)
        yield self._delays()
        for name, text, value in (
            ("calibration_ratio", "Clicks predicted per click, since the start.", quality.ratio.get()),
            ("log_loss", "Mean log loss, since the start.", quality.log_loss.get()),
            ("normalized_entropy", "Log loss per that of the base rate, since the start.", quality.entropy.get()),
        ):
            if value is not None:
                yield GaugeMetricFamily(f"streamcal_{name}", text, value)

    def _certificate(self) -> Iterator[Metric]:
        calibrator = self._service.calibrator
        if not isinstance(calibrator, Multicalibrated):
            return
        for name, text, value in zip(
            ("evidence", "certified_regret", "gain"),
            (
                "Log of the largest likelihood ratio against the predictions of a group.",
                "Nats by which the log loss can exceed that of the calibrator without groups.",
                "Nats by which the log loss is below that of the calibrator without groups.",
            ),
            calibrator.certificate(),
            strict=True,
        ):
            yield GaugeMetricFamily(f"streamcal_multicalibrated_{name}", text, value)

    def _challengers(self) -> Iterator[Metric]:
        shadow = self._service.join.calibrator
        if not isinstance(shadow, Shadow):
            return
        yield GaugeMetricFamily("streamcal_version", "The number of the calibrator in use.", shadow.version.number)
        text = "Whether a challenger is shown to be better than the calibrator in use."
        better = GaugeMetricFamily("streamcal_challenger_better", text, labels=("name",))
        for comparison in shadow.comparisons():
            better.add_metric((comparison.name,), comparison.verdict == "better")
        yield better

    def _delays(self) -> Metric:
        quality = self._service.quality
        text = "Seconds from an impression to its positive outcome, since the start."
        ends, counts = [*map(str, DELAYS), "+Inf"], list(accumulate(quality.delays))
        buckets = list(zip(ends, counts, strict=True))
        return HistogramMetricFamily("streamcal_label_delay_seconds", text, buckets=buckets, sum_value=quality.delay)

    def _segments(self) -> Iterator[Metric]:
        quality, names = self._service.quality, ("field", "level")
        labels = CounterMetricFamily("streamcal_segment_labels", "Labels of a segment.", labels=names)
        forecast = CounterMetricFamily("streamcal_segment_forecast", "Clicks predicted in a segment.", labels=names)
        positives = CounterMetricFamily("streamcal_segment_positives", "Clicks in a segment.", labels=names)
        value = GaugeMetricFamily("streamcal_segment_e_value", "Value of the e-detector of a segment.", labels=names)
        e_values = quality.monitor.e_values
        for (field, level), sums in quality.segments.items():
            of = field, str(level)
            labels.add_metric(of, sums.labels)
            forecast.add_metric(of, sums.forecast)
            positives.add_metric(of, sums.positives)
            if (field, level) in e_values:
                value.add_metric(of, e_values[field, level])
        yield from (labels, forecast, positives, value)


def _early(join: LabelJoin) -> Iterator[Metric]:
    """Yield how late clicks are reported and, with an early window, how many are known within it."""
    delay = join.report_delay()
    if delay is not None:
        text = "Mean seconds from a positive outcome's own time until it was reported."
        yield GaugeMetricFamily("streamcal_report_delay_seconds", text, delay)
    tally = join.tally()
    late = tally["corrected"] + tally["uncorrected"]
    if late + tally["positives"]:
        text = "Part of the clicks in time that were known only after a negative label was learned."
        share = late / (late + tally["positives"])
        yield GaugeMetricFamily("streamcal_clicks_known_late_ratio", text, share)
    if join.spans.early is not None:
        text = "Part of the clicks that is known within the early window."
        yield GaugeMetricFamily("streamcal_early_share", text, join.early_share()[0])
