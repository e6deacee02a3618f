"""Every example in every docstring of the package is run."""

import doctest
import importlib
import pkgutil

import pytest

import streamcal

#: Modules whose host library is an extra.
OPTIONAL = {
    "streamcal.sklearn": "sklearn",
    "streamcal.app.plot": "matplotlib",
    "streamcal.serving.app": "starlette",
    "streamcal.serving.metrics": "prometheus_client",
    "streamcal.serving.running": "uvicorn",
    "streamcal.spark.audits": "pyspark",
    "streamcal.spark.frames": "pyspark",
    "streamcal.spark.segments": "pyspark",
    "streamcal.spark.streams": "pyspark",
}
#: Those that learn for a second or more.
COSTLY = ("streamcal.river.fused", "streamcal.river.multiclass")
MODULES = ["streamcal", *(module.name for module in pkgutil.walk_packages(streamcal.__path__, "streamcal."))]


def examples_in(name):
    if name in OPTIONAL:
        pytest.importorskip(OPTIONAL[name])
    return doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name), name)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] if name in COSTLY else []) for name in MODULES]
)
def test_the_examples_are_right(name):
    runner = doctest.DocTestRunner(optionflags=doctest.FAIL_FAST)
    said = []
    for test in examples_in(name):
        runner.run(test, out=said.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(said)


def test_there_are_examples_and_they_are_found():
    found = [test.name for name in MODULES if name not in OPTIONAL for test in examples_in(name) if test.examples]
    for expected in (
        "streamcal",
        "streamcal.calibrators.venn_abers.VennAbers",
        "streamcal.parameters.forgetting.Window",
    ):
        assert expected in found
