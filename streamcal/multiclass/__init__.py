"""Many classes: a vector of scores, one for each label → probabilities that sum to one.

Examples
--------
>>> from streamcal.multiclass import VectorScaling
>>> cal = VectorScaling()
>>> for scores, y in [({"cat": 0.7, "dog": 0.3}, "dog"), ({"cat": 0.6, "dog": 0.3, "fox": 0.1}, "fox")]:
...     p = cal.predict_one(scores)  # before the first observation: the scores
...     cal.learn_one(scores, y)
>>> sum(cal.predict_one({"cat": 0.6, "dog": 0.3, "fox": 0.1}).values())
1.0
"""

from streamcal.multiclass.base import MulticlassCalibrator, MulticlassMap
from streamcal.multiclass.dirichlet import Dirichlet
from streamcal.multiclass.one_vs_rest import OneVsRest
from streamcal.multiclass.online_vector import OnlineVectorScaling
from streamcal.multiclass.temperature import TemperatureScaling
from streamcal.multiclass.vector import VectorScaling
from streamcal.multiclass.venn_abers import MulticlassVennAbers

#: The list of methods: name → class.
METHODS: dict[str, type[MulticlassCalibrator]] = {
    method.name: method
    for method in (
        OneVsRest,
        TemperatureScaling,
        VectorScaling,
        Dirichlet,
        OnlineVectorScaling,
        MulticlassVennAbers,
    )
}

__all__ = [
    "METHODS",
    "Dirichlet",
    "MulticlassCalibrator",
    "MulticlassMap",
    "MulticlassVennAbers",
    "OneVsRest",
    "OnlineVectorScaling",
    "TemperatureScaling",
    "VectorScaling",
]
