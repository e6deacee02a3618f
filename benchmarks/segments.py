"""`Segmented` on real and simulated streams: what correcting by field gains, where it loses, and what it costs.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.segments    # ten minutes; docs/segments_measured.md
    STREAMCAL_DATA=/path/to/data python -m benchmarks.segments --effects    # the table of random effects alone
    STREAMCAL_DATA=/path/to/data python -m benchmarks.segments --pairs    # the table of `pairs=True` alone
    STREAMCAL_DATA=/path/to/data python -m benchmarks.segments --late    # the table of late labels alone
    STREAMCAL_DATA=/path/to/data python -m benchmarks.segments --late 10000    # so many rows late, prints only
    STREAMCAL_DATA=/path/to/data python -m benchmarks.segments --rows 8000 --seeds 1    # shortened, prints only

Every probability is predicted before its outcome is learned, cold start included. The bases of the real tables are
those of the race: gradient boosting trained on the first 5,000 rows and fixed ("frozen"), and River's logistic
regression, which goes on learning. Fields were chosen before any result was seen, and the bases see them too. In the
simulator campaigns come and go, and the served model is retrained four times: it knows a part of the effects of
campaigns that it has seen, and exaggerates.
"""

from __future__ import annotations

import argparse
import datetime
import math
import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from river import linear_model, preprocessing
from scipy.optimize import brentq
from scipy.special import expit, logit

import streamcal
from benchmarks import random_effects
from benchmarks.streams.bases import frozen, online, train_size
from benchmarks.streams.tables import Array, Flags, Table, table
from streamcal import Auto, OnlinePlatt
from streamcal.live import Segmented
from streamcal.metrics import FieldwiseECE

PAGE = Path(__file__).resolve().parents[1] / "docs" / "segments_measured.md"
MARKS = r"(?<=<!-- {} -->\n).*?(?=<!-- end of {} -->)"
DELAY = 5_000
SIMULATED, SEEDS = 100_000, 3
RATES = (0.05, 0.005)
#: Fields of each table, the first of them that by which `OnlinePlatt` is split.
FIELDS = {
    "adult": ("education", "occupation", "relationship", "native_country"),
    "bank_full": ("job", "month", "contact", "poutcome"),
    "bank_additional": ("job", "month", "contact", "poutcome"),
    "census": ("education", "class_of_worker", "marital_status", "race"),
    "open_bandit": ("item_id", "position", "campaign", "policy"),
}
#: Tables at which nobody had looked when `pairs=True` was made, for the table of pairs alone.
HELD_OUT = {"cdc": ("GenHlth", "Age", "Education", "Income"), "dota2": ("cluster", "game_mode", "game_type")}
SHOWN = {"bank_full": "bank", "bank_additional": "bank additional", "open_bandit": "Open Bandit"}
#: Level sets of the multicalibration error: forecasts in bins of this width in log-odds.
BIN = 0.5


class Stream(NamedTuple):
    """Scores, labels and levels by field, in order."""

    scores: Array
    y: Flags
    fields: dict[str, list[str | int]]


# -- streams -----------------------------------------------------------------------------------------------------------


@cache
def _table(name: str, rows: int | None) -> Table:
    return table(name, rows)


def fields_of(name: str) -> tuple[str, ...]:
    """Return the fields of a table."""
    return FIELDS[name] if name in FIELDS else HELD_OUT[name]


def real(name: str, base: str, rows: int | None) -> Stream:
    """Return a table scored by a base."""
    read = _table(name, rows)
    train = 0 if name == "open_bandit" else train_size(name)
    scores = frozen(read, train) if base == "frozen" else online(read, train, delay=0)
    return Stream(scores, read.y[train:], {field: list(read.words[field][train:]) for field in fields_of(name)})


