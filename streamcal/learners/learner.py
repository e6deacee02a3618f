"""`Learner`: the abstract base of all methods: parameters, merging, copying and saving."""

from __future__ import annotations

import dataclasses
import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from streamcal import lazy
from streamcal.errors import InputError, StateError, warn
from streamcal.learners.engine import Steps
from streamcal.learners.pending import Pending, settle
from streamcal.names import Suggesting, parameter_names
from streamcal.parameters.inputs import CheckedTime, check_time, check_times, check_times_of_one_kind, of_one_kind
from streamcal.parameters.settings import Setting, decode, encode
from streamcal.parameters.showing import html_table, shown_value
from streamcal.parameters.spans import in_shorter_unit, shorter_unit
from streamcal.parameters.types import FloatArray, Time, Times
from streamcal.saved import own_class, packed_state, read_state, read_written, signed_state, unpacked_state, written
from streamcal.states import Field, as_list, attribute, ensure, load_fields, whole, write_fields

#: What scikit-learn and River call a method → what it is called here.
HERE = {
    "fit": "learn_many(scores, labels), or streamcal.sklearn.StreamingCalibratedClassifier around a classifier",
    "partial_fit": "learn_many(scores, labels)",
    "predict": "predict_many(scores), or predict_one(score)",
    "predict_proba": "predict_many(scores)",
    "predict_proba_one": "predict_one(score), or streamcal.river.CalibratedClassifier around a classifier",
    "transform": "predict_many(scores)",
    "update": "learn_one(score, label)",
    "save": "streamcal.save(calibrator, path)",
}


