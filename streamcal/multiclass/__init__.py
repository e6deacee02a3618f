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

from __future__ import annotations

from typing import TYPE_CHECKING

from streamcal.lazy import Methods, attributes

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.multiclass.base import MulticlassCalibrator as MulticlassCalibrator
    from streamcal.multiclass.base import MulticlassMap as MulticlassMap
    from streamcal.multiclass.dirichlet import Dirichlet as Dirichlet
    from streamcal.multiclass.one_vs_rest import OneVsRest as OneVsRest
    from streamcal.multiclass.online_vector import OnlineVectorScaling as OnlineVectorScaling
    from streamcal.multiclass.structured import StructuredMatrixScaling as StructuredMatrixScaling
    from streamcal.multiclass.temperature import TemperatureScaling as TemperatureScaling
    from streamcal.multiclass.vector import VectorScaling as VectorScaling
    from streamcal.multiclass.venn_abers import MulticlassVennAbers as MulticlassVennAbers

#: The methods of many classes: name → class, which is imported when it is first used.
#: A new method is one file and one line here.
METHODS: Methods[type[MulticlassCalibrator]] = Methods(
    {
        "one-vs-rest": "streamcal.multiclass.one_vs_rest.OneVsRest",
        "temperature-scaling": "streamcal.multiclass.temperature.TemperatureScaling",
        "vector-scaling": "streamcal.multiclass.vector.VectorScaling",
        "dirichlet": "streamcal.multiclass.dirichlet.Dirichlet",
        "structured-matrix-scaling": "streamcal.multiclass.structured.StructuredMatrixScaling",
        "online-vector-scaling": "streamcal.multiclass.online_vector.OnlineVectorScaling",
        "multiclass-venn-abers": "streamcal.multiclass.venn_abers.MulticlassVennAbers",
    }
)

if not TYPE_CHECKING:  # the same names, each imported when it is first used
    __getattr__, __dir__, __all__ = attributes(
        globals(),
        {"streamcal.multiclass.base": "MulticlassCalibrator MulticlassMap"},
        METHODS.by_class,
    )
    __all__ += ["METHODS"]
