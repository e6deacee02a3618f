"""Forecasts of delivery times that are distributions: calibrated online, with corrections, and measured.

    python examples/delivery_times.py

The deliveries are made up. A linear model learns on, and its forecast is a normal distribution whose standard deviation
is that of its past errors. In truth some deliveries meet a locked door and take half an hour longer, which no normal
distribution says: its intervals are too wide for most and its tail too short for those. Every forecast is
made before its outcome is learned.
"""

import math

import numpy as np
from river import linear_model, preprocessing

from streamcal import Window
from streamcal.metrics import CRPS, IntervalCoverage, LogLikelihood, PITHistogram
from streamcal.regression import ConformalPredictive, IsotonicDistributional, Normal, QuantileRecalibration
from streamcal.river import CalibratedRegressor

DELIVERIES = 2_000
MISTYPED = 700
METHODS = {
    "QuantileRecalibration": QuantileRecalibration(smoothing=1.0, resolution=32),
    "ConformalPredictive": ConformalPredictive(forgetting=Window(1_000), resolution=32),
    "IsotonicDistributional": IsotonicDistributional(thresholds=24, support=(0.0, 120.0)),
}

rng = np.random.default_rng(7)
distance = rng.gamma(4.0, 1.0, DELIVERIES)
locked = rng.random(DELIVERIES) < 0.15
minutes = 10.0 + 5.0 * distance + 30.0 * locked + rng.normal(0.0, 3.0, DELIVERIES)


def base() -> preprocessing.StandardScaler:
    return preprocessing.StandardScaler() | linear_model.LinearRegression(intercept_lr=0.1)


def table_row(name: str, measures: list) -> str:
    crps, likelihood, coverage, pit = measures
    return (
        f"{name:<36}{crps.get():>8.3f}{likelihood.finite:>16.3f}{likelihood.impossible:>12}"
        f"{coverage.get():>14.3f}{coverage.width:>10.1f}{pit.get():>10.3f}{pit.log_e_value / math.log(10.0):>14.1f}"
    )


print(
    f"{'':<36}{'CRPS':>8}{'log-likelihood':>16}{'impossible':>12}"
    f"{'80 % covers':>14}{'width':>10}{'PIT gap':>10}{'log10 e-value':>14}"
)
for name, method in METHODS.items():
    model = CalibratedRegressor(base(), method, half_life=500)
    raw, calibrated = ([CRPS(), LogLikelihood(), IntervalCoverage(0.8), PITHistogram(20)] for _ in range(2))
    for i, (x, y) in enumerate(zip(({"distance": one} for one in distance.tolist()), minutes.tolist(), strict=True)):
        forecast = model.predict_distribution_one(x)
        if i >= 200 and forecast is not None:  # once the base has found its feet
            for metric in raw:
                metric.update(y, Normal(model.regressor.predict_one(x), model.residual_sd))
            for metric in calibrated:
                metric.update(y, forecast)
        model.learn_one(x, y)
    if name == "QuantileRecalibration":
        print(table_row("forecast, raw", raw))
    print(table_row(f"calibrated: {name}", calibrated))

# An outcome was typed in wrongly and is corrected later; two depots add up what they have learned.
forecasts = [Normal(10.0 + 5.0 * one, 11.0) for one in distance.tolist()]
north, south, one = (QuantileRecalibration() for _ in range(3))
north.learn_many(forecasts[:1000], np.where(np.arange(1000) == MISTYPED, 1e4, minutes[:1000]))
south.learn_many(forecasts[1000:], minutes[1000:])
north.unlearn_one(forecasts[MISTYPED], 1e4)
north.learn_one(forecasts[MISTYPED], float(minutes[MISTYPED]))
north.merge(south)
one.learn_many(forecasts, minutes)
quantiles = north.predict_one(forecasts[0]).interval(0.8), one.predict_one(forecasts[0]).interval(0.8)
print(f"\n80 % interval, corrected and merged: {quantiles[0][0]:.2f} to {quantiles[0][1]:.2f} minutes")
print(f"the same by one learner at once:     {quantiles[1][0]:.2f} to {quantiles[1][1]:.2f} minutes")
