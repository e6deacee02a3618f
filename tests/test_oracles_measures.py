"""Calibration measures against the packages of others, where these are installed: relplot, netcal, model-diagnostics.

None of them is in the extra `test`, since netcal brings PyTorch. After `pip install relplot netcal model-diagnostics`
these tests run. The same measures are compared with plain transcriptions in `test_calibration_measures.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamcal.metrics import CORP, EqualMassECE, SmoothECE

#: Each in a cell of its own.
LEVELS = np.linspace(0.01, 0.95, 60)


def stream(bend: float, n: int = 3_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    p = rng.choice(LEVELS, n)
    return p, rng.random(n) < p**bend


def needed(package: str) -> Any:
    return pytest.importorskip(package, reason=f"needs {package}, which is in no extra: see the top of this file")


@pytest.mark.parametrize("bend", [0.5, 1.0, 1.2, 2.0])
def test_smooth_ece_is_that_of_relplot(bend: float) -> None:
    relplot = needed("relplot")
    p, y = stream(bend)
    found = SmoothECE()
    found.update_many(y, p)
    # relplot ends its search for the bandwidth at a width of 1e-3, and rounds the forecasts to a grid.
    assert found.get() == pytest.approx(relplot.smECE(f=p, y=y.astype(float)), abs=1e-3)


@pytest.mark.parametrize("bend", [0.5, 1.0, 2.0])
def test_equal_mass_ece_is_that_of_netcal(bend: float) -> None:
    needed("netcal")
    from netcal.metrics import ECE

    rng = np.random.default_rng(7)
    levels = np.linspace(0.05, 0.95, 10)
    p = np.repeat(levels, 300)  # bins of equal mass are the levels, whoever draws their edges
    y = rng.random(len(p)) < p**bend
    found = EqualMassECE(10)
    found.update_many(y, p)
    assert found.get() == pytest.approx(ECE(bins=10, equal_intervals=False).measure(p, y.astype(int)), abs=1e-9)


@pytest.mark.parametrize("bend", [0.5, 1.0, 2.0])
def test_corp_is_that_of_model_diagnostics(bend: float) -> None:
    needed("model_diagnostics")
    from model_diagnostics.scoring import SquaredError, decompose

    p, y = stream(bend)
    found = CORP("brier")
    found.update_many(y, p)
    table = decompose(y_obs=y.astype(float), y_pred=p, scoring_function=SquaredError())
    wanted = [float(table[name][0]) for name in ("score", "miscalibration", "discrimination", "uncertainty")]
    assert found.decomposition == pytest.approx(wanted, rel=1e-9, abs=1e-12)
