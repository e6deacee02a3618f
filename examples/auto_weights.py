"""Which experts does `Auto` weigh most? Its weights over a stream that changes abruptly.

    python examples/auto_weights.py
    python examples/auto_weights.py --picture weights.png
    python examples/auto_weights.py --elec2 elec2.csv.gz --delay 48 --picture weights.png

The stream is made by formula: a forest is trained once, and halfway through the boundary of the classes turns by 90
degrees. Or it is elec2, the electricity market of New South Wales (columns date, day, period, nswprice, nswdemand,
vicprice, vicdemand, transfer, class): a Hoeffding tree learns the first 5,000 half-hours, and is then frozen. With a
delay, labels come that many steps late.
"""

import argparse
import csv
import gzip
import time
from statistics import fmean

from river import tree

from streamcal import Auto, Identity, OnlinePlatt, plot
from streamcal.calibrators.base import Calibrator
from streamcal.datasets.synthetic import generate
from streamcal.metrics import LogLoss

TRAINING, PARTS, PIECES = 5_000, 4, 100


def electricity(path: str) -> list[tuple[float, bool]]:
    """Scores of the frozen tree, within [.001, .999], and whether the price went up."""
    with gzip.open(path, "rt", newline="") as text:
        rows = [
            ({name: float(value) for name, value in row.items() if name not in ("date", "class")}, row["class"] == "UP")
            for row in csv.DictReader(text)
        ]
    model = tree.HoeffdingTreeClassifier()
    for x, y in rows[:TRAINING]:
        model.learn_one(x, y)
    scores = [model.predict_proba_one(x).get(True, 0.0) for x, _ in rows[TRAINING:]]
    return [(min(max(score, 0.001), 0.999), y) for score, (_, y) in zip(scores, rows[TRAINING:], strict=True)]


def run(name: str, calibrator: Calibrator, stream: list[tuple[float, bool]], delay: int) -> list[dict[str, float]]:
    """Predict, then learn what is known by now; prints the log loss of the stream and of its parts.

    Returns the mean weights of `Auto` in each of `PIECES` pieces of the stream.
    """
    whole, parts = LogLoss(), [LogLoss() for _ in range(PARTS)]
    weights: list[list[dict[str, float]]] = [[] for _ in range(PIECES)]
    for i, (score, y) in enumerate(stream):
        p = calibrator.predict_one(score)
        for loss in (whole, parts[i * PARTS // len(stream)]):
            loss.update(y, p)
        if isinstance(calibrator, Auto):
            weights[i * PIECES // len(stream)].append(calibrator.weights())
        if i >= delay:
            calibrator.learn_one(*stream[i - delay])
    print(name.ljust(24) + "".join(f"{loss.get():>10.4f}" for loss in (whole, *parts)))
    return [{name: fmean(one[name] for one in piece) for name in piece[0]} for piece in weights if piece]


def microseconds(calibrator: Calibrator, stream: list[tuple[float, bool]]) -> float:
    """Time of the processor per observation, predicted and learned."""
    start = time.process_time()
    for score, y in stream:
        calibrator.predict_one(score)
        calibrator.learn_one(score, y)
    return 1e6 * (time.process_time() - start) / len(stream)


arguments = argparse.ArgumentParser()
arguments.add_argument("--elec2")
arguments.add_argument("--picture")
arguments.add_argument("--delay", type=int, default=0)
given = arguments.parse_args()
if given.elec2:
    stream = electricity(given.elec2)
else:
    made = generate("abrupt", oracle_size=1_000)
    stream = list(zip(made.scores.tolist(), made.y.tolist(), strict=True))
print("log loss".ljust(24) + "".join(f"{title:>10}" for title in ("all", "1st", "2nd", "3rd", "4th")))
run("served score, raw", Identity(), stream, given.delay)
run("OnlinePlatt", OnlinePlatt(), stream, given.delay)
history = run("Auto", Auto(delay=given.delay), stream, given.delay)
if given.delay:
    run("Auto, delay found", Auto(), stream, given.delay)
print(f"\n{microseconds(Auto(delay=given.delay), stream):.0f} µs per observation of Auto, to predict and to learn")
steps = [(k + 0.5) * len(stream) / PIECES for k in range(PIECES)]
trusted = plot.weights_over_time(steps, history)
print("\nweight".ljust(25) + "".join(f"{title:>10}" for title in ("all", "1st", "2nd", "3rd", "4th")))
for name, shares in zip(trusted.names, trusted.shares, strict=True):
    means = [shares.mean(), *(part.mean() for part in shares.reshape(PARTS, -1))]
    print(name.ljust(24) + "".join(f"{mean:>10.2f}" for mean in means))
if given.picture:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    combined = ["slow stack", "fast stack", "corrected by prediction", "corrected by day and week"]
    experts = plot.weights_over_time(steps, history, without=combined)
    plot.plot_weights(experts, figure.subplots(), title="Weights among the experts of Auto")
    figure.savefig(given.picture, dpi=110)
