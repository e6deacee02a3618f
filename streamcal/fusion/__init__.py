"""Fusion: several scores → one probability."""

from streamcal.fusion.base import Fusion, FusionMap
from streamcal.fusion.bernstein_fusion import BernsteinFusion
from streamcal.fusion.copula import CopulaFusion
from streamcal.fusion.mrmic import MRMIC
from streamcal.fusion.partial_order_venn_abers import PartialOrderVennAbers
from streamcal.fusion.prequential import PrequentialFusion

#: Every method of several scores, by name.
METHODS: dict[str, type[Fusion]] = {
    method.name: method for method in (BernsteinFusion, CopulaFusion, MRMIC, PartialOrderVennAbers, PrequentialFusion)
}

__all__ = [
    "METHODS",
    "MRMIC",
    "BernsteinFusion",
    "CopulaFusion",
    "Fusion",
    "FusionMap",
    "PartialOrderVennAbers",
    "PrequentialFusion",
]
