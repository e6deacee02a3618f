"""Log losses on ad streams, and calibration ratios of the points of the Venn-Abers interval on rare events.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.rare_events           # writes docs/rare_events.md
    STREAMCAL_DATA=/path/to/data python -m benchmarks.rare_events --ads     # writes the tables of ad streams alone
    python -m benchmarks.rare_events --rows 4000 --seeds 2                  # shortened, prints only

The calibration ratio is the sum of the predicted probabilities over the number of events that followed: 1 is best, and
at 1.2 a fifth too many events are predicted. Every probability is predicted before its outcome is learned.

Synthetic streams: the true probability π of an observation has normal log-odds of deviation 1 around a centre for which
the mean of π is the base rate; the outcome is 1 with probability π; the score is that of an overconfident model that is
too high: its log-odds are 1.5 times as far from the centre, and 0.5 higher.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import gzip
import os
import re
import textwrap
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm

import streamcal
from benchmarks import ad_streams
from streamcal import Isotonic, Platt, VennAbers
from streamcal.maps.points import POINTS, SCORED_POINTS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "rare_events.md"
CLICKS = "ipinyou_2997_test.csv.gz"
BASE_RATES = (0.5, 0.05, 0.005, 0.0005)
ROWS = 200_000
SEEDS = 10
#: Parts of the way at which the ratio is read too.
CHECKPOINTS = (0.01, 0.1, 1.0)
DEVIATION, SLOPE, OFFSET = 1.0, 1.5, 0.5
#: Platt's sigmoid is solved anew once in so many observations, since each solve goes through all cells of its grid.
PLATT_EVERY = 100
RULES = (*POINTS, *SCORED_POINTS)
METHODS = (*RULES, "isotonic", "platt", "score")

Array = npt.NDArray[np.float64]


class Stream(NamedTuple):
    """Scores, outcomes and, where they are known, true probabilities, in order."""

    scores: Array
    y: Array
    true: Array | None


def synthetic(base_rate: float, rows: int, seed: int) -> Stream:
    """Draw a stream of the model above."""
    rng = np.random.default_rng([seed, round(1e6 * base_rate)])
    levels = norm.ppf((np.arange(20_000) + 0.5) / 20_000)  # the mean of π by the midpoint rule
    centre = brentq(lambda c: np.mean(expit(c + DEVIATION * levels)) - base_rate, -30.0, 30.0)
    true = expit(centre + DEVIATION * rng.standard_normal(rows))
    score = expit(centre + SLOPE * (logit(true) - centre) + OFFSET)
    return Stream(score, (rng.random(rows) < true).astype(float), true)


def clicks(folder: Path, rows: int | None) -> Stream:
    """Read the real stream: impressions of advertiser 2997 in log order and a model's click probabilities."""
    with gzip.open(folder / CLICKS, "rt", newline="") as file:
        table = [(float(row["pctr"]), float(row["click"])) for row in csv.DictReader(file)]
    scores, y = np.array(table[:rows]).T
    return Stream(scores, y, None)


def prequential(stream: Stream) -> dict[str, Array]:
    """Return the prediction of each method for every row before its outcome was learned."""
    venn_abers, isotonic = VennAbers(), Isotonic()
    intervals = np.empty((len(stream.y), 2))
    steps = np.empty(len(stream.y))
    for i, (score, y) in enumerate(zip(stream.scores.tolist(), stream.y.tolist(), strict=True)):
        intervals[i] = venn_abers.predict_interval_one(score)
        venn_abers.learn_one(score, y)
        steps[i] = isotonic.predict_one(score)
        isotonic.learn_one(score, y)
    predicted = {name: point(*intervals.T) for name, point in POINTS.items()}
    scored = {name: point(*intervals.T, stream.scores) for name, point in SCORED_POINTS.items()}
    return {**predicted, **scored, "isotonic": steps, "platt": platt(stream), "score": stream.scores}


def platt(stream: Stream) -> Array:
    """Platt's predictions, those of `PLATT_EVERY` rows made before any of them is learned."""
    cal, predicted = Platt(), []
    for start in range(0, len(stream.y), PLATT_EVERY):
        part = slice(start, start + PLATT_EVERY)
        predicted.append(cal.predict_many(stream.scores[part]))
        cal.learn_many(stream.scores[part], stream.y[part])
    return np.concatenate(predicted)