class Elsewhere:
    """A name that other libraries have: it is no attribute, and the error says what to use.

    A `__getattr__` of the class would say the same, and make every access to any attribute slower.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, one: object, cls: type) -> NoReturn:
        """Raise the `AttributeError` with the remedy."""
        what = f"{cls.__name__!r} object has no attribute {self.name!r}"
        raise AttributeError(f"{what}; here it is {HERE[self.name]}", name=self.name, obj=one)


class Learner(metaclass=Suggesting):
    """The abstract base of all methods: parameters, merging, copying, printing and saving.

    Parameters are the constructor's arguments, stored under the same names and never changed. `Calibrator` is the base
    class for methods of one score; `streamcal.fusion`, `.multiclass` and `.regression` have their own base classes.
    Each of these contracts declares the public methods with its kind of observation (`learn_one`, `learn_many`,
    `predict_learn_many`, `unlearn_one`) and checks their arguments. What then happens to a checked observation is
    defined by the engine: `Additive` of the methods that are functions of a statistic, `Steps` of the sequential ones.
    """

    _engine: Any = Steps()
    #: Its name in the lists of methods.
    name: ClassVar[str]
    #: One line of description for `streamcal methods` and the documentation.
    summary: ClassVar[str] = ""
    #: The name of the class's own count in `tally`, such as "clamped" for scores clamped by the scale; None: no count.
    noted: ClassVar[str | None] = None
    _noted: int = 0
    #: Learns a checked observation of weight w > 0 by one step: of sequential learners.
    _step: Callable[[Any, Any, float], None]
    #: Whether the map depends only on ratios of weights, so that it does not change when all weights decay alike.
    by_ratios: bool = False
    _warned_of_unit = False  # whether times in a shorter unit than seconds have been warned of
    _first_time: Time | None = None  # of this process: a date with or without a time zone, or a number
    _known: ClassVar[dict[str, type[Learner]]] = {}

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in HERE]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Learner._known[cls.__name__] = cls

    @staticmethod
    def class_named(name: str) -> type[Learner]:
        """Return the class with this name: a method of streamcal, imported if needed, or a subclass defined elsewhere.

        Raise `StateError` if no class has the name.
        """
        cls: type[Learner] | None = lazy.method_class(name) or Learner._known.get(name)
        if cls is None or inspect.isabstract(cls):
            raise StateError(f"the state is one of {name!r}, which is not a method of this streamcal")
        return cls

    @property
    def merges(self) -> bool:
        """Whether `merge` is possible."""
        return bool(self._engine.merges)

    @property
    def unlearns(self) -> bool:
        """Whether `unlearn_one` is possible."""
        return bool(self._engine.unlearns)

    @property
    def forgets_by_time(self) -> bool:
        """Whether observations are forgotten by their times, so that each needs one."""
        return bool(self._engine.forgets_by_time)

    @property
    def bounded_memory(self) -> bool:
        """Whether memory has a bound that is fixed at construction."""
        return bool(self._engine.bounded)

    @property
    def n(self) -> float:
        """Total weight held; under decay, in units of a new observation."""
        return float(self._engine.n)

    # -- learning ------------------------------------------------------------------------------------------------

    @abstractmethod
    def learn_one(self, *observation: Any, **options: Any) -> None:
        """Learn one observation; each contract has its own arguments."""

    @abstractmethod
    def predict_one(self, *observation: Any, **options: Any) -> Any:
        """Predict one observation; each contract has its own arguments."""

    def _learn(self, x: Any, y: Any, w: float, t: float, noted: int = 0) -> None:
        """Learn one checked observation; `noted` is added to the count of that name if the weight is above 0."""
        self._engine.learn(self, x, y, w, t)
        if noted and w > 0.0:
            self._note(noted)

    def _learn_many(self, x: Any, y: Any, w: FloatArray, t: FloatArray, noted: int = 0) -> None:
        """Learn n checked observations: coordinates of shape (n,) or (n, M), and arrays of shape (n,)."""
        self._engine.learn_many(self, x, y, w, t)
        self._note(noted)

    def _unlearn(self, x: Any, y: Any, w: float, t: float, noted: int = 0) -> None:
        """Remove one checked observation; counts are not reduced."""
        self._engine.unlearn(self, x, y, w, t)

    def _time(self, t: Time | None) -> float:
        """Return the time as a float; raise `InputError` if a required time is missing."""
        if t is not None:
            return self._checked_time(t) if self._engine.reads_time else 0.0
        if self._engine.forgets_by_time:
            raise InputError(self._engine.needs_time())
        return 0.0

    def _times(self, t: Times | None, size: int) -> FloatArray:
        """Return the times as an array of shape (size,), or raise `InputError`."""
        if t is not None and self._engine.reads_time:
            return self._checked_times(t, size)
        if self._engine.forgets_by_time:
            raise InputError(self._engine.needs_time())
        if t is not None:  # not read, but of another length or kind they are not the times of these rows
            check_times(t, size)
        return np.zeros(size)

    def _checked_time(self, t: Time) -> float:
        """Check a time; warn, once, if it is likely to be in a shorter unit where seconds are needed."""
        time = check_time(t)
        self._first_time = of_one_kind(t, self._first_time)
        if in_shorter_unit(time):
            self._warn_of_unit(time)
        return time

    def _asked_time(self, t: Time | None) -> CheckedTime | None:
        """Check the time of a prediction, for the methods that a method is made of: they are given numbers alone."""
        return None if t is None else CheckedTime(self._read_time(t))

    def _read_time(self, t: Time) -> float:
        """Check the time of a prediction, which is of the kind of the times learned."""
        of_one_kind(t, self._first_time)
        return check_time(t)

    def _checked_times(self, t: ArrayLike | Sequence[Time], size: int) -> FloatArray:
        """Check n times; warn, once, if the last one is likely to be in a shorter unit where seconds are needed."""
        times, self._first_time = check_times_of_one_kind(t, size, self._first_time)
        if size and in_shorter_unit(times[-1]):
            self._warn_of_unit(float(times[-1]))
        return times

    def _warn_of_unit(self, t: float) -> None:
        factor, unit = shorter_unit(t)
        needed = "" if self._warned_of_unit else self._needs_seconds(factor)
        if needed:
            self._warned_of_unit = True
            warn(f"times such as {t:.15g} look like {unit}{needed}")

    def _needs_seconds(self, factor: float) -> str:
        """Return the end of the warning of times with `factor` units in a second; empty where any unit will do."""
        return str(self._engine.needs_seconds(factor))

    def _require_times(self, t: FloatArray) -> None:
        """Raise `ClockError` if one of these times, in order, is too far ahead to be learned."""
        self._engine.require_times(t)

    def _require_time(self, t: float) -> None:
        """Raise `ClockError` if the time of one observation is too far ahead to be learned."""
        self._engine.require_time(t)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Restore the learner after an error within, for errors that no check sees first. O(size of the state)."""
        attributes = [(part, part.__dict__.copy()) for part in (self, self._engine)]
        before = self._written()
        for part, fields in attributes:  # what the next solve starts from, which writing drops: a loop does not write
            part.__dict__.update(fields)
        try:
            yield
        except BaseException:
            self.__dict__ = type(self)._from_written(before).__dict__
            raise

    def merge(self, other: Self) -> None:
        """Add everything `other` has learned, as if both streams had been one; `other` is not changed."""
        self._engine.merge(self, other)
        self._note(other._noted)

    def tally(self) -> dict[str, int]:
        """Count the observations handled without an error, such as scores clamped by the scale.

        The count that the class calls `noted` comes first; `Additive.tally` has the others of additive methods.
        """
        return {**({} if self.noted is None else {self.noted: self._noted}), **self._engine.tally()}

    def _note(self, number: int) -> None:
        """Increase the count named `noted`."""
        self._noted += number

    # -- late labels ---------------------------------------------------------------------------------------------

    def settle(self, issued: Pending, y: Any, w: float | None = None, t: Time | None = None) -> None:
        """Learn the label of a prediction that `issue` returned, whenever it comes and in any order.

        Parameters
        ----------
        issued : Pending
            The prediction, which may have been pickled, as the calibrator may have been saved and loaded since.
        y : label or None
            As for `learn_one`. None: the label never comes, and nothing is learned.
        w : float, optional
            The weight, by default that given to `issue`. Give it here where it depends on the label, as
            `importance_weight` does.
        t : float or datetime, optional
            The time of the observation, by default that given to `issue`.

        Raises
        ------
        InputError
            For an argument that is not allowed, a prediction of a calibrator of another class, and one that has been
            settled before; nothing is learned then.

        Notes
        -----
        Each prediction is settled once. A second copy of it, as from a pickle, does not know of the first. A label that
        is settled before the next observation is learned leaves the state of `predict_one` and `learn_one`.
        """
        settle(self, issued, y, w, t)

    def _issue_keyed(self, x: Any, keys: Any, t: Time | None, w: float) -> tuple[Any, Sequence[float] | None]:
        """Predict an observation whose label comes later; return the prediction and what `_learn_keyed` needs of it.

        A method that is not judged by its predictions needs nothing: None. The state may change where every issued
        prediction is settled, as the stakes of `Multicalibrated` do.
        """
        return self.predict_one(x, t), None

    def _learn_keyed(self, x: Any, keys: Any, y: Any, record: Sequence[float] | None, w: float, t: Time | None) -> None:
        """Learn the label of a prediction that was issued with these arguments, of which `record` was returned."""
        self.learn_one(x, y, w, t)

    @property
    def _judged(self) -> bool:
        """Whether a label judges the prediction that was issued for it."""
        return False

    def _learn_at_once(self, x: Any, keys: Any, y: Any, w: float, t: Time | None) -> None:
        """Learn a label that belongs to the prediction of now: of wrappers that score a row when they learn it."""
        if self._judged:
            self._learn_keyed(x, keys, y, self._issue_keyed(x, keys, t, w)[1], w, t)
        else:
            self.learn_one(x, y, w, t)

    def _give_up_keyed(self, x: Any, keys: Any, record: Sequence[float] | None) -> None:
        """Forget a prediction that was issued with these arguments, whose label will not be learned."""

    # -- the map of additive methods -------------------------------------------------------------------------------

    def _present(self, t: Time | None) -> Any:
        """Return the statistic for predictions as of `t`: read-only, valid until the next change."""
        return self._engine.present(None if t is None else self._read_time(t))

    def _map_at(self, t: Time | None) -> Any:
        """Return the map as of `t`, solved only if the statistic has changed."""
        return self._engine.map_at(self, None if t is None else self._read_time(t))

    def _map_of(self, statistic: Any) -> Any:
        """Return the map of a statistic, which may be empty."""
        return self._engine.map_of(self, statistic)

    def _forget_solved(self) -> None:
        """Drop what solves start from; extended by methods whose solvers keep such starts."""
        self._engine.forget_solved()

    # -- parameters ----------------------------------------------------------------------------------------------

    def params(self) -> dict[str, Any]:
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in parameter_names(type(self))}

    def same_parameters(self, other: object) -> bool:
        """Return whether `other` is of this class and has equal parameters, as merging requires."""
        return type(other) is type(self) and other._compared() == self._compared()

    def _compared(self) -> dict[str, Any]:
        """Return the parameters as plain data, equal for parameters of equal meaning."""
        return _parameters_of(self)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return `params` for scikit-learn; with `deep`, also parameters' parameters, as `forgetting__size`."""
        params = self.params()
        nested = {f"{name}__{key}": one for name, value in params.items() for key, one in _fields(value).items()}
        return {**params, **nested} if deep else params

    def set_params(self, **params: Any) -> Self:
        """Change parameters before anything is learned, as scikit-learn's searches do; returns the learner itself.

        Parameters
        ----------
        **params
            Parameters by name; `scale__hi=8.0` changes a parameter of a parameter.

        Raises
        ------
        InputError
            For an unknown or impossible parameter, and after learning: the learned state depends on the
            parameters. The learner is then unchanged.

        Examples
        --------
        >>> from streamcal import Platt, Window
        >>> Platt(forgetting=Window(100)).set_params(forgetting__size=50).forgetting.size
        50
        """
        if not params:
            return self
        if self.n > 0.0:
            raise InputError(f"{type(self).__name__} has learned with its parameters; change those of a clone()")
        changed = _with_changes(self.params(), params, type(self).__name__)
        type(self)(**changed)  # raises for what is not possible while nothing has changed yet
        self.__dict__.clear()
        self.__init__(**changed)  # type: ignore[misc]
        return self

    def clone(self) -> Self:
        """Return a calibrator with the same parameters that has learned nothing."""
        return type(self)(**self.params())

    def __sklearn_clone__(self) -> Self:
        """Return a clone; `sklearn.base.clone` calls this."""
        return self.clone()

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.params().items())
        return f"{type(self).__name__}({arguments})"

    def _repr_html_(self) -> str:
        """Return the table that a notebook shows: the parameters, the learned weight, and what the learner can do."""
        can = ", ".join(name for name in ("merges", "unlearns", "bounded_memory") if getattr(self, name))
        counts = {name: f"{count:,}" for name, count in self.tally().items() if count}
        parameters = {name: shown_value(value) for name, value in self.params().items()}
        learned = {"n": f"{self.n:,.6g}", "can": can.replace("_", " ") or "–"}
        return html_table(type(self).__name__, parameters | learned | counts)

    # -- state ---------------------------------------------------------------------------------------------------

    def _fields(self) -> dict[str, Field]:
        """Return the fields of the state by name; subclasses extend them."""
        noted = {} if self.noted is None else {self.noted: attribute(self, "_noted", whole())}
        return {**noted, **self._engine.fields(self)}

    def _state(self) -> dict[str, Any]:
        """Return the learned state as plain data."""
        return write_fields(self._fields())

    def _restore(self, state: Any) -> None:
        """Load the result of `_state` into a new clone; `StateError` unless it can be one."""
        self._load(**load_fields(self._fields(), state))

    def _load(self, *_: Any, **read: Any) -> None:
        """Take over the fields without a `load` of their own; `StateError` if one contradicts another."""

    def state_dict(self) -> dict[str, Any]:
        """Return the parameters and everything learned as plain, versioned data for `json`, with a checksum.

        Notes
        -----
        Later predictions may differ in the last place from those without this call; docs/states_measured.md says where.

        Examples
        --------
        >>> from streamcal import Platt
        >>> cal = Platt()
        >>> cal.learn_one(0.2, True)
        >>> Platt.from_state(cal.state_dict()).predict_one(0.2) == cal.predict_one(0.2)
        True
        """
        return signed_state(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the object whose `state_dict` is given; it resumes exactly where that object was.

        Raises
        ------
        StateError
            If the state was damaged or changed, which its checksum shows, is one of another class or version, or if a
            field is impossible, by itself or beside the others.
        """
        return read_state(cls, state)

    def to_bytes(self, compress: bool = False) -> bytes:
        """Return the state as bytes: versioned, with a checksum, without pickle (docs/states.md).

        Parameters
        ----------
        compress : bool
            By zlib. Small states become no smaller.

        Returns
        -------
        bytes
            160 of an `OnlinePlatt`, 10 for each distinct score of an exact tree with few repeated scores.

        Examples
        --------
        >>> from streamcal import Platt
        >>> cal = Platt()
        >>> cal.learn_one(0.2, True)
        >>> Platt.from_bytes(cal.to_bytes()).predict_one(0.2) == cal.predict_one(0.2)
        True
        """
        return packed_state(self, compress)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return the object whose `to_bytes` is given; it resumes exactly where that object was, to the last bit.

        Raises
        ------
        StateError
            If the bytes were damaged, cut or changed, are of another version of the layout or another class, or if a
            field is impossible.
        """
        return unpacked_state(cls, content)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)

    def _written(self) -> dict[str, Any]:
        """Return the state without version and checksum, as it is part of another state."""
        return written(self)

    @classmethod
    def _from_written(cls, state: dict[str, Any]) -> Self:
        """Return the object of a state whose version and checksum have been checked."""
        return read_written(cls, state)

    def _plain_params(self) -> dict[str, Any]:
        return _parameters_of(self)

    @classmethod
    def _of_state(cls, params: Any, learned: Any) -> Self:
        calibrator = cls(**_parameters_in(cls, params))
        calibrator._restore(learned)
        return calibrator

    @classmethod
    def _of_class(cls, name: Any) -> type[Self]:
        """Return the class to read: a base class, such as `Calibrator`, reads the states of all its methods."""
        if not inspect.isabstract(cls):
            return own_class(cls, name)
        named = cls.class_named(name)
        if not issubclass(named, cls):
            raise StateError(f"the state is one of {name!r}, which is no {cls.__name__}")
        return named


