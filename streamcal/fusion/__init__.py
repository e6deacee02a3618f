"""Fusion: several scores → one probability."""

from streamcal.fusion.base import Fusion, FusionMap
from streamcal.fusion.bernstein_fusion import BernsteinFusion

#: Every method of several scores, by name.
METHODS: dict[str, type[Fusion]] = {method.name: method for method in (BernsteinFusion,)}

__all__ = ["METHODS", "BernsteinFusion", "Fusion", "FusionMap"]