def ratio(p: Array, y: Array) -> float:
    """Predicted over observed; NaN without events."""
    return float(p.sum() / y.sum()) if y.any() else float("nan")


def ratios(base_rate: float, rows: int, seeds: int) -> tuple[dict[str, Array], dict[str, Array]]:
    """Σp/Σy at the end, shape (seeds,), and Σp/Σπ at the checkpoints, shape (seeds, checkpoints), by method."""
    at_end: dict[str, list[float]] = {name: [] for name in METHODS}
    on_way: dict[str, list[Array]] = {name: [] for name in METHODS}
    ends = [max(1, round(part * rows)) - 1 for part in CHECKPOINTS]
    for seed in range(seeds):
        stream = synthetic(base_rate, rows, seed)
        for name, p in prequential(stream).items():
            at_end[name].append(ratio(p, stream.y))
            on_way[name].append(np.cumsum(p)[ends] / np.cumsum(stream.true)[ends])
    return {n: np.array(v) for n, v in at_end.items()}, {n: np.array(v) for n, v in on_way.items()}


def spread(values: Array) -> str:
    """Mean and standard deviation over the seeds; a dash if there was no event in one of them."""
    if np.isnan(values).any():
        return "–"
    deviation = f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""
    return f"{values.mean():.3f}{deviation}"


def main_table(found: dict[float, dict[str, Array]], real: dict[str, float] | None, rows: int) -> str:
    """Σp/Σy by stream and method."""
    lines = [f"| stream | events expected | {' | '.join(METHODS)} |", "|---|" + "---:|" * (len(METHODS) + 1)]
    for rate, by_method in found.items():
        cells = " | ".join(spread(by_method[name]) for name in METHODS)
        lines.append(f"| synthetic, {percent(rate)} | {rate * rows:,.0f} | {cells} |")
    if real is not None:
        cells = " | ".join(f"{real[name]:.3f}" for name in METHODS)
        lines.append(f"| iPinYou 2997, {percent(real['base rate'])} | {real['events']:,.0f} (seen) | {cells} |")
    return "\n".join(lines)


def way_table(found: dict[float, dict[str, Array]], rows: int) -> str:
    """Σp/Σπ by base rate and length of the stream so far, for the points."""
    lines = [f"| base rate | rows | events expected | {' | '.join(RULES)} |", "|---|" + "---:|" * (len(RULES) + 2)]
    for rate, by_method in found.items():
        for place, part in enumerate(CHECKPOINTS):
            seen = part * rows
            cells = " | ".join(spread(by_method[name][:, place]) for name in RULES)
            lines.append(f"| {percent(rate)} | {seen:,.0f} | {rate * seen:,.1f} | {cells} |")
    return "\n".join(lines)


def percent(rate: float) -> str:
    """Write a rate in percent."""
    return f"{100.0 * rate:.3g} %"


