"""`migrate`: the journal of a join becomes that of a join with another horizon, method or segments."""

from __future__ import annotations

import math
from typing import NamedTuple

from streamcal.errors import InputError, StateError
from streamcal.live.holding import issued_at
from streamcal.live.join_state import written_in
from streamcal.live.joining import paused_collector
from streamcal.live.journal import Journal
from streamcal.live.label_join import LabelJoin
from streamcal.live.shadow import Shadow
from streamcal.live.versions import in_shadow, record_in_shadow
from streamcal.parameters.inputs import check_time
from streamcal.parameters.types import Time


class Migrated(NamedTuple):
    """The result of migrating a journal."""

    same_calibrator: bool  #: whether the calibrator is that of the journal, with all that it has learned
    learned: int  #: labels of predictions still remembered that a new calibrator has learned
    #: Predictions dropped, since their labels were learned before the new time, or differ by the new horizon.
    forgotten: int


def migrate(journal: Journal, join: LabelJoin, clock: Time | None = None) -> Migrated | None:
    """Rewrite a journal for a join with other parameters.

    A join with these parameters can then use the journal. All predictions and outcomes that are remembered are kept.
    The calibrator is kept if its parameters and the early window are the same, also where it becomes the champion of a
    `Shadow`, or was one. Otherwise a new calibrator learns the labels that are remembered, in order.

    Parameters
    ----------
    journal : Journal
        The journal of the earlier join; no join may be using it.
    join : LabelJoin
        A new join with the wanted parameters and without a journal. Do not use it afterwards.
    clock : float or datetime, optional
        The present time, in seconds if it is a number. If the clock of the journal is later, because a machine's clock
        was wrong, it is turned back, and predictions issued later count as issued now. Otherwise no label would be
        learned until then. A calibrator that forgets by time is then replaced by a new one: to it, new labels are old.

    Returns
    -------
    Migrated or None
        None where there is nothing to do: the journal is new, or has these parameters and no later clock.

    Raises
    ------
    InputError
        If `clock` is no time, or `join` is a `CountedJoin`.
    StateError
        If the journal is damaged or of a `CountedJoin`, scores are on another scale, or levels are in a store. Nothing
        is changed then.

    Notes
    -----
    With a shorter horizon, labels that are due by it are learned at once. With a longer one, predictions whose labels
    were learned before their new time are forgotten if the calibrator is kept, so that no label is learned twice. So
    are those whose click counts by only one of the two horizons, each with its `late`. Their later clicks count as of
    unknown ids. The share of early clicks is estimated again from the clicks that are remembered. The journal is
    rewritten in one transaction.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "events.journal")
    >>> with Journal(path) as journal:
    ...     issued = LabelJoin("online-platt", 3600.0, journal=journal).issue("a", 0.2, t=0.0)
    ...     migrated = migrate(journal, LabelJoin("platt", 7200.0))
    ...     LabelJoin("platt", 7200.0, journal=journal).waiting
    1
    """
    if not isinstance(join, LabelJoin):
        raise InputError(
            f"a {type(join).__name__} is not possible; its predictions are counted, and cannot be migrated"
        )
    now = math.inf if clock is None else check_time(clock)
    if not journal.has_snapshot:
        return None
    journal.acknowledge()
    with paused_collector():
        before = LabelJoin._from_written(written_in(journal.parts()))
        if not isinstance(before, LabelJoin):
            raise StateError(f"{journal.path}: predictions that are counted cannot be migrated; begin another journal")
        before._replay(journal)
        moved = not before.uses_store and _moved(before, join.calibrator)
        same, late = before.calibrator.same_parameters(join.calibrator), before.clock > now
        if late:
            before._turn_back(now)
        if same and before.spans == join.spans and not (late or moved):
            return None
        if before.uses_store or join.uses_store:
            raise StateError(f"{journal.path}: levels in a store cannot be migrated; begin another journal")
        if before.calibrator.scale.domain != join.calibrator.scale.domain:
            lost, wanted = before.calibrator.scale.domain, join.calibrator.scale.domain
            raise StateError(f"{journal.path} has scores in {lost}, not in {wanted}; begin another journal")
        forgets = late and before.calibrator.forgets_by_time
        keep = same and before.spans[1:3] == join.spans[1:3] and not forgets
        learned, forgotten = join._carry_on(before, keep)
        journal.snapshot(join._parts())
    return Migrated(keep, learned, forgotten)


def _moved(join: LabelJoin, wanted: object) -> bool:
    """Make the calibrators of a join champions of shadows, or take them out of theirs, as in `wanted`.

    Return whether that was done: it is where nothing else differs.
    """
    inside, current = isinstance(wanted, Shadow), join.calibrator
    shadow = wanted if isinstance(wanted, Shadow) else current
    if inside == isinstance(current, Shadow) or not isinstance(shadow, Shadow):
        return False
    if not shadow.champion.same_parameters(current if inside else wanted):
        return False

    table = join._table
    for place in range(table.first, table.end):
        remembered = table.record(place)
        if remembered is not None:
            prediction = issued_at(table, place)
            learner = join._versions.get(prediction.version)
            record = None if learner is None else record_in_shadow(learner, prediction, remembered, inside=inside)
            table.set_record(place, record)
    join._versions = {name: in_shadow(learner, shadow if inside else None) for name, learner in join._versions.items()}
    return True