for _name in HERE:
    setattr(Learner, _name, Elsewhere(_name))


def loaded_as(template: Learner, state: Any) -> Any:
    """Return the learner that a state holds; `StateError` unless it has the parameters of the template."""
    ensure(isinstance(state, dict), "the state of the calibrator is missing")
    loaded = type(template)._from_written(state)
    ensure(loaded.same_parameters(template), "the calibrator has other parameters than its template")
    return loaded


def in_turn(predict: Callable[..., Any], learn: Callable[..., None], rows: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Collect `predict(x, t)` before `learn(x, y, w, t)` for each row (x, y, w, t); the rows have been checked."""
    predictions = []
    for row in rows:
        predictions.append(predict(row[0], row[3]))
        learn(*row)
    return predictions


def _fields(value: Any) -> dict[str, Any]:
    """Return the parameters of a learner or of a setting such as `Window(5000)`; {} for any other value."""
    if isinstance(value, Learner):
        return value.get_params()
    if isinstance(value, Setting):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}  # type: ignore[arg-type]
    return {}


def _with_changes(params: dict[str, Any], changes: dict[str, Any], owner: str) -> dict[str, Any]:
    """Return parameters with changes, whole parameters before their parts; raise `InputError` for unknown ones."""
    result = dict(params)
    for key in sorted(changes, key=lambda key: key.count("__")):
        name, _, part = key.partition("__")
        if name not in result or (part and part.partition("__")[0] not in _fields(result[name])):
            raise InputError(f"{owner} has no parameter {key!r}; its parameters are: {', '.join(params)}")
        result[name] = _with_part(result[name], part, changes[key]) if part else changes[key]
    return result


def _with_part(value: Any, part: str, new: Any) -> Any:
    """Return a copy of a learner or setting in which one parameter has a new value."""
    if isinstance(value, Learner):
        return value.clone().set_params(**{part: new})
    return dataclasses.replace(value, **_with_changes(_fields(value), {part: new}, type(value).__name__))


def _parameters_of(learner: Learner) -> dict[str, Any]:
    """Return the parameters as plain data."""
    return {name: _plain(value) for name, value in learner.params().items()}


def _plain(value: Any) -> Any:
    """Return a parameter as plain data; a learner becomes its class and parameters."""
    if isinstance(value, Learner):
        return {"learner": type(value).__name__, "params": _parameters_of(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return encode(value)


def _parameters_in(cls: type[Learner], plain: dict[str, Any]) -> dict[str, Any]:
    """Invert `_parameters_of`; raise `StateError` if a parameter is missing, even one with a default."""
    ensure(plain.keys() == set(parameter_names(cls)), f"the parameters are not those of {cls.__name__}")
    return {name: _read(value) for name, value in plain.items()}


def _read(value: Any) -> Any:
    """Invert `_plain`."""
    if isinstance(value, dict) and "learner" in value:
        cls = Learner.class_named(value["learner"])
        return cls(**_parameters_in(cls, value["params"]))
    value = as_list(value)
    if isinstance(value, list):
        return tuple(_read(item) for item in value)
    return decode(value)
