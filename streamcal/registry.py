"""The one list of methods: name → class. A new method is one file and one line here."""

from __future__ import annotations

from streamcal.base import Calibrator
from streamcal.calibrators.adaptive import AdaptiveCalibration
from streamcal.calibrators.bbq import BBQ
from streamcal.calibrators.bernstein import Bernstein
from streamcal.calibrators.centered_isotonic import CenteredIsotonic
from streamcal.calibrators.histogram import HistogramBinning
from streamcal.calibrators.identity import Identity
from streamcal.calibrators.isotonic import Isotonic
from streamcal.calibrators.online_platt import OnlinePlatt
from streamcal.calibrators.platt import Platt
from streamcal.calibrators.smooth_isotonic import SmoothIsotonic
from streamcal.calibrators.venn_abers import VennAbers

REGISTRY: dict[str, type[Calibrator]] = {
    method.name: method
    for method in (
        Identity,
        Platt,
        OnlinePlatt,
        HistogramBinning,
        BBQ,
        AdaptiveCalibration,
        Isotonic,
        CenteredIsotonic,
        SmoothIsotonic,
        Bernstein,
        VennAbers,
    )
}