def simulated(rate: float, n: int, seed: int) -> Stream:
    """Clicks of campaigns that come and go, on placements, and a model that is retrained after every fifth of them."""
    rng = np.random.default_rng([18, seed, round(1e6 * rate)])
    campaigns, placements = 2000, 30
    born = np.where(rng.random(campaigns) < 0.4, 0.0, rng.random(campaigns))
    ends = born + rng.exponential(0.4, campaigns) + 0.1
    traffic = rng.permutation(1.0 / np.arange(1, campaigns + 1))
    advertiser = rng.integers(200, size=campaigns)
    effect = 0.5 * rng.standard_normal(200)[advertiser] + 0.5 * rng.standard_normal(campaigns)
    of_place = 0.4 * rng.standard_normal(placements)
    campaign = np.concatenate([_drawn(rng, traffic * ((born <= s) & (s < ends)), n, s) for s in np.arange(100) / 100])
    placement = rng.choice(placements, len(campaign), p=_shares(1.0 / np.arange(1.0, placements + 1)))
    x = rng.standard_normal(len(campaign))
    u = 0.9 * x + effect[campaign] + of_place[placement]
    centre = float(brentq(lambda c: np.mean(expit(c + u)) - rate, -30.0, 30.0))
    z = centre + u
    part = np.arange(len(campaign)) * 5 // len(campaign)
    known = np.array([(born < k / 5 - 0.02) * (0.6 * effect + 0.25 * rng.standard_normal(campaigns)) for k in range(5)])
    drift = 0.15 * rng.standard_normal(5)
    served = centre + drift[part] + 1.15 * (0.8 * x + known[part, campaign] + 0.7 * of_place[placement])
    fields = {"advertiser": advertiser[campaign], "campaign": campaign, "placement": placement}
    lists = {name: levels.tolist() for name, levels in fields.items()}
    lists["device"] = rng.choice(4, len(campaign), p=[0.5, 0.3, 0.15, 0.05]).tolist()  # of no effect
    return Stream(expit(served), rng.random(len(z)) < expit(z), lists)


def _shares(weights: Array) -> Array:
    return weights / weights.sum()


def _drawn(rng: np.random.Generator, weights: Array, n: int, start: float) -> Array:
    """Draw the campaigns of a hundredth of n impressions."""
    size = round(n * (start + 0.01)) - round(n * start)
    return rng.choice(len(weights), size, p=_shares(weights))


def streams(rows: int | None, seeds: int) -> Iterator[tuple[str, list[Stream]]]:
    """Name → streams, of which the simulator has one for each seed."""
    for name in FIELDS:
        for base in ("learning",) if name == "open_bandit" else ("frozen", "learning"):
            yield f"{SHOWN.get(name, name)}, {base}", [real(name, base, rows)]
    for rate in RATES:
        yield f"simulator, {rate:.1%}", [simulated(rate, rows or SIMULATED, seed) for seed in range(seeds)]


def held_out(rows: int | None) -> Iterator[tuple[str, list[Stream]]]:
    """Name → stream, of the tables held out."""
    for name in HELD_OUT:
        for base in ("frozen", "learning"):
            yield f"{name}, {base} (held out)", [real(name, base, rows)]


# -- methods -----------------------------------------------------------------------------------------------------------


def split(stream: Stream) -> Array:
    """Predict by an `OnlinePlatt` for each level of the first field."""
    found, each = np.empty(len(stream.y)), {}
    levels = next(iter(stream.fields.values()))
    for i, (score, level, y) in enumerate(zip(stream.scores.tolist(), levels, stream.y.tolist(), strict=True)):
        cal = each.get(level) or each.setdefault(level, OnlinePlatt())
        found[i] = cal.predict_one(score)
        cal.learn_one(score, y)
    return found


def crossed(stream: Stream, base: Array) -> Array:
    """River's logistic regression, by stochastic gradients, on the log-odds of `Auto` and on all levels."""
    scaler, model = preprocessing.StandardScaler(), linear_model.LogisticRegression()
    found = np.empty(len(base))
    columns = zip(np.clip(logit(base), -16.0, 16.0).tolist(), *stream.fields.values(), strict=True)
    for i, (values, y) in enumerate(zip(columns, stream.y.tolist(), strict=True)):
        z, *levels = values
        scaler.learn_one({"z": z})
        x = {**scaler.transform_one({"z": z}), **dict.fromkeys(zip(stream.fields, levels, strict=True), 1.0)}
        found[i] = model.predict_proba_one(x)[True]
        model.learn_one(x, y)
    return found


def segmented(stream: Stream, base: Array, pairs: bool = False, chosen: bool = False) -> Array:
    """`Segmented` over forecasts of a calibrator, which it takes as they are: the calibrator learns alone.

    `pairs` names the pairs of neighbouring fields, `chosen` has it choose among all.
    """
    names = list(stream.fields)
    by: list[str | tuple[str, ...]] = [*names, *pairwise(names)] if pairs else [*names]
    return Segmented("identity", by, pairs=chosen).predict_learn_many(base, stream.y, keys=stream.fields)


