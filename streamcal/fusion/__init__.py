"""Fusion: several scores → one probability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamcal.lazy import Methods, attributes

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.fusion.base import Fusion, FusionMap
    from streamcal.fusion.bernstein_fusion import BernsteinFusion
    from streamcal.fusion.copula import CopulaFusion
    from streamcal.fusion.logistic import LogisticFusion
    from streamcal.fusion.mrmic import MRMIC
    from streamcal.fusion.partial_order_venn_abers import PartialOrderVennAbers
    from streamcal.fusion.prequential import PrequentialFusion

#: The methods of several scores: name → class, which is imported when it is first used.
#: A new method is one file and one line here.
METHODS: Methods[type[Fusion]] = Methods(
    {
        "bernstein-fusion": "streamcal.fusion.bernstein_fusion.BernsteinFusion",
        "copula-fusion": "streamcal.fusion.copula.CopulaFusion",
        "logistic-fusion": "streamcal.fusion.logistic.LogisticFusion",
        "mrmic": "streamcal.fusion.mrmic.MRMIC",
        "partial-order-venn-abers": "streamcal.fusion.partial_order_venn_abers.PartialOrderVennAbers",
        "prequential-fusion": "streamcal.fusion.prequential.PrequentialFusion",
    }
)

if not TYPE_CHECKING:
    __getattr__, __dir__ = attributes(
        globals(),
        {**METHODS.by_class, "Fusion": "streamcal.fusion.base.Fusion", "FusionMap": "streamcal.fusion.base.FusionMap"},
    )

__all__ = [
    "METHODS",
    "MRMIC",
    "BernsteinFusion",
    "CopulaFusion",
    "Fusion",
    "FusionMap",
    "LogisticFusion",
    "PartialOrderVennAbers",
    "PrequentialFusion",
]