#: The paragraph that `tools/generate.py` writes, which stays.
MADE_ELSEWHERE = re.compile(r"<!-- methods: .*?<!-- end of methods -->", re.DOTALL)
#: Where the part of the page without ad streams begins.
BELOW = "## Predicted against observed"
PAGE_TEXT = """# Rare events

Log loss on streams whose positives are below 1 %, each probability predicted before its label was learned, cold start
included, every method with its defaults, labels without delay. Bold is the lowest.

{losses}

Log loss minus that of the raw score; *better* and *worse* where its 95 % confidence sequence
(`LogLossDifference(adaptive=True)`) does not contain 0:

{differences}

Predicted over observed clicks, and in brackets the clicks that had been given probability 0 (each counts −log 1e-6 =
13.8 nats above, and is infinite):

{clicks}

{advice}

{late}

`python -m benchmarks.rare_events --ads`, {date}.

## Predicted against observed

The calibration ratio is the sum of the predicted probabilities over the number of events that followed: 1 is best,
and at 1.2 a fifth too many events are predicted. Every probability was predicted before its outcome was learned, cold
start included, without forgetting and without a prior. `VennAbers` has an interval (p₀, p₁), which `point=` reduces to
one probability:

| point | probability |
|---|---|
| log-minimax | p₁/(1−p₀+p₁) |
| brier-minimax | p₁ + p₀²/2 − p₁²/2 |
| self-consistent | p₀/(1−p₁+p₀) |
| score-prior | (p₀ + d/4)/(1 − d + d/(4m)), d = p₁ − p₀, m ≤ ½ the score clipped to the interval |

For k events in a block of n the last one is (k + ¼)/(n + ¼/m): a quarter of an event as prior at the score.

{main}

## Reading

{reading}

## Methods that do not suit rare events

`HedgedOPS` predicts only the midpoints of its bins, and the lowest of ten is 0.05: where 1.3 % of the outcomes are
positive it predicts four times as many. Give it bins narrower than the rate, or use another method. `Protected` mixes
calibrators that are far apart in log-odds, and predicts 0.8 times as many on the same stream. `tests/test_weights.py`
has the stream and both figures.

## How the excess decreases

Prefixes of the same streams: the sum of the predicted probabilities over the sum of the *true* ones, which does not
depend on the outcomes drawn and is defined before the first event.

{way}

## How it was made

- iPinYou: the impressions of two advertisers in log order, with a published model's click probability as the score.
- Open Bandit: the sample in the order of time. River's logistic regression with its defaults learns online from item,
  position, policy, campaign, four features of the user and the affinity.
- Generators: two click generators of [the race](race.md), seed 0.
- Synthetic streams below, {rows:,} rows each, {seeds} seeds (0 to {last}) per base rate; figures are mean ± standard
  deviation over the seeds. The true probability π has log-odds N(c, 1), c such that the mean of π is the base rate;
  the outcome is 1 with probability π; the score has log-odds c + 1.5 (logit π − c) + 0.5: an overconfident model that
  is too high. Platt's sigmoid contains the true map here, unlike on real streams.
- iPinYou advertiser 2997: {real_rows} impressions in log order, the model's click probability `pctr` as the score.
- `Platt` predicts {every} rows before it learns them; all other methods predict and learn row by row.
- `STREAMCAL_DATA=… python -m benchmarks.rare_events`, {date}, streamcal {streamcal}, numpy {numpy}, scipy {scipy};
  {seconds:.0f} s on two shared cores.
"""

#: Sentences whose figures are read from the tables; what they claim of them was read off the full run.
ADVICE = """
`Auto` is the default: its log loss is below that of the raw score on {auto_below} of {streams} streams, and nowhere
decidedly above it. `OnlinePlatt` takes a twentieth of the time, and is below the raw score on {platt_below} of
{streams}. Where an interval, unlearning, merging or windows are needed, use `VennAbers("score-prior")`: it is below
the raw score on {sp_below} of {streams}, and never predicts 0 or 1. The other points of `VennAbers` are not for rare
events. The log-minimax point predicts too many, and loses to the raw score on {va_above} streams. The
self-consistent point gives some clicks probability 0, and loses on {sc_above}. A calibrated score is hard to beat on
few clicks: the first of them cost most methods more than they gain.
"""

READING = """
The minimax points predict too many rare events: log-minimax {m[0.005]:.2f} times as many at 0.5 %, {m[0.0005]:.2f}
times at 0.05 % and {m_real:.2f} times on the real clicks. Both tend to p₁, the upper end of the interval, as p₁ tends
to 0. They bound the regret of one prediction and not the sum of many: use them for common events. The self-consistent
point is within 3 % at 0.5 % ({s[0.005]:.2f}) and on the real clicks ({s_real:.2f}). At 0.05 % its total is
{s[0.0005]:.2f} times the events, an excess that a hundred events cannot tell from sampling error. The excess of its
cold start remains ({cold:.1f} over the first ten events at 0.05 %). It is exactly 0 where no event was seen, so that
the next event there has infinite log loss. The score-prior point is never 0 or 1, and its total is about that of the
self-consistent one: {p[0.05]:.3f} against {s[0.05]:.3f}, {p[0.005]:.3f} against {s[0.005]:.3f} and {p[0.0005]:.2f}
against {s[0.0005]:.2f} at 5, 0.5 and 0.05 %, and {p_real:.3f} on the real clicks. Compared with the rate of events so
far, its total is right within 1 % from 2,000 events on, for scores up to twice too high
(`tests/test_score_prior.py`). The excess decreases with the number of events, and more slowly for rarer ones. For
log-minimax it is {h[0.05]:.2f}, {h[0.005]:.2f} and {h[0.0005]:.2f} after a hundred events at 5, 0.5 and 0.05 %, and
{m[0.05]:.2f} after ten thousand at 5 %.
"""