def with_noise(stream: Stream) -> Stream:
    """With four fields more, of 3 to 1,000 levels that are drawn at random."""
    rng = np.random.default_rng(18)
    noise = {f"noise {m}": rng.integers(m, size=len(stream.y)).tolist() for m in (3, 20, 100, 1000)}
    return stream._replace(fields={**stream.fields, **noise})


def late(stream: Stream, delay: int, chosen: bool = False) -> tuple[Array, Array]:
    """Forecasts of `Auto(delay)` and of `Segmented` over it, whose labels come so many rows late."""
    cal = Segmented(Auto(delay=delay), list(stream.fields), pairs=chosen)
    rows = list(zip(stream.scores.tolist(), zip(*stream.fields.values(), strict=True), stream.y.tolist(), strict=True))
    base, found, parts = np.empty(len(rows)), np.empty(len(rows)), []
    for i, (score, levels, _) in enumerate(rows):
        keys = dict(zip(stream.fields, levels, strict=True))
        issued = cal.issue(score, keys=keys)
        base[i], found[i] = cal.overall.predict_one(score), issued.p
        parts.append((issued, rows[i][2]))
        if i >= delay:
            cal.settle(*parts[i - delay])
            parts[i - delay] = ()
    return base, found


# -- measures ----------------------------------------------------------------------------------------------------------


def losses(p: Array, y: Flags) -> Array:
    """Return the log loss of each row."""
    with np.errstate(divide="ignore"):
        return -np.log(np.where(y, p, 1.0 - p))


def nats(p: Array, base: Array, y: Flags) -> tuple[float, float]:
    """Return the sum of the log loss minus that of the base, and its standard error."""
    difference = losses(p, y) - losses(base, y)
    return float(difference.sum()), float(np.sqrt(np.square(difference).sum()))


def fieldwise(p: Array, stream: Stream) -> list[FieldwiseECE]:
    """Return the measure of each field, over the second half of the stream."""
    half, found = len(p) // 2, []
    for levels in stream.fields.values():
        metric = FieldwiseECE()
        metric.update_many(stream.y[half:], p[half:], levels[half:])
        found.append(metric)
    return found


def multicalibration(p: Array, stream: Stream, n: int) -> tuple[float, float]:
    """Return the worst group's ℓ₁ multicalibration error after n outcomes, and its expectation for true forecasts.

    The error is max over groups g of Σ over bins b of |Σ_{t ≤ n, g, b} (yₜ − pₜ)| / n; a group is a level of a field.
    """
    bins = np.floor(logit(np.clip(p[:n], 1e-7, 1.0 - 1e-7)) / BIN).astype(int) + 40
    worst, floor = 0.0, 0.0
    for levels in stream.fields.values():
        _, group = np.unique(np.array(levels[:n], dtype=object).astype(str), return_inverse=True)
        cell, size = 80 * group + bins, 80 * (group.max() + 1)
        gaps = np.abs(np.bincount(cell, stream.y[:n] - p[:n], size)).reshape(-1, 80).sum(axis=1)
        chance = np.sqrt(2.0 / np.pi * np.bincount(cell, p[:n] * (1.0 - p[:n]), size)).reshape(-1, 80).sum(axis=1)
        worst, floor = max(worst, gaps.max() / n), max(floor, chance.max() / n)
    return worst, floor


# -- tables ------------------------------------------------------------------------------------------------------------


def shown(values: list[tuple[float, float]]) -> str:
    """Write the mean over streams, and its standard error."""
    mean = float(np.mean([value for value, _ in values]))
    if math.isinf(mean):
        return "∞"
    error = math.sqrt(sum(error**2 for _, error in values)) / len(values)
    return f"{mean:+,.0f} ± {error:,.0f}"


