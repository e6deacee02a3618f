"""The registry of methods of one score: name → class. A new method is one file and one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamcal.kernels import COMPILED
from streamcal.lazy import Methods

if TYPE_CHECKING:
    from streamcal.calibrators.base import Calibrator

#: The methods of one score. A module is imported when its method is first looked up.
REGISTRY: Methods[type[Calibrator]] = Methods(
    {
        "identity": "streamcal.calibrators.identity.Identity",
        "platt": "streamcal.calibrators.platt.Platt",
        "temperature": "streamcal.calibrators.temperature.Temperature",
        "beta": "streamcal.calibrators.beta.Beta",
        "gaussian": "streamcal.calibrators.gaussian.Gaussian",
        "bernstein": "streamcal.calibrators.bernstein.Bernstein",
        "bernstein-logistic": "streamcal.calibrators.bernstein_logistic.BernsteinLogistic",
        "monotone-polynomial": "streamcal.calibrators.monotone_polynomial.MonotonePolynomial",
        "histogram-binning": "streamcal.calibrators.histogram.HistogramBinning",
        "bbq": "streamcal.calibrators.bbq.BBQ",
        "adaptive-calibration": "streamcal.calibrators.adaptive.AdaptiveCalibration",
        "isotonic": "streamcal.calibrators.isotonic.Isotonic",
        "centered-isotonic": "streamcal.calibrators.centered_isotonic.CenteredIsotonic",
        "smooth-isotonic": "streamcal.calibrators.smooth_isotonic.SmoothIsotonic",
        "near-isotonic": "streamcal.calibrators.near_isotonic.NearIsotonic",
        "enir": "streamcal.calibrators.enir.ENIR",
        "linear-trend": "streamcal.calibrators.linear_trend.LinearTrend",
        "elite": "streamcal.calibrators.elite.ELiTE",
        "venn-abers": "streamcal.calibrators.venn_abers.VennAbers",
        "cross-venn-abers": "streamcal.calibrators.cross_venn_abers.CrossVennAbers",
        "online-platt": "streamcal.calibrators.online_platt.OnlinePlatt",
        "online-beta": "streamcal.calibrators.online_beta.OnlineBeta",
        "tracking-ops": "streamcal.calibrators.tracking_ops.TrackingOPS",
        "hedged-ops": "streamcal.calibrators.hedged_ops.HedgedOPS",
        "protected": "streamcal.calibrators.protected.Protected",
        "auto": "streamcal.calibrators.auto.Auto",
    }
)

#: Calibrators made of methods of one score that the caller gives, which have no name on the command line.
COMPOSED: Methods[type[Calibrator]] = Methods(
    {"prequential-choice": "streamcal.calibrators.prequential_choice.PrequentialChoice"}
)

#: The method where none is chosen: first in the race, at some microseconds an observation (docs/which.md). Where the
#: kernels are not compiled, a step of it takes some 3 ms, a thousand times as long: there it is one of microseconds.
DEFAULT_METHOD = "auto" if COMPILED else "online-platt"
#: The methods compared by default: those that the race advises (`docs/which.md`), and the exact isotonic fit.
COMPARED = (*(("auto",) if COMPILED else ()), "online-platt", "online-beta", "bernstein", "venn-abers", "isotonic")
#: The score itself, which is always among those compared.
RAW = "raw"
