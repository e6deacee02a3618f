"""streamcal keeps the probabilities of a deployed model calibrated while outcomes arrive, one observation at a time.

>>> from streamcal import VennAbers, Window
>>> cal = VennAbers(forgetting=Window(50_000))
>>> for score, y in [(0.2, False), (0.7, True), (0.4, False), (0.6, True)]:
...     p = cal.predict_one(score)
...     cal.learn_one(score, y)
>>> cal.predict_interval_one(0.65)
(0.5, 1.0)
"""

from typing import TYPE_CHECKING

from streamcal import compiled, lazy
from streamcal.calibrators.registry import COMPOSED
from streamcal.calibrators.registry import REGISTRY as REGISTRY

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.app import plot as plot
    from streamcal.calibrators.adaptive import AdaptiveCalibration as AdaptiveCalibration
    from streamcal.calibrators.auto import Auto as Auto
    from streamcal.calibrators.base import Calibrator as Calibrator
    from streamcal.calibrators.bbq import BBQ as BBQ
    from streamcal.calibrators.bernstein import Bernstein as Bernstein
    from streamcal.calibrators.bernstein_logistic import BernsteinLogistic as BernsteinLogistic
    from streamcal.calibrators.beta import Beta as Beta
    from streamcal.calibrators.centered_isotonic import CenteredIsotonic as CenteredIsotonic
    from streamcal.calibrators.cross_venn_abers import CrossVennAbers as CrossVennAbers
    from streamcal.calibrators.elite import ELiTE as ELiTE
    from streamcal.calibrators.enir import ENIR as ENIR
    from streamcal.calibrators.gaussian import Gaussian as Gaussian
    from streamcal.calibrators.hedged_ops import HedgedOPS as HedgedOPS
    from streamcal.calibrators.histogram import HistogramBinning as HistogramBinning
    from streamcal.calibrators.identity import Identity as Identity
    from streamcal.calibrators.isotonic import Isotonic as Isotonic
    from streamcal.calibrators.linear_trend import LinearTrend as LinearTrend
    from streamcal.calibrators.monotone_polynomial import MonotonePolynomial as MonotonePolynomial
    from streamcal.calibrators.near_isotonic import NearIsotonic as NearIsotonic
    from streamcal.calibrators.neighbourhoods import FixedWidth as FixedWidth
    from streamcal.calibrators.neighbourhoods import NearestScores as NearestScores
    from streamcal.calibrators.neighbourhoods import ScoreIntervals as ScoreIntervals
    from streamcal.calibrators.online_beta import OnlineBeta as OnlineBeta
    from streamcal.calibrators.online_platt import OnlinePlatt as OnlinePlatt
    from streamcal.calibrators.platt import Platt as Platt
    from streamcal.calibrators.prequential_choice import PrequentialChoice as PrequentialChoice
    from streamcal.calibrators.protected import Protected as Protected
    from streamcal.calibrators.smooth_isotonic import SmoothIsotonic as SmoothIsotonic
    from streamcal.calibrators.temperature import Temperature as Temperature
    from streamcal.calibrators.tracking_ops import TrackingOPS as TrackingOPS
    from streamcal.calibrators.venn_abers import VennAbers as VennAbers
    from streamcal.errors import CapabilityError as CapabilityError
    from streamcal.errors import InputError as InputError
    from streamcal.errors import MergeError as MergeError
    from streamcal.errors import RetractionError as RetractionError
    from streamcal.errors import SolverError as SolverError
    from streamcal.errors import StateError as StateError
    from streamcal.errors import StreamcalError as StreamcalError
    from streamcal.learners.pending import Pending as Pending
    from streamcal.maps.base import CalibrationMap as CalibrationMap
    from streamcal.maps.onnx_graph import append_to_onnx as append_to_onnx
    from streamcal.maps.portable import load_map as load_map
    from streamcal.parameters.forgetting import Decay as Decay
    from streamcal.parameters.forgetting import Forever as Forever
    from streamcal.parameters.forgetting import Window as Window
    from streamcal.parameters.prior import DummyObservations as DummyObservations
    from streamcal.parameters.prior import Prior as Prior
    from streamcal.parameters.scales import EmpiricalCDF as EmpiricalCDF
    from streamcal.parameters.scales import Interval as Interval
    from streamcal.parameters.scales import Logit as Logit
    from streamcal.parameters.scales import Probability as Probability
    from streamcal.stream.comparing import compare as compare
    from streamcal.stream.durable import load as load
    from streamcal.stream.durable import save as save
    from streamcal.stream.frames import calibrate as calibrate
else:  # the same names, each imported when it is first used
    __getattr__, __dir__, __all__ = lazy.attributes(
        globals(),
        {
            "streamcal.app": "plot",
            "streamcal.calibrators.base": "Calibrator",
            "streamcal.calibrators.neighbourhoods": "FixedWidth NearestScores ScoreIntervals",
            "streamcal.errors": (
                "CapabilityError InputError MergeError RetractionError SolverError StateError StreamcalError"
            ),
            "streamcal.learners.pending": "Pending",
            "streamcal.maps.base": "CalibrationMap",
            "streamcal.maps.onnx_graph": "append_to_onnx",
            "streamcal.maps.portable": "load_map",
            "streamcal.parameters.forgetting": "Decay Forever Window",
            "streamcal.parameters.prior": "DummyObservations Prior",
            "streamcal.parameters.scales": "EmpiricalCDF Interval Logit Probability",
            "streamcal.stream.comparing": "compare",
            "streamcal.stream.durable": "load save",
            "streamcal.stream.frames": "calibrate",
        },
        REGISTRY.by_class | COMPOSED.by_class,
    )
    __all__ += ["REGISTRY", "__version__"]

__version__ = "0.1.0"

compiled.warn_of_an_uncompiled_source_tree()
