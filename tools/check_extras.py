"""Whether an extra, installed alone beside the package, does what its page says.

    python tools/check_extras.py plot

`.ci/run` installs each extra into an environment of its own and runs this there. The extras `docs`, `lint` and `wheel`
are tried by the steps of `.ci/run` that need them, and `test` and `bench` by the tests themselves.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

SCORES = np.linspace(0.01, 0.99, 200)
LABELS = np.arange(200) % 7 < 7.0 * SCORES**2
#: Where the service of `serve` listens, and seconds until it has to answer.
PORT, PATIENCE = 8_417, 60.0


def plot() -> None:
    """Save a diagram as a picture, as docs/measures.md does."""
    from streamcal import plot as drawing
    from streamcal.metrics import EqualMassECE

    ece = EqualMassECE()
    ece.update_many(LABELS, SCORES)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "reliability.png")
        drawing.plot_reliability({"raw": ece.reliability(bins=5)}).figure.savefig(path)
        assert path.read_bytes().startswith(b"\x89PNG")


def sklearn() -> None:
    """Calibrate a classifier, as docs/sklearn.md does."""
    from sklearn.naive_bayes import GaussianNB

    from streamcal.sklearn import StreamingCalibratedClassifier

    X = SCORES[:, None]
    p = StreamingCalibratedClassifier(GaussianNB(), "beta").fit(X, LABELS).predict_proba(X)
    assert p.shape == (len(X), 2)


def conic() -> None:
    """Fit the methods that solve semidefinite programs."""
    from streamcal import MonotonePolynomial

    cal = MonotonePolynomial()
    cal.learn_many(SCORES, LABELS)
    assert cal.predict_one(0.9) > cal.predict_one(0.1)


def onnx() -> None:
    """Export a map, as docs/maps.md does."""
    from streamcal import Isotonic

    cal = Isotonic()
    cal.learn_many(SCORES, LABELS)
    assert cal.map().to_onnx()


def serve() -> None:
    """Start the service of docs/serving.md, and ask it."""
    command = [sys.executable, "-P", "-m", "streamcal", "serve", "--horizon", "6h", "--memory", "--port", str(PORT)]
    process = subprocess.Popen(command)
    try:
        until, answered = time.monotonic() + PATIENCE, False
        while not answered:
            assert time.monotonic() < until, "the service does not answer"
            assert process.poll() is None, "the service has ended"
            time.sleep(0.1)
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{PORT}/readyz", timeout=5.0) as answer:
                answered = answer.status == 200
    finally:
        process.terminate()
        process.wait(PATIENCE)


def spark() -> None:
    """Import what docs/spark.md needs; the tests of Spark run it."""
    for name in ("pyspark.sql", "pandas", "google.protobuf", "streamcal.spark"):
        importlib.import_module(name)


CHECKS: dict[str, Callable[[], None]] = {one.__name__: one for one in (plot, sklearn, conic, onnx, serve, spark)}


if __name__ == "__main__":
    for extra in sys.argv[1:]:
        CHECKS[extra]()
        print(f"the extra {extra}, alone, does what its page says")
