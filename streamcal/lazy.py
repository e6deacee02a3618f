"""Names and lists of methods imported on first access, so that `import streamcal` costs next to nothing.

A *place* is the full name of something in a module, such as "streamcal.calibrators.platt.Platt".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

Class = TypeVar("Class")

#: Abbreviations of papers, and short names → the name of the method, which is that of its class in kebab case.
ALIASES = {
    "acp": "adaptive-calibration",
    "copula": "copula-fusion",
    "histogram": "histogram-binning",
    "hops": "hedged-ops",
    "lite": "linear-trend",
    "online-vector": "online-vector-scaling",
    "ops": "online-platt",
    "rpr": "monotone-polynomial",
    "structured-matrix": "structured-matrix-scaling",
    "temperature": "temperature-scaling",
    "tops": "tracking-ops",
    "vector": "vector-scaling",
    "venn-abers": "multiclass-venn-abers",
}
#: Where the lists of methods are. The modules of learners are below those lists and must not import them at the top;
#: they look a class up by its name (`method_class`), and only when a saved state names it.
LISTS = (
    "streamcal.calibrators.registry.REGISTRY",
    "streamcal.calibrators.registry.COMPOSED",
    "streamcal.fusion.METHODS",
    "streamcal.multiclass.METHODS",
    "streamcal.regression.METHODS",
    "streamcal.live.METHODS",
)
#: The packages whose classes users import.
PACKAGES = (
    "streamcal",
    "streamcal.live",
    "streamcal.multiclass",
    "streamcal.regression",
    "streamcal.fusion",
    "streamcal.metrics",
)
#: The modules with the settings of the methods of one score: what `--set "scale=Logit(-8, 0)"` may name.
SETTINGS = (
    "streamcal.calibrators.neighbourhoods",
    "streamcal.parameters.forgetting",
    "streamcal.parameters.prior",
    "streamcal.parameters.scales",
)


class Methods(Mapping[str, Class]):
    """A list of methods, name → class: a mapping that imports the module of a method when its class is first used.

    Parameters
    ----------
    places : Mapping
        Name of the method → place of its class. Length, names and membership are known without an import. A method is
        found by its alias too (`ALIASES`).

    >>> methods = Methods({"platt": "streamcal.calibrators.platt.Platt"})
    >>> len(methods), list(methods), "beta" in methods
    (1, ['platt'], False)
    >>> methods["platt"]
    <class 'streamcal.calibrators.platt.Platt'>
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self.places = dict(places)

    def __getitem__(self, name: str) -> Class:
        return imported(self.places[self.called(name)])

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def __contains__(self, name: object) -> bool:
        return name in self.places or (name.__class__ is str and ALIASES.get(name) in self.places)

    def spellings(self) -> list[str]:
        """Return the names of the methods and their aliases."""
        return [*self.places, *(alias for alias in ALIASES if alias in self)]

    def called(self, name: str) -> str:
        """Return the name of the method with this name or alias."""
        return name if name in self.places else ALIASES.get(name, name)

    def __repr__(self) -> str:
        return f"Methods({self.places!r})"

    @property
    def by_class(self) -> dict[str, str]:
        """Name of the class → its place."""
        return {place.rpartition(".")[2]: place for place in self.places.values()}


def _home_of(name: str, places: Mapping[str, str]) -> str:
    """Return the end of a message: the package of a class, or the nearest name."""
    from streamcal.names import did_you_mean  # here: `import streamcal` loads nothing else

    home = next((one for one in PACKAGES if name in import_module(one).__all__), None)
    return did_you_mean(name, places) if home is None else f"; it is in {home}"


def attributes(
    module: dict[str, Any], names: Mapping[str, str], methods: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make `__getattr__` and `__dir__` (PEP 562) and `__all__` of a package with names imported on first access.

    `names` is module → names in it, between spaces; `methods` is name → place. `module` is `globals()`: a name is put
    there once it was imported, so that later accesses cost nothing. `dir` shows what is public. Type checkers see
    `from ... import A as A` instead.
    """
    places = {name: f"{home}.{name}" for home, listed in names.items() for name in listed.split()} | dict(methods or {})

    def getattr_(name: str) -> Any:
        if name not in places:
            listed = f"module {module['__name__']!r} has no attribute {name!r}"
            raise AttributeError(listed + (_home_of(name, places) if name[:1].isupper() else ""))
        module[name] = value = imported(places[name])
        return value

    def dir_() -> list[str]:
        inner = (one.rpartition(".") for one in PACKAGES)
        in_use = {name for home, _, name in inner if home == module["__name__"] and name in module}
        return sorted({*module["__all__"], *in_use})

    return getattr_, dir_, sorted(places)


def imported(place: str) -> Any:
    """Import the object at a place: an attribute of a module, or a module.

    >>> imported("streamcal.errors.StateError")
    <class 'streamcal.errors.StateError'>
    """
    parent, _, name = place.rpartition(".")
    module = import_module(parent)
    return getattr(module, name) if hasattr(module, name) else import_module(place)


def method_class(name: str) -> Any | None:
    """Return the class named `name` of a listed method of any kind; None if there is none.

    >>> method_class("BernsteinFusion"), method_class("dict")
    (<class 'streamcal.fusion.bernstein_fusion.BernsteinFusion'>, None)
    """
    for place in LISTS:
        place_of_class = imported(place).by_class.get(name)
        if place_of_class is not None:
            return imported(place_of_class)
    return None
