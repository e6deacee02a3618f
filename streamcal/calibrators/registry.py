"""The one list of methods: name → class. A new method is one file and one line here."""

from __future__ import annotations

from streamcal.calibrators.adaptive import AdaptiveCalibration
from streamcal.calibrators.auto import Auto
from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.bbq import BBQ
from streamcal.calibrators.bernstein import Bernstein
from streamcal.calibrators.bernstein_logistic import BernsteinLogistic
from streamcal.calibrators.beta import Beta
from streamcal.calibrators.centered_isotonic import CenteredIsotonic
from streamcal.calibrators.cross_venn_abers import CrossVennAbers
from streamcal.calibrators.elite import ELiTE
from streamcal.calibrators.enir import ENIR
from streamcal.calibrators.gaussian import Gaussian
from streamcal.calibrators.hedged_ops import HedgedOPS
from streamcal.calibrators.histogram import HistogramBinning
from streamcal.calibrators.identity import Identity
from streamcal.calibrators.isotonic import Isotonic
from streamcal.calibrators.linear_trend import LinearTrend
from streamcal.calibrators.monotone_polynomial import MonotonePolynomial
from streamcal.calibrators.near_isotonic import NearIsotonic
from streamcal.calibrators.online_beta import OnlineBeta
from streamcal.calibrators.online_platt import OnlinePlatt
from streamcal.calibrators.platt import Platt
from streamcal.calibrators.protected import Protected
from streamcal.calibrators.smooth_isotonic import SmoothIsotonic
from streamcal.calibrators.temperature import Temperature
from streamcal.calibrators.tracking_ops import TrackingOPS
from streamcal.calibrators.venn_abers import VennAbers

REGISTRY: dict[str, type[Calibrator]] = {
    method.name: method
    for method in (
        Identity,
        Platt,
        Temperature,
        Beta,
        Gaussian,
        Bernstein,
        BernsteinLogistic,
        MonotonePolynomial,
        HistogramBinning,
        BBQ,
        AdaptiveCalibration,
        Isotonic,
        CenteredIsotonic,
        SmoothIsotonic,
        NearIsotonic,
        ENIR,
        LinearTrend,
        ELiTE,
        VennAbers,
        CrossVennAbers,
        OnlinePlatt,
        OnlineBeta,
        TrackingOPS,
        HedgedOPS,
        Protected,
        Auto,
    )
}