def advice(found: dict[str, dict[str, ad_streams.Found]]) -> str:
    """Write the sentences below the tables of the ad streams."""
    beside = {method: ad_streams.beside_raw(found, method) for method in ad_streams.METHODS}
    sentences = ADVICE.format(
        streams=len(found),
        auto_below=beside["`auto`"][0],
        platt_below=beside["`online-platt`"][0],
        sp_below=beside['`VennAbers("score-prior")`'][0],
        sc_above=beside['`VennAbers("self-consistent")`'][1],
        va_above=beside["`venn-abers`"][1],
    )
    return textwrap.fill(sentences.strip(), 118)


def reading(found: dict[float, tuple[dict[str, Array], dict[str, Array]]], real: dict[str, float]) -> str:
    """Write the sentences below the table, with its figures."""
    # A hundred events are expected at the last checkpoint of 0.05 %, the one before of 0.5 % and the first of 5 %.
    hundred = {0.05: 0, 0.005: 1, 0.0005: 2}
    sentences = READING.format(
        m={str(rate): at_end["log-minimax"].mean() for rate, (at_end, _) in found.items()},
        s={str(rate): at_end["self-consistent"].mean() for rate, (at_end, _) in found.items()},
        p={str(rate): at_end["score-prior"].mean() for rate, (at_end, _) in found.items()},
        m_real=real["log-minimax"],
        p_real=real["score-prior"],
        s_real=real["self-consistent"],
        h={str(rate): found[rate][1]["log-minimax"][:, place].mean() for rate, place in hundred.items()},
        cold=found[0.0005][1]["self-consistent"][:, 1].mean(),
    )
    return textwrap.fill(sentences.strip(), 118)


def ad_tables() -> dict[str, str]:
    """Return the tables and sentences of the page on ad streams."""
    ads = ad_streams.results()
    return {
        "losses": ad_streams.loss_table(ads),
        "differences": ad_streams.difference_table(ads),
        "clicks": ad_streams.ratio_table(ads),
        "advice": advice(ads),
        "late": MADE_ELSEWHERE.findall(PAGE.read_text(encoding="utf-8"))[0],
        "date": datetime.date.today().isoformat(),
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure the methods, and write the page of a full run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help=f"length of every stream (default {ROWS:,}, and all clicks)")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="streams per base rate (default: %(default)s)")
    parser.add_argument("--ads", action="store_true", help="write the tables of ad streams alone")
    given = parser.parse_args(arguments)
    if given.ads:
        first, below = PAGE_TEXT.partition(BELOW)[0], PAGE.read_text(encoding="utf-8").partition(BELOW)[2]
        PAGE.write_text(first.format(**ad_tables()) + BELOW + below, encoding="utf-8")
        return
    rows, start = given.rows or ROWS, time.perf_counter()
    found = {rate: ratios(rate, rows, given.seeds) for rate in BASE_RATES}
    real = None
    if "STREAMCAL_DATA" in os.environ:
        stream = clicks(Path(os.environ["STREAMCAL_DATA"]), given.rows)
        real = {name: ratio(p, stream.y) for name, p in prequential(stream).items()}
        real |= {"base rate": stream.y.mean(), "events": stream.y.sum(), "rows": len(stream.y)}
    main_rows = main_table({rate: at_end for rate, (at_end, _) in found.items()}, real, rows)
    way_rows = way_table({rate: on_way for rate, (_, on_way) in found.items()}, rows)
    if given.rows is not None or given.seeds != SEEDS or real is None:  # the reading is of the full run
        print(f"{main_rows}\n\n{way_rows}\n\nshortened, or without STREAMCAL_DATA: no page written")
        return
    text = PAGE_TEXT.format(
        **ad_tables(),
        main=main_rows,
        reading=reading(found, real),
        way=way_rows,
        rows=rows,
        seeds=given.seeds,
        last=given.seeds - 1,
        real_rows=f"{real['rows']:,}",
        every=PLATT_EVERY,
        streamcal=streamcal.__version__,
        numpy=np.__version__,
        scipy=scipy.__version__,
        seconds=time.perf_counter() - start,
    )
    print(text)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
