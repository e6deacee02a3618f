"""Fusion: several scores → one probability."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamcal.lazy import Methods, attributes

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.fusion.base import Fusion as Fusion
    from streamcal.fusion.base import FusionMap as FusionMap
    from streamcal.fusion.bernstein_fusion import BernsteinFusion as BernsteinFusion
    from streamcal.fusion.copula import CopulaFusion as CopulaFusion
    from streamcal.fusion.logistic import LogisticFusion as LogisticFusion
    from streamcal.fusion.mrmic import MRMIC as MRMIC
    from streamcal.fusion.partial_order_venn_abers import PartialOrderVennAbers as PartialOrderVennAbers
    from streamcal.fusion.prequential import PrequentialFusion as PrequentialFusion

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

if not TYPE_CHECKING:  # the same names, each imported when it is first used
    __getattr__, __dir__, __all__ = attributes(
        globals(),
        {"streamcal.fusion.base": "Fusion FusionMap"},
        METHODS.by_class,
    )
    __all__ += ["METHODS"]
