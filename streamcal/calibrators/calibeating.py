"""Calibeating: online Platt scaling, whose forecast determines only the bin of an observation."""

from __future__ import annotations

from typing import Any

from streamcal.calibrators.newton import INITIAL_CURVATURE, new_newton, newton_state
from streamcal.kernels.mixture.hedging import Calibeaten
from streamcal.maps.steps import BinnedSigmoidMap
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.scales import Scale
from streamcal.states import Reader, row

#: `HedgedOPS` keeps two tables of bins² numbers: 16 MB.
MOST_BINS = 1_000


def checked_bins(bins: Any) -> int:
    """Return a number of bins of equal width, or raise `InputError`."""
    return whole_number(bins, "bins", 1, MOST_BINS)


def calibeaten(bins: Any) -> Calibeaten:
    """Return online Platt scaling followed by these forecasts by bin, a `BinForecaster`."""
    return Calibeaten(new_newton((1.0, 0.0), INITIAL_CURVATURE), bins)


def map_of(scale: Scale, kernel: Calibeaten) -> BinnedSigmoidMap:
    """Return the map of the kernel."""
    slope, offset = kernel.parameters()
    return BinnedSigmoidMap(scale, slope, offset, kernel.forecasts())


def calibeaten_state(bins: Reader) -> Reader:
    """Return a reader of the state of a `Calibeaten`, given that of its forecasts by bin."""
    return row(newton_state(2, INITIAL_CURVATURE), bins)
