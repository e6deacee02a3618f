"""Two models of one event, fused online into one calibrated probability, in River.

    python examples/fusing_two_models.py

A logistic regression and naive Bayes learn to tell phishing sites, one site at a time (River ships 1,250 of them). Each
is measured raw and calibrated by itself; then both are fused, first with a polynomial of fixed degree, then with the
degree that has predicted best so far.
"""

from river import base, datasets, evaluate, linear_model, naive_bayes, preprocessing

from streamcal.fusion import BernsteinFusion, PrequentialFusion
from streamcal.river import Brier, CalibratedClassifier, FusedClassifier

#: Solving after every tenth site is enough for a surface of a few dozen numbers.
REFRESH = 10


def run(name: str, model: base.Classifier) -> None:
    """Predict, then learn, every site; prints the mean Brier score."""
    score = evaluate.progressive_val_score(datasets.Phishing(), model, Brier())
    print(f"{name:<34}{score.get():>10.5f}")


models = {
    "logistic regression": preprocessing.StandardScaler() | linear_model.LogisticRegression(),
    "naive Bayes": naive_bayes.GaussianNB(),
}
print(f"{'':<34}{'Brier':>10}")
for title, model in models.items():
    run(f"{title}, raw", model.clone())
    run(f"{title}, calibrated", CalibratedClassifier(model.clone()))
run("both, fused", FusedClassifier(list(models.values()), BernsteinFusion(degrees=3, refresh_every=REFRESH)))
candidates = tuple(BernsteinFusion(degree, refresh_every=REFRESH) for degree in (1, 2, 3, 5))
both = FusedClassifier(list(models.values()), PrequentialFusion(candidates))
run("both, fused by the best degree", both)
print(f"degree followed at the end: {both.fusion.leader.degrees}")
