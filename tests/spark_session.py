"""A Spark session of this machine for tests, and why there is none."""

import importlib
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import streamcal

#: Set where Spark has to be there, so that nothing is skipped: `.ci/run` does.
REQUIRED = "STREAMCAL_SPARK"
#: The JVM and two Python workers; Arrow batches are small, so that tests see several of them.
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.session.timeZone": "America/Los_Angeles",  # times are to be those of UTC anyway
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200",
}


def needed(java=True):
    """Skip the test, or the file, where Spark cannot run, with a warning that says why; fail where it is required."""
    why = _missing(java)
    if why is None:
        return
    if os.environ.get(REQUIRED):
        pytest.fail(f"{REQUIRED} is set and {why}", pytrace=False)
    if java:
        warnings.warn(f"tests on Spark are skipped: {why}", stacklevel=2)
    pytest.skip(f"{why}; docs/testing.md says how these tests are run", allow_module_level=True)


def _missing(java):
    for name in ("pyspark", "google.protobuf"):
        try:
            importlib.import_module(name)
        except ImportError:
            return f"{name} is not installed"
    import pyspark

    if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 1):
        return f"PySpark {pyspark.__version__} is older than 4.1"
    if not java:
        return None
    if shutil.which("java") is None:
        return "there is no Java"
    said = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    return None if any(f'version "{one}' in said for one in (17, 21, 25)) else f"Java is not 17 or later: {said[:40]}"


def session():
    """Start a session on two threads of this machine."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    source = str(Path(streamcal.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    builder = SparkSession.builder.master("local[2]").appName("streamcal")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")  # tests expect errors
    return spark
