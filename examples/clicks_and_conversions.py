"""Clicks and conversions: two joins, one after the other, p(click and conversion) = p(click) · p(conversion | click).

    python examples/clicks_and_conversions.py

The impressions are those of `streamcal.datasets.ad_clicks`, whose true click probabilities are known. A click is
followed by a conversion with a probability that depends on the campaign, up to two days later. The score of the
conversion model is twice as high as it should be. Each model has a join with a horizon of its own; the second one is
asked when the impression is served, and issues when the click comes.
"""

from heapq import heappop, heappush

import numpy as np

from streamcal import OnlinePlatt
from streamcal.datasets import ad_clicks
from streamcal.live import LabelJoin
from streamcal.metrics import CalibrationRatio, LogLoss

IMPRESSIONS, HOUR = 60_000, 3600.0

stream = ad_clicks(IMPRESSIONS, seed=5, rate=0.05, days=10.0)
rng = np.random.default_rng(6)
rates = 1.0 / (1.0 + np.exp(-rng.normal(-2.0, 0.7, stream.campaign.max() + 1)))  # conversions of a campaign's clicks
conversion_score = np.minimum(2.0 * rates, 0.95)
converts = stream.click & (rng.random(IMPRESSIONS) < rates[stream.campaign])
conversion_delay = rng.exponential(8 * HOUR, IMPRESSIONS)

clicks = LabelJoin(OnlinePlatt(discount=0.9999), horizon=6 * HOUR, early=0.25 * HOUR)
conversions = LabelJoin(OnlinePlatt(), horizon=48 * HOUR, early=6 * HOUR, early_share=0.5)

coming: list[tuple[float, int, str]] = []  # what the browsers will tell: when, which impression, what
losses = {"scores, raw": LogLoss(), "both joins, calibrated": LogLoss()}
ratios = {name: CalibrationRatio() for name in losses}
columns = (column.tolist() for column in (stream.t, stream.score, stream.campaign))
for k, (now, score, campaign) in enumerate(zip(*columns, strict=True)):
    while coming and coming[0][0] <= now:
        when, one, what = heappop(coming)
        if what == "conversion":
            conversions.resolve(one, True, when)
            continue
        clicks.resolve(one, True, when)
        conversions.issue(one, float(conversion_score[stream.campaign[one]]), when)  # only clicks can convert
        if converts[one]:
            heappush(coming, (when + float(conversion_delay[one]), one, "conversion"))

    p_click = clicks.issue(k, score, now).p
    p_conversion = conversions.predict_one(float(conversion_score[campaign]), now)
    if stream.click[k]:
        heappush(coming, (now + float(stream.delay[k]), k, "click"))

    if now > 3 * 24 * HOUR:  # after the first conversions were learned
        served = {"scores, raw": score * conversion_score[campaign], "both joins, calibrated": p_click * p_conversion}
        for name, p in served.items():
            losses[name].update(bool(converts[k]), p)
            ratios[name].update(bool(converts[k]), p)

print(f"{IMPRESSIONS:,} impressions, {stream.click.sum():,} clicks, {converts.sum():,} conversions")
print(f"{'click and conversion':28s}log loss  predicted/actual")
for name, loss in losses.items():
    print(f"{name:28s}{loss.get():.5f}   {ratios[name].get():.2f}")
print(f"clicks within 15 minutes: {clicks.early_share()[0]:.2f} of those within 6 hours")