def row(name: str, given: list[Stream]) -> tuple[str, list[Array]]:
    """Return the line of a stream in the table of losses, and the forecasts of `Segmented`."""
    found: dict[str, list[tuple[float, float]]] = {}
    chi: list[tuple[float, float]] = []
    forecasts = []
    for stream in given:
        base = Auto().predict_learn_many(stream.scores, stream.y)
        best = segmented(stream, base)
        forecasts += [base, best]
        every = {"raw": stream.scores, "split": split(stream), "crossed": crossed(stream, base), "segmented": best}
        every["pairs"] = segmented(stream, base, pairs=True)
        for method, p in every.items():
            found.setdefault(method, []).append(nats(p, base, stream.y))
        both = [[one.chi_square for one in fieldwise(p, stream) if one.chi_square is not None] for p in (base, best)]
        chi.append((float(np.mean(both[0])), float(np.mean(both[1]))))
    before, after = np.mean(chi, axis=0)
    cells = [shown(values) for values in found.values()]
    return f"| {name} | {' | '.join(cells)} | {before:.1f} → {after:.1f} |", forecasts


def effects_row(name: str, given: list[Stream]) -> str:
    """Write the line of a stream in the table of random effects."""
    found: tuple[list[tuple[float, float]], ...] = ([], [])
    for stream in given:
        base = Auto().predict_learn_many(stream.scores, stream.y)
        rival = random_effects.stream(base, list(stream.fields.values()), stream.y)
        for values, p in zip(found, (rival, segmented(stream, base)), strict=True):
            values.append(nats(p, base, stream.y))
    return f"| {name} | {shown(found[0])} | {shown(found[1])} |"


