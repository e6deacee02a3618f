"""Every learner that has a golden case: how it is built, which stream it is given, and how close replays must come."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from golden.streams import REFRESH

from streamcal import (
    BBQ,
    REGISTRY,
    Beta,
    CrossVennAbers,
    Decay,
    EmpiricalCDF,
    FixedWidth,
    Forever,
    HistogramBinning,
    Interval,
    Isotonic,
    Logit,
    NearestScores,
    NearIsotonic,
    OnlinePlatt,
    Platt,
    Prior,
    ScoreIntervals,
    VennAbers,
    Window,
    fusion,
    multiclass,
    regression,
)
from streamcal.fusion import BernsteinFusion
from streamcal.multiclass import (
    Dirichlet,
    MulticlassVennAbers,
    OneVsRest,
    OnlineVectorScaling,
    StructuredMatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from streamcal.regression import (
    RBF,
    AdaptiveConformal,
    AdaptiveScale,
    Composition,
    ConformalPredictive,
    EmpiricalDensity,
    GaussianProcessCDF,
    IsotonicDistributional,
    Logistic,
    MondrianConformal,
    QuantileRecalibration,
    ScaleRecalibration,
    VennAbersRegression,
)

# -- tolerances ----------------------------------------------------------------------------------------------------
# Predictions are compared with those of another machine and other releases of NumPy and SciPy, whose sums and
# logarithms differ in the last place. What magnifies that is described in tests/laws/binary.py, with like figures.

#: A closed formula of sums.
CLOSED = 1e-12
#: An iterative solve stops at a gradient of 1e-12 of the weight, and starts where the last one ended.
SOLVED = 1e-9
#: A ridge of 1e-9 settles what few scores leave open of `Beta`: it magnifies the rounding of the gradient.
LEFT_OPEN = 1e-6
#: A ridge of 1e-10 settles Bernstein coefficients between few scores. It magnifies the rounding of their sums, and that
#: of retractions more: 3e-5 seen between a window that went on and the same window, read from its state.
RIDGED = 1e-4
#: OSQP stops at residuals that leave fitted values right to this (`Bernstein`, `BernsteinFusion`).
OSQP_SOLVED = 1e-4
#: An interior point of a semidefinite program settles a curve between few observations to this only.
CONIC_SOLVED = 5e-3
#: The likelihood of a copula is searched until its parameter is known to 1e-6 (`fit_copulas`).
SEARCHED = 1e-5
#: The mass of a density is divided by the sum of all, and Newton's method stops at a gradient of 1e-12.
DENSITY_SOLVED = 1e-7
#: Of a composition each stage learns forecasts that are rounded by the one before.
SUCCESSIVE = 1e-9
#: The ridge of `Beta`, as above, for the density that its differences make.
DENSITY_LEFT_OPEN = 1e-5

BINARY_WITHIN = {
    **dict.fromkeys(
        ["identity", "gaussian", "histogram-binning", "bbq", "adaptive-calibration", "isotonic", "centered-isotonic"],
        CLOSED,
    ),
    **dict.fromkeys(["smooth-isotonic", "venn-abers", "cross-venn-abers"], CLOSED),
    **dict.fromkeys(["bernstein", "bernstein-logistic"], RIDGED),
    "beta": LEFT_OPEN,
    "monotone-polynomial": CONIC_SOLVED,
}
FUSION_WITHIN = {
    "bernstein-fusion": RIDGED,
    "copula-fusion": SEARCHED,
    "partial-order-venn-abers": CLOSED,
    "prequential-fusion": RIDGED,
}

# -- cases ---------------------------------------------------------------------------------------------------------

POLICIES: dict[str, Any] = {
    "forever": Forever(),
    "window": Window(40),
    "time-window": Window(12.0, by="time"),
    "decay": Decay(25),
    "time-decay": Decay(8.0, by="time"),
}
TIMED = ("time-window", "time-decay")


@dataclass(frozen=True)
class Case:
    """A learner under a policy (None: it has no policy), and the stream it is given."""

    name: str
    build: Callable[[], Any]
    policy: str | None
    within: float
    stream: str = "long"

    @property
    def timed(self) -> bool:
        return self.policy in TIMED

    @property
    def writes_its_map(self) -> bool:
        """Once for each variant; other policies lead to maps of the same kinds."""
        return self.policy in ("forever", None)


def is_sequential(method: type[Any]) -> bool:
    return "forgetting" not in inspect.signature(method).parameters


def under(name: str, build: Callable[[Any], Any], policies: Any, within: float, stream: str = "long") -> Iterator[Case]:
    """Yield a case for each policy; `name` may contain a variant after a blank."""
    method, _, variant = name.partition(" ")
    for policy in policies:
        words = [word for word in (method, policy, variant) if word]
        yield Case("/".join(words), lambda p=policy: build(POLICIES.get(p)), policy, within, stream)


# -- one score and several scores: variants from the signatures of the constructors ----------------------------------

#: What parameters of these names are tried with; of a `Literal`, every value is.
VALUES: dict[str, tuple[Any, ...]] = {
    "scale": (Logit(-4.0, 4.0), Interval(0.0625, 0.875), EmpiricalCDF.from_scores([0.0, 0.1, 0.3, 0.3, 0.5, 0.9, 1.0])),
    "prior": (Prior(20.0),),
    "resolution": (None, 64),
    "refresh_every": (REFRESH,),
    "degree": (3,),
    "tolerance": (1e-4,),
    "bins": (2,),
    "folds": (2,),
    "breadth": (2.0,),
    "interval": (NearestScores(0.5), FixedWidth(0.125), ScoreIntervals((0.0, 1.0), (-0.25, 0.875), (0.125, 1.25))),
    "discount": (1.0, 0.875),
    "seed": (7,),
    "jump_rates": ((0.25,),),
    "passive": (0.125,),
    "bound": (2.0,),
    "penalty": (0.01,),
    "delay": (3,),
    "families": (("clayton", "frank"),),
    "n_scores": (3,),
}
#: Parameters of the memory: these are tried under more policies than `Forever`.
OF_MEMORIES = {"prior": ("window",), "refresh_every": ("window", "time-decay"), "resolution": ("window",)}
#: One method for each kind of statistic, in which the pseudo-observations of a prior fade too.
FADING_PRIOR = ("platt", "bernstein", "isotonic")
#: A semidefinite program of the default degree takes 4 ms, one of this degree ½ ms; the default is a variant.
SMALL: dict[str, dict[str, Any]] = {
    "monotone-polynomial": {"degree": 6},
    "bernstein-fusion": {"degrees": 3},
    "copula-fusion": {"resolution": 128},
    "prequential-fusion": {"candidates": (BernsteinFusion(1), BernsteinFusion(2, refresh_every=REFRESH))},
}
MORE: dict[str, list[dict[str, Any]]] = {
    "copula-fusion": [{"resolution": None}],
    "histogram-binning": [{"bins": None}],
    "bernstein-fusion": [{"degrees": 5}, {"degrees": (2, 4)}, {"degrees": 2, "n_scores": 3}],
    "prequential-fusion": [{"candidates": None}],
}
#: Methods whose solve is slow have shorter streams, and so fewer distinct scores.
SLOW = (
    "monotone-polynomial",
    "bbq",
    "enir",
    "linear-trend",
    "elite",
    "copula-fusion",
    "mrmic",
    "prequential-fusion",
    "gaussian-process-cdf",
)
#: A state of these holds those of some twenty other methods.
LARGE = ("auto",)


def variants(method: type[Any], values: dict[str, tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    """Parameters, the policy apart: the defaults, and every other value of each parameter alone."""
    hints = typing.get_type_hints(method.__init__)
    yield {}
    for name, parameter in inspect.signature(method).parameters.items():
        if name in SMALL.get(method.name, {}) and "degree" in name:
            yield {name: parameter.default}
        literal = typing.get_origin(hints.get(name)) is typing.Literal
        for value in typing.get_args(hints[name]) if literal else values.get(name, ()):
            if value != parameter.default:
                yield {name: value}
    yield from MORE.get(method.name, [])


def shown(value: Any) -> str:
    """Return a value for the name of a case: the class alone if its text is long."""
    return repr(value) if len(repr(value)) <= 30 else type(value).__name__


def of_method(method: type[Any], values: dict[str, tuple[Any, ...]], within: float) -> Iterator[Case]:
    """Yield the method under every policy, its variants without forgetting, and memories under some policies."""
    stream = "tiny" if method.name in LARGE else "short" if method.name in SLOW else "long"
    for params in variants(method, values):
        name = f"{method.name} {','.join(f'{k}={shown(v)}' for k, v in params.items())}".strip()
        allowed = next((OF_MEMORIES[k] for k in params if k in OF_MEMORIES), ())
        allowed += ("decay",) if "prior" in params and method.name in FADING_PRIOR else ()
        policies = (None,) if is_sequential(method) else ("forever", *allowed) if params else tuple(POLICIES)
        arguments = {**SMALL.get(method.name, {}), **params}

        def build(policy: Any, arguments: dict[str, Any] = arguments) -> Any:
            return method(**arguments, **({} if policy is None else {"forgetting": policy}))

        close = OSQP_SOLVED if params.get("solver") == "osqp" else within
        streams = f"{stream} of 3" if params.get("n_scores") == 3 else stream
        yield from under(name, build, policies, close, streams)


def of_one_score() -> list[Case]:
    return [
        case for name, method in REGISTRY.items() for case in of_method(method, VALUES, BINARY_WITHIN.get(name, SOLVED))
    ]


def of_several_scores() -> list[Case]:
    values = {**VALUES, "scale": (Logit(-4.0, 4.0), (Logit(), Interval(0.0625, 0.875)))}
    return [
        case
        for name, method in fusion.METHODS.items()
        for case in of_method(method, values, FUSION_WITHIN.get(name, SOLVED))
    ]


# -- many classes and distributions: variants by hand ----------------------------------------------------------------


def of_many_classes() -> list[Case]:
    every, some = tuple(POLICIES), ("forever", "window")
    cases = [
        *under("one-vs-rest beta", lambda p: OneVsRest(Beta(resolution=256, forgetting=p)), every, LEFT_OPEN),
        *under("one-vs-rest isotonic", lambda p: OneVsRest(Isotonic(forgetting=p)), every, CLOSED),
        *under("one-vs-rest venn-abers", lambda p: OneVsRest(VennAbers(forgetting=p)), every, CLOSED),
        *under("one-vs-rest ops", lambda _: OneVsRest("online-platt"), (None,), SOLVED),
        *under("one-vs-rest discount", lambda _: OneVsRest(OnlinePlatt(discount=0.875)), (None,), SOLVED),
        *under("one-vs-rest default", lambda _: OneVsRest(), ("forever",), LEFT_OPEN),
        *under("one-vs-rest prior", lambda p: OneVsRest(Isotonic(prior=Prior(20.0), forgetting=p)), some, CLOSED),
        *under("one-vs-rest refresh", lambda p: OneVsRest(Platt(refresh_every=REFRESH, forgetting=p)), some, SOLVED),
        *under("one-vs-rest near", lambda p: OneVsRest(NearIsotonic(forgetting=p)), ("forever",), SOLVED),
        *under("one-vs-rest bbq", lambda p: OneVsRest(BBQ(resolution=64, forgetting=p)), ("forever",), CLOSED),
        *under("one-vs-rest cross", lambda p: OneVsRest(CrossVennAbers(forgetting=p)), some, CLOSED),
        *under("venn-abers ovr", lambda p: MulticlassVennAbers(forgetting=p), every, CLOSED),
        *under("venn-abers ovo", lambda p: MulticlassVennAbers("ovo", forgetting=p), every, CLOSED),
        *under("online-vector-scaling", lambda _: OnlineVectorScaling(), (None,), SOLVED),
        *under("online-vector discount", lambda _: OnlineVectorScaling(discount=0.875), (None,), SOLVED),
    ]
    for point in ("brier-minimax", "self-consistent"):
        cases += under(
            f"venn-abers {point}", lambda p, b=point: MulticlassVennAbers("ovr", b, forgetting=p), some, CLOSED
        )
    cases += under("venn-abers grid", lambda p: MulticlassVennAbers("ovo", resolution=64, forgetting=p), some, CLOSED)
    for method in (TemperatureScaling, VectorScaling, Dirichlet):

        def build(policy: Any, method: Any = method, limit: int | None = None, **params: Any) -> Any:
            return method(forgetting=policy, limit=limit, **params)  # without a limit, as they were recorded first

        cases += under(method.name, build, every, SOLVED)
        cases += under(f"{method.name} prior", lambda p, build=build: build(p, prior=4.0), ("forever",), SOLVED)
        refreshing = ("forever", "window", "time-decay")
        cases += under(
            f"{method.name} refresh", lambda p, build=build: build(p, refresh_every=REFRESH), refreshing, SOLVED
        )
        cases += under(f"{method.name} limit", lambda p, build=build: build(p, limit=64), every, SOLVED)
    cases += under(
        "structured-matrix-scaling", lambda p: StructuredMatrixScaling(limit=None, forgetting=p), POLICIES, SOLVED
    )
    cases += under("structured-matrix limit", lambda p: StructuredMatrixScaling(limit=64, forgetting=p), some, SOLVED)
    cases += under(
        "dirichlet penalised",
        lambda p: Dirichlet(off_diagonal=0.1, intercept=0.01, limit=None, forgetting=p),
        some,
        SOLVED,
    )
    return cases


#: The outcomes that thresholds are laid over.
SUPPORT = (-4.0, 4.0)


def density(calibrator: Callable[[Any], Any], thresholds: Any) -> Callable[[Any], Any]:
    return lambda policy: EmpiricalDensity(calibrator(policy), thresholds, support=SUPPORT)


def of_distributions() -> list[Case]:
    every, some = tuple(POLICIES), ("forever", "window")
    beta, ovo = density(lambda p: Beta(resolution=64, forgetting=p), 4), "self-consistent"
    small: dict[str, Any] = {"support": SUPPORT, "points": 33, "resolution": 64}
    clamped: dict[str, Any] = {"scale": Logit(-8.0, 8.0)}  # the default when they were recorded
    return [
        *under("empirical-density beta", beta, every, DENSITY_LEFT_OPEN),
        *under("empirical-density platt", density(lambda p: Platt(forgetting=p), 4), every, DENSITY_SOLVED),
        *under(
            "empirical-density refresh",
            density(lambda p: Platt(refresh_every=REFRESH, forgetting=p), 3),
            some,
            DENSITY_SOLVED,
        ),
        *under("empirical-density isotonic", density(lambda p: Isotonic(forgetting=p), [-1.0, 0.0, 2.0]), some, CLOSED),
        *under("empirical-density bins", density(lambda p: HistogramBinning(2, forgetting=p), [0.0]), some, CLOSED),
        *under("empirical-density venn-abers", density(lambda p: VennAbers(forgetting=p), 3), some, CLOSED),
        *under("empirical-density ops", density(lambda _: "online-platt", 4), (None,), DENSITY_SOLVED),
        *under("empirical-density default", density(lambda _: "beta", 16), ("forever",), DENSITY_LEFT_OPEN),
        *under("quantile-recalibration", lambda p: QuantileRecalibration(forgetting=p), every, CLOSED),
        *under(
            "quantile-recalibration smooth",
            lambda p: QuantileRecalibration(2.0, forgetting=p, resolution=16),
            some,
            CLOSED,
        ),
        *under(
            "quantile-recalibration uniform",
            lambda p: QuantileRecalibration(2.0, forgetting=p, resolution=16, scale="uniform"),
            some,
            CLOSED,
        ),
        *under("scale-recalibration", lambda p: ScaleRecalibration(forgetting=p), every, CLOSED),
        *under("scale-recalibration moments", lambda p: ScaleRecalibration("moments", 0.5, forgetting=p), some, CLOSED),
        *under("composition", lambda _: Composition(), (None,), SUCCESSIVE),
        *under("mondrian-conformal", lambda p: MondrianConformal([0.75], forgetting=p), every, CLOSED),
        *under("adaptive-conformal", lambda _: AdaptiveConformal(), (None,), SUCCESSIVE),
        *under("adaptive-conformal levels", lambda _: AdaptiveConformal((0.5, 0.9), slack=1.0), (None,), SUCCESSIVE),
        *under("adaptive-scale", lambda _: AdaptiveScale(), (None,), SUCCESSIVE),
        *under("adaptive-conformal aci", lambda _: AdaptiveConformal(0.5, "aci", 0.05, 20), (None,), SUCCESSIVE),
        *under("empirical-density logistic", density(lambda p: Logistic(forgetting=p), 4), some, DENSITY_LEFT_OPEN),
        *under("conformal-predictive", lambda p: ConformalPredictive(forgetting=p), every, CLOSED),
        *under("conformal-predictive grid", lambda p: ConformalPredictive(forgetting=p, resolution=16), some, CLOSED),
        *under(
            "isotonic-distributional",
            lambda p: IsotonicDistributional(5, support=SUPPORT, forgetting=p),
            every,
            CLOSED,
        ),
        *under(
            "isotonic-distributional grid",
            lambda p: IsotonicDistributional([0.0], support=SUPPORT, forgetting=p, resolution=16),
            some,
            CLOSED,
        ),
        *under(
            "venn-abers-regression",
            lambda p: VennAbersRegression(thresholds=5, support=SUPPORT, forgetting=p),
            every,
            CLOSED,
        ),
        *under(
            "venn-abers-regression self-consistent",
            lambda p: VennAbersRegression(ovo, [-1.0, 1.0], support=SUPPORT, forgetting=p, resolution=16),
            some,
            CLOSED,
        ),
        *under(
            "gaussian-process-cdf",
            lambda p: GaussianProcessCDF(4, forgetting=p, **clamped, **small),
            every,
            DENSITY_SOLVED,
            "short",
        ),
        *under(
            "gaussian-process-cdf refresh",
            lambda p: GaussianProcessCDF(3, refresh_every=REFRESH, forgetting=p, **clamped, **small),
            ("forever", "time-window"),
            DENSITY_SOLVED,
            "short",
        ),
        *under(
            "gaussian-process-cdf one-kernel",
            lambda p: GaussianProcessCDF(
                [0.0],
                support=SUPPORT,
                kernel=RBF(),
                mean="zero",
                point="mean",
                resolution=None,
                points=9,
                forgetting=p,
                **clamped,
            ),
            ("forever",),
            DENSITY_SOLVED,
            "short",
        ),
        *under(
            "gaussian-process-cdf normal",
            lambda p: GaussianProcessCDF(4, forgetting=p, **small),
            every,
            DENSITY_SOLVED,
            "short",
        ),
    ]


#: For each room: the list of its methods, and the cases.
ROOMS: dict[str, tuple[dict[str, type[Any]], list[Case]]] = {
    "binary": (REGISTRY, of_one_score()),  # type: ignore[dict-item]
    "fusion": (fusion.METHODS, of_several_scores()),  # type: ignore[dict-item]
    "multiclass": (multiclass.METHODS, of_many_classes()),  # type: ignore[dict-item]
    "regression": (regression.METHODS, of_distributions()),  # type: ignore[dict-item]
}
