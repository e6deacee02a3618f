"""The journal side of a `LabelJoin`: resuming, acknowledging, snapshots, and notes of the user."""

from __future__ import annotations

import gc
import json
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from streamcal.errors import InputError, StateError
from streamcal.live import events, join_state
from streamcal.live.issued import Id
from streamcal.live.journal import Journal
from streamcal.live.level_store import LevelRows
from streamcal.live.versions import VersionLearner
from streamcal.saved import WithState


class Journaled(WithState):
    """The part of a join that keeps its events; its owner writes them and takes them again."""

    spans: Any
    max_held: int
    max_unknown: int
    max_jump: float
    max_behind: float
    replayed = 0  #: events of the journal that were taken again, after its snapshot
    _journal: Journal | None
    _note: str | None
    _versions: dict[Id | None, VersionLearner]

    @property
    @abstractmethod
    def calibrator(self) -> Any:
        """The calibrator that learns."""

    @abstractmethod
    def _limit(self, held: int, unknown: int) -> bool:
        """Set the limits and forget what is beyond them; return whether they are others than before."""

    @abstractmethod
    def _replay(self, written: Iterator[bytes]) -> int:
        """Take events of a journal again, and return how many they are."""

    def __reduce__(self) -> tuple[Any, ...]:
        if self._journal is not None:
            raise StateError(
                f"{self._journal.path}: a join with a journal belongs to one process, which alone writes to it; give "
                "another one its to_bytes(), to predict there"
            )
        return super().__reduce__()

    def acknowledge(self) -> int:
        """Return when all events so far are on the disk; how many there are. Any thread may call it.

        Raises
        ------
        InputError
            Without a journal.
        StateError
            If they cannot be written; they are kept, to be written with the next call.
        """
        return self._with_journal().acknowledge()

    def snapshot(self) -> None:
        """Write the whole state to the journal, and drop the events that led to it, so that it stays small.

        Call it now and then, such as once an hour or after a million events: resuming takes the events after it again.
        O(size of the state).
        """
        self._with_journal().snapshot(self._parts())
        self._levels_stored()()

    @abstractmethod
    def _parts(self) -> Iterator[bytes]:
        """Yield the state as bytes, in parts; nothing must change meanwhile."""

    def _levels_stored(self) -> Callable[[], None]:
        """Return what to call when the state written last is safe: states before it need no levels in a store."""
        found = [(rows, rows.number) for rows in map(_rows_of, self._versions.values()) if rows is not None]

        def stored() -> None:
            for rows, number in found:
                rows.stored(number)

        return stored

    @property
    def uses_store(self) -> bool:
        """Whether levels are in a store, which no forked process can write to."""
        return any(_rows_of(learner) is not None for learner in self._versions.values())

    @property
    def noted(self) -> Any:
        """The data of the last `note`; None if there was none."""
        return None if self._note is None else json.loads(self._note)

    def note(self, data: Any) -> None:
        """Keep plain data with the state and in the journal, between the events before and after it.

        An example is the place in the source of the events: a consumer that notes the place before each `acknowledge`
        resumes from `noted` after it was killed, and reads no event twice.

        Parameters
        ----------
        data
            What `json` can write. It takes the place of the note before.

        Raises
        ------
        InputError
            For other data; nothing is changed then.
        StateError
            If the journal cannot take more events. Nothing is changed then.

        Examples
        --------
        >>> from streamcal import OnlinePlatt
        >>> from streamcal.live import LabelJoin
        >>> join = LabelJoin(OnlinePlatt(), horizon=3600.0)
        >>> join.note({"offset": 17})
        >>> LabelJoin.from_bytes(join.to_bytes()).noted
        {'offset': 17}
        """
        try:
            note = json.dumps(data, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"a note has to be plain data, which JSON can hold: {error}") from None
        if self._journal is not None:
            self._journal.append(events.noted(note))
        self._keep_note(note)

    def _keep_note(self, note: str) -> None:
        self._note = note

    def _write_changes(self, version: Id | None) -> None:
        """Write all later changes of the version's shadow, if the version has one, to the journal."""
        if (journal := self._journal) is not None:
            if (rows := _rows_of(self._versions[version])) is not None:
                rows.joined = True
            self._versions[version].tell(
                lambda what, name, calibrator: journal.append(events.changed(version, what, name, calibrator))
            )

    def _with_journal(self) -> Journal:
        if self._journal is None:
            raise InputError("this join has no journal; give journal=Journal(path) to the constructor")
        return self._journal

    def _resume(self, journal: Journal) -> None:
        """Take over the state that a journal holds, and write to it from now on."""
        limits = self.max_held, self.max_unknown
        with paused_collector():
            self._take_over(journal)
            self._levels_stored()()  # a process that was killed right after a snapshot did not come to it
            self.replayed = self._replay(journal.events())  # with the limits under which they came
        self._journal = journal
        for version in self._versions:
            self._write_changes(version)
        if self._limit(*limits) or not journal.has_snapshot:
            self.snapshot()

    def _take_over(self, journal: Journal) -> None:
        """Load the snapshot of a journal, if there is one."""
        if journal.has_snapshot:
            saved = type(self)._from_written(join_state.written_in(journal.parts()))
            if saved.spans != self.spans or not saved.calibrator.same_parameters(self.calibrator):
                raise StateError(
                    f"{journal.path} is the journal of another join, {saved!r}; give its parameters or another path, "
                    "or migrate it (streamcal.live.migrate, or serve --migrate)"
                )
            bounds = {"max_jump": self.max_jump, "max_behind": self.max_behind}
            self.__dict__ = {**saved.__dict__, **bounds}


@contextmanager
def paused_collector() -> Iterator[None]:
    """Keep the garbage collector from looking at all that is held again and again while it is made."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _rows_of(learner: VersionLearner) -> LevelRows | None:
    """Return the rows of a version's levels in a store; None without a store."""
    return getattr(learner.calibrator, "_level_rows", None)
