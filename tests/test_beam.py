"""`examples/engines/beam_combine.py`: needs apache-beam, which no extra has."""

import importlib.util
from pathlib import Path

import pytest

from streamcal import Isotonic, OnlinePlatt

EXAMPLE = Path(__file__).parents[1] / "examples" / "engines" / "beam_combine.py"


@pytest.fixture(scope="module")
def example():
    pytest.importorskip("apache_beam", reason="apache-beam is not installed")
    spec = importlib.util.spec_from_file_location("beam_combine", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.full
def test_combining_on_beam_is_one_learn_many(example):
    import apache_beam as beam
    from apache_beam.testing.util import assert_that

    rows = example.clicks(3_000)
    expected = {}
    for campaign in ("shoes", "books"):
        expected[campaign] = Isotonic()
        expected[campaign].learn_many(*zip(*[one for key, one in rows if key == campaign], strict=True))

    def check(found):
        assert {key: cal.state_dict() for key, cal in found} == {
            key: cal.state_dict() for key, cal in expected.items()
        }, "counts of distinct scores are exact"

    with beam.Pipeline() as pipeline:
        combined = pipeline | beam.Create(rows) | beam.CombinePerKey(example.Calibrated(Isotonic()))
        assert_that(combined, check)


@pytest.mark.full
def test_what_does_not_merge_is_refused(example):
    with pytest.raises(ValueError, match="cannot be combined"):
        example.Calibrated(OnlinePlatt())
