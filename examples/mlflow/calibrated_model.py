"""An MLflow model that is calibrated: the classifier and its calibration map, side by side and replaced one by one.

    pip install mlflow ".[sklearn]"
    python examples/mlflow/calibrated_model.py FOLDER

The model is an ordinary `pyfunc`: `mlflow models serve -m FOLDER`, batch jobs and the registry use it like any other.
What it contains of calibration is `map.json`, which every day's labels renew: the classifier is trained once, the
calibrator learns as labels come, and `with_map` writes the model of today. Serving needs no calibrator and no training
code; the map can be read without Python too (docs/maps.md).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
from sklearn.naive_bayes import GaussianNB

import streamcal

#: Names of the artifacts.
CLASSIFIER, MAP = "classifier", "map"


class CalibratedModel(mlflow.pyfunc.PythonModel):
    """Probabilities of a classifier, calibrated by a map."""

    def load_context(self, context: Any) -> None:
        """Read the classifier and the map from the folder of the model."""
        import joblib

        self.classifier = joblib.load(context.artifacts[CLASSIFIER])
        self.map = streamcal.load_map(Path(context.artifacts[MAP]).read_text(encoding="utf-8"))

    def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
        """Return the score of the classifier and the calibrated probability of each row."""
        scores = self.classifier.predict_proba(model_input.to_numpy())[:, 1]
        return pd.DataFrame({"score": scores, "calibrated": self.map.predict_many(scores)}, index=model_input.index)


mlflow.models.set_model(CalibratedModel())  # MLflow reads the model from this file


def save(path: Path, classifier: Any, calibrator: streamcal.Calibrator, rows: pd.DataFrame) -> None:
    """Write the model of a fitted classifier and a calibrator that has learned its scores; `rows` are as to predict."""
    import joblib

    with tempfile.TemporaryDirectory() as folder:
        artifacts = {CLASSIFIER: f"{folder}/classifier.joblib", MAP: f"{folder}/map.json"}
        joblib.dump(classifier, artifacts[CLASSIFIER])
        Path(artifacts[MAP]).write_text(calibrator.map().to_json(), encoding="utf-8")
        needed = ["streamcal", "scikit-learn", "joblib", "pandas"]
        answer = pd.DataFrame({"score": [0.5], "calibrated": [0.5]})
        about = {"signature": mlflow.models.infer_signature(rows, answer), "pip_requirements": needed}
        mlflow.pyfunc.save_model(path, python_model=__file__, artifacts=artifacts, **about)


def with_map(path: Path, calibrator: streamcal.Calibrator, today: Path) -> None:
    """Write the same model with the present map of a calibrator; the model before stays as it is."""
    shutil.copytree(path, today)
    (today / "artifacts" / "map.json").write_text(calibrator.map().to_json(), encoding="utf-8")


def stream(rng: np.random.Generator, n: int, odds: float) -> tuple[np.ndarray, np.ndarray]:
    """Return features and labels; the features are correlated, which naive Bayes does not know."""
    cause = rng.normal(size=n)
    features = cause[:, np.newaxis] + rng.normal(size=(n, 4))
    labels = rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * cause) / odds)
    return features, labels


def frame(features: np.ndarray) -> pd.DataFrame:
    """Return features with names."""
    return pd.DataFrame(features, columns=[f"feature {k}" for k in range(features.shape[1])])


def main(folder: str) -> None:
    """Train, calibrate, and renew the map after the rate has changed."""
    rng = np.random.default_rng(0)
    X, y = stream(rng, 4_000, odds=0.3)
    classifier = GaussianNB().fit(X[:2_000], y[:2_000])
    calibrator = streamcal.Beta(forgetting=streamcal.Window(2_000))
    calibrator.learn_many(classifier.predict_proba(X[2_000:])[:, 1], y[2_000:])
    first, today = Path(folder, "first"), Path(folder, "today")
    save(first, classifier, calibrator, frame(X))

    X, y = stream(rng, 4_000, odds=1.0)  # more positives, as after a change of the traffic
    calibrator.learn_many(classifier.predict_proba(X[:2_000])[:, 1], y[:2_000])
    with_map(first, calibrator, today)

    rows = frame(X[2_000:])
    print(f"{'model':24s}log loss")
    for path in (first, today):
        found = mlflow.pyfunc.load_model(str(path)).predict(rows)
        columns = ("score", "calibrated") if path is first else ("calibrated",)
        for column in columns:
            p = found[column].to_numpy()
            loss = -np.log(np.where(y[2_000:], p, 1.0 - p)).mean()
            print(f"{path.name + ', ' + column:24s}{loss:.3f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