def pairs_row(name: str, given: list[Stream]) -> str:
    """Write the line of a stream in the table of pairs: immediate labels, also with noise fields, and late labels."""
    found: dict[str, list[tuple[float, float]]] = {}
    for stream in given:
        base = Auto().predict_learn_many(stream.scores, stream.y)
        noisy = with_noise(stream)
        every = [segmented(stream, base), segmented(stream, base, pairs=True), segmented(stream, base, chosen=True)]
        every += [segmented(noisy, base), segmented(noisy, base, chosen=True)]
        for column, p in enumerate(every):
            found.setdefault(str(column), []).append(nats(p, base, stream.y))
        for chosen in (False, True):
            issued, p = late(stream, min(DELAY, len(stream.y) // 4), chosen)
            found.setdefault(f"late {chosen}", []).append(nats(p, issued, stream.y))
    return f"| {name} | {' | '.join(shown(values) for values in found.values())} |"


def late_row(name: str, stream: Stream, delay: int) -> str:
    """Write the line of a stream in the table of late labels."""
    base, found = late(stream, delay)
    total, error = nats(found, base, stream.y)
    return f"| {name} | {total:+,.0f} ± {error:,.0f} | {total / len(stream.y):+.5f} |"


def multicalibration_row(name: str, stream: Stream, base: Array, best: Array) -> str:
    """Errors of both after 1/64, 1/8 and all of the stream, and the exponent of `Segmented` between the last two."""
    n = len(stream.y)
    cells, last = [], []
    for part in (64, 8, 1):
        (before, _), (after, floor) = (multicalibration(p, stream, n // part) for p in (base, best))
        cells.append(f"{before:.4f} → {after:.4f} ({floor:.4f})")
        last.append(after)
    return f"| {name} | {' | '.join(cells)} | {math.log(last[2] / last[1]) / math.log(8.0):+.2f} |"


def cost(stream: Stream, repeats: int = 3, pairs: bool = False) -> str:
    """Processor time for an observation of four fields, that of `OnlinePlatt` included, as text."""
    rows = [
        (score, dict(zip(stream.fields, levels, strict=True)), y)
        for score, levels, y in zip(
            stream.scores.tolist(), zip(*stream.fields.values(), strict=True), stream.y.tolist(), strict=True
        )
    ][:50_000]

    def many() -> int:
        cal = Segmented(OnlinePlatt(), list(stream.fields), pairs=pairs)
        cal.predict_learn_many(stream.scores, stream.y, keys=stream.fields)
        return len(stream.y)

    def loop() -> int:
        cal = Segmented(OnlinePlatt(), list(stream.fields), pairs=pairs)
        for score, keys, y in rows:
            cal.predict_one(score, keys=keys)
            cal.learn_one(score, y, keys=keys)
        return len(rows)

    one = f"`predict_one` and `learn_one` {_best(loop, repeats):.1f} µs"
    return f"`predict_learn_many` {_best(many, repeats):.1f} µs, {one} of processor time an observation"


def _best(work: Callable[[], int], repeats: int) -> float:
    """Return the shortest of some measurements, in microseconds an observation."""
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        count = work()
        found.append((time.process_time() - begun) / count)
    return 1e6 * min(found)


HEADS = {
    "losses": "| stream | raw | `OnlinePlatt` by segment | levels in a logistic regression | `Segmented` | with pairs "
    "| χ²/df by level, `Auto` → `Segmented` |\n|---|---:|---:|---:|---:|---:|---|",
    "effects": "| stream | crossed random effects | `Segmented` |\n|---|---:|---:|",
    "pairs": "| stream | `Segmented` | pairs named | `pairs=True` | noise too | noise too, `pairs=True` "
    f"| {DELAY:,} rows late | late, `pairs=True` |\n|---|---:|---:|---:|---:|---:|---:|---:|",
    "late": f"| stream, labels {DELAY:,} rows late | nats | a row |\n|---|---:|---:|",
    "multicalibration": "| stream | n/64 | n/8 | n | exponent from n/8 to n |\n|---|---|---|---|---:|",
}


def tables(rows: int | None, seeds: int) -> dict[str, str]:
    """Write the parts of the page."""
    lines: dict[str, list[str]] = {name: [head] for name, head in HEADS.items() if name != "pairs"}
    for name, given in streams(rows, seeds):
        line, forecasts = row(name, given)
        lines["losses"].append(line)
        lines["effects"].append(effects_row(name, given))
        lines["multicalibration"].append(multicalibration_row(name, given[0], *forecasts[:2]))
        lines["late"].append(late_row(name, given[0], min(DELAY, len(given[0].y) // 4)))
        print(line, lines["late"][-1], lines["multicalibration"][-1], sep="\n", flush=True)
    today = datetime.date.today().isoformat()
    made = f"Made by `python -m benchmarks.segments` with streamcal {streamcal.__version__}, {today}."
    return {**{name: "\n".join(part) for name, part in lines.items()}, "cost": cost_line(given[0]), "made": made}


def cost_line(stream: Stream) -> str:
    """Write the page's sentence on processor time."""
    today = datetime.date.today().isoformat()
    found = f"For four fields, `OnlinePlatt` included: {cost(stream)};\nwith `pairs=True` {cost(stream, pairs=True)}"
    return f"{found}\n(`--cost` measures these lines alone; {today})."


def main(arguments: list[str] | None = None) -> None:
    """Measure the tables, and write the page of a full run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, metavar="N", help="the first N rows of every stream")
    parser.add_argument("--seeds", type=int, default=SEEDS, metavar="N", help="streams of the simulator")
    parser.add_argument("--effects", action="store_true", help="the table of random effects alone")
    parser.add_argument("--pairs", action="store_true", help="the table of `pairs=True` alone")
    parser.add_argument("--late", type=int, nargs="?", const=DELAY, metavar="N", help="the table of late labels alone")
    parser.add_argument("--cost", action="store_true", help="the line on processor time alone")
    given = parser.parse_args(arguments)
    if given.cost:
        print(cost_line(simulated(RATES[-1], given.rows or SIMULATED, 0)))
        return
    if given.effects:
        lines = [effects_row(*one) for one in streams(given.rows, given.seeds)]
        found = {"effects": "\n".join([HEADS["effects"], *lines])}
    elif given.pairs:
        made = f"`python -m benchmarks.segments --pairs`, {datetime.date.today()}; simulators with their first seed."
        lines = [
            HEADS["pairs"],
            *(pairs_row(*one) for one in chain(streams(given.rows, 1), held_out(given.rows))),
            "",
            made,
        ]
        found = {"pairs": "\n".join(lines)}
    elif given.late is not None:
        lines = [late_row(name, some[0], min(given.late, len(some[0].y) // 2)) for name, some in streams(given.rows, 1)]
        found = {"late": "\n".join([HEADS["late"].replace(f"{DELAY:,}", f"{given.late:,}"), *lines])}
    else:
        found = tables(given.rows, given.seeds)
    if given.rows is not None or given.seeds != SEEDS or given.late not in (None, DELAY):
        print("\n\n".join(found.values()))
        return
    page = PAGE.read_text(encoding="utf-8")
    for mark, text in found.items():
        page = re.sub(MARKS.format(mark, mark), lambda _, text=text: text + "\n", page, flags=re.DOTALL)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
