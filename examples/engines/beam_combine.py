"""Calibrators by key on Apache Beam: a `CombineFn` whose accumulator is a calibrator.

    pip install apache-beam
    python examples/engines/beam_combine.py

An accumulator is sent between workers as the bytes of `to_bytes`, by pickle, which calls it. `merge_accumulators` is
`merge`: the method has to be one that merges.
"""

import random
from collections.abc import Iterable

import apache_beam as beam

from streamcal import Calibrator, Platt

Observation = tuple[float, bool]


class Calibrated(beam.CombineFn):
    """Observations (score, label) → a calibrator that has learned them.

    Parameters
    ----------
    calibrator : Calibrator
        The method, which has learned nothing.
    """

    def __init__(self, calibrator: Calibrator) -> None:
        if not calibrator.merges:
            raise ValueError(f"{calibrator!r} depends on the order of its observations and cannot be combined")
        self._calibrator = calibrator

    def create_accumulator(self) -> Calibrator:
        return self._calibrator.clone()

    def add_input(self, accumulator: Calibrator, observation: Observation) -> Calibrator:
        accumulator.learn_one(*observation)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Calibrator]) -> Calibrator:
        merged = self.create_accumulator()
        for one in accumulators:
            merged.merge(one)
        return merged

    def extract_output(self, accumulator: Calibrator) -> Calibrator:
        return accumulator


def clicks(rows: int) -> list[tuple[str, Observation]]:
    """(campaign, (score, label)): scores that are half as large again as the rate of clicks."""
    draws = random.Random(0)
    scores = [(draws.choice(("shoes", "books")), draws.random()) for _ in range(rows)]
    return [(campaign, (score, draws.random() < score / 1.5)) for campaign, score in scores]


def show(campaign: str, cal: Calibrator) -> None:
    print(f"{campaign}: {cal.n:,.0f} observations, a score of 0.6 means {cal.predict_one(0.6):.2f}")


if __name__ == "__main__":
    with beam.Pipeline() as pipeline:
        rows = pipeline | beam.Create(clicks(20_000))
        rows | beam.CombinePerKey(Calibrated(Platt())) | beam.MapTuple(show)
