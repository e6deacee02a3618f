"""streamcal keeps the probabilities of a deployed model calibrated while outcomes arrive, one observation at a time.

>>> from streamcal import VennAbers, Window
>>> cal = VennAbers(forgetting=Window(50_000))
>>> for score, y in [(0.2, False), (0.7, True), (0.4, False), (0.6, True)]:
...     p = cal.predict_one(score)
...     cal.learn_one(score, y)
>>> cal.predict_interval_one(0.65)
(0.5, 1.0)
"""

from streamcal.base import (
    CalibrationMap,
    Calibrator,
    CapabilityError,
    InputError,
    MergeError,
    RetractionError,
    SolverError,
    StateError,
    StreamcalError,
)
from streamcal.calibrators.adaptive import AdaptiveCalibration
from streamcal.calibrators.bbq import BBQ
from streamcal.calibrators.bernstein import Bernstein
from streamcal.calibrators.centered_isotonic import CenteredIsotonic
from streamcal.calibrators.histogram import HistogramBinning
from streamcal.calibrators.identity import Identity
from streamcal.calibrators.isotonic import Isotonic
from streamcal.calibrators.neighbourhoods import FixedWidth, NearestScores, ScoreIntervals
from streamcal.calibrators.online_platt import OnlinePlatt
from streamcal.calibrators.platt import Platt
from streamcal.calibrators.smooth_isotonic import SmoothIsotonic
from streamcal.calibrators.venn_abers import VennAbers
from streamcal.forgetting import Decay, Forever, Window
from streamcal.portable import load_map
from streamcal.prior import Prior
from streamcal.registry import REGISTRY
from streamcal.scales import EmpiricalCDF, Interval, Logit, Probability

__version__ = "0.1.0"

__all__ = [
    "BBQ",
    "REGISTRY",
    "AdaptiveCalibration",
    "Bernstein",
    "CalibrationMap",
    "Calibrator",
    "CapabilityError",
    "CenteredIsotonic",
    "Decay",
    "EmpiricalCDF",
    "FixedWidth",
    "Forever",
    "HistogramBinning",
    "Identity",
    "InputError",
    "Interval",
    "Isotonic",
    "Logit",
    "MergeError",
    "NearestScores",
    "OnlinePlatt",
    "Platt",
    "Prior",
    "Probability",
    "RetractionError",
    "ScoreIntervals",
    "SmoothIsotonic",
    "SolverError",
    "StateError",
    "StreamcalError",
    "VennAbers",
    "Window",
    "__version__",
    "load_map",
]
