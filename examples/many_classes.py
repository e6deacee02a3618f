"""Many classes: a naive Bayes classifier learns seven kinds of image segments, and its probabilities are calibrated.

    python examples/many_classes.py

Each row is predicted, then learned, by the classifier and by the calibrator. A label that is wrong can be taken back,
a probability vector with its Venn-Abers intervals can be had, and classes may appear at any time. The interval of a
class is that of its own predictor; the probabilities are divided by their sum, and so the intervals are too, below.
"""

from river import datasets, naive_bayes, preprocessing

from streamcal.metrics import ClasswiseECE, MulticlassBrier, MulticlassLogLoss
from streamcal.multiclass import MulticlassCalibrator, MulticlassVennAbers, OneVsRest
from streamcal.river import CalibratedMulticlassClassifier


def pipeline() -> preprocessing.StandardScaler:
    """Overconfident by nature: it takes the features for independent."""
    return preprocessing.StandardScaler() | naive_bayes.GaussianNB()


def run(name: str, calibrator: MulticlassCalibrator | None, calibrated: bool = True) -> CalibratedMulticlassClassifier:
    """Predict, then learn, every row; prints a row of the table. Without `calibrated`, of the classifier itself."""
    model = CalibratedMulticlassClassifier(pipeline(), calibrator)
    measures = MulticlassLogLoss(), MulticlassBrier(), ClasswiseECE()
    for x, y in datasets.ImageSegments():
        p = model.predict_proba_one(x) if calibrated else model.classifier.predict_proba_one(x)
        if p:
            for measure in measures:
                measure.update(y, p)
        model.learn_one(x, y)
    print(f"{name:<36}" + "".join(f"{measure.get():>10.4f}" for measure in measures))
    return model


def after_dividing(intervals: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """The least and the greatest share p / sum of each class, where every p may be anywhere in its interval."""
    lowers = sum(lower for lower, _ in intervals.values())
    uppers = sum(upper for _, upper in intervals.values())
    return {
        label: (lower / (lower + uppers - upper), upper / (upper + lowers - lower))
        for label, (lower, upper) in intervals.items()
    }


print(f"{'image segments, seven classes':<36}{'log loss':>10}{'Brier':>10}{'ECE':>10}")
run("pipeline, raw", None, calibrated=False)
run("calibrated: OnlineVectorScaling", None)
run('calibrated: OneVsRest("online-platt")', OneVsRest("online-platt"))
model = run("calibrated: MulticlassVennAbers", MulticlassVennAbers(resolution=4096))

x, y = next(iter(datasets.ImageSegments()))
scores = model.classifier.predict_proba_one(x)
intervals = after_dividing(model.calibrator.predict_interval_one(scores))
print(f"\nA segment of {y}: the three most likely classes, with their intervals after dividing by the sum:")
for label, p in sorted(model.predict_proba_one(x).items(), key=lambda item: -item[1])[:3]:
    lower, upper = intervals[label]
    print(f"{label:<12}{p:>8.3f}  ({lower:.3f}, {upper:.3f})")
