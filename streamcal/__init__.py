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
from streamcal.calibrators.registry import COMPOSED, REGISTRY

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.app import plot
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
    from streamcal.calibrators.neighbourhoods import FixedWidth, NearestScores, ScoreIntervals
    from streamcal.calibrators.online_beta import OnlineBeta
    from streamcal.calibrators.online_platt import OnlinePlatt
    from streamcal.calibrators.platt import Platt
    from streamcal.calibrators.prequential_choice import PrequentialChoice
    from streamcal.calibrators.protected import Protected
    from streamcal.calibrators.smooth_isotonic import SmoothIsotonic
    from streamcal.calibrators.temperature import Temperature
    from streamcal.calibrators.tracking_ops import TrackingOPS
    from streamcal.calibrators.venn_abers import VennAbers
    from streamcal.errors import (
        CapabilityError,
        InputError,
        MergeError,
        RetractionError,
        SolverError,
        StateError,
        StreamcalError,
    )
    from streamcal.maps.base import CalibrationMap
    from streamcal.maps.onnx_graph import append_to_onnx
    from streamcal.maps.portable import load_map
    from streamcal.parameters.forgetting import Decay, Forever, Window
    from streamcal.parameters.prior import DummyObservations, Prior
    from streamcal.parameters.scales import EmpiricalCDF, Interval, Logit, Probability
    from streamcal.stream.comparing import compare
    from streamcal.stream.durable import load, save
    from streamcal.stream.frames import calibrate
else:  # the same names, each imported when it is first used
    __getattr__, __dir__ = lazy.attributes(
        globals(),
        {
            **REGISTRY.by_class,
            **COMPOSED.by_class,
            "CalibrationMap": "streamcal.maps.base.CalibrationMap",
            "Calibrator": "streamcal.calibrators.base.Calibrator",
            "CapabilityError": "streamcal.errors.CapabilityError",
            "Decay": "streamcal.parameters.forgetting.Decay",
            "DummyObservations": "streamcal.parameters.prior.DummyObservations",
            "EmpiricalCDF": "streamcal.parameters.scales.EmpiricalCDF",
            "FixedWidth": "streamcal.calibrators.neighbourhoods.FixedWidth",
            "Forever": "streamcal.parameters.forgetting.Forever",
            "InputError": "streamcal.errors.InputError",
            "Interval": "streamcal.parameters.scales.Interval",
            "Logit": "streamcal.parameters.scales.Logit",
            "MergeError": "streamcal.errors.MergeError",
            "NearestScores": "streamcal.calibrators.neighbourhoods.NearestScores",
            "Prior": "streamcal.parameters.prior.Prior",
            "Probability": "streamcal.parameters.scales.Probability",
            "RetractionError": "streamcal.errors.RetractionError",
            "ScoreIntervals": "streamcal.calibrators.neighbourhoods.ScoreIntervals",
            "SolverError": "streamcal.errors.SolverError",
            "StateError": "streamcal.errors.StateError",
            "StreamcalError": "streamcal.errors.StreamcalError",
            "Window": "streamcal.parameters.forgetting.Window",
            "append_to_onnx": "streamcal.maps.onnx_graph.append_to_onnx",
            "calibrate": "streamcal.stream.frames.calibrate",
            "compare": "streamcal.stream.comparing.compare",
            "load": "streamcal.stream.durable.load",
            "load_map": "streamcal.maps.portable.load_map",
            "plot": "streamcal.app.plot",
            "save": "streamcal.stream.durable.save",
        },
    )

__version__ = "0.1.0"

__all__ = [
    "BBQ",
    "ENIR",
    "REGISTRY",
    "AdaptiveCalibration",
    "Auto",
    "Bernstein",
    "BernsteinLogistic",
    "Beta",
    "CalibrationMap",
    "Calibrator",
    "CapabilityError",
    "CenteredIsotonic",
    "CrossVennAbers",
    "Decay",
    "DummyObservations",
    "ELiTE",
    "EmpiricalCDF",
    "FixedWidth",
    "Forever",
    "Gaussian",
    "HedgedOPS",
    "HistogramBinning",
    "Identity",
    "InputError",
    "Interval",
    "Isotonic",
    "LinearTrend",
    "Logit",
    "MergeError",
    "MonotonePolynomial",
    "NearIsotonic",
    "NearestScores",
    "OnlineBeta",
    "OnlinePlatt",
    "Platt",
    "PrequentialChoice",
    "Prior",
    "Probability",
    "Protected",
    "RetractionError",
    "ScoreIntervals",
    "SmoothIsotonic",
    "SolverError",
    "StateError",
    "StreamcalError",
    "Temperature",
    "TrackingOPS",
    "VennAbers",
    "Window",
    "__version__",
    "append_to_onnx",
    "calibrate",
    "compare",
    "load",
    "load_map",
    "plot",
    "save",
]

compiled.warn_of_an_uncompiled_source_tree()
