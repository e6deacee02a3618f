"""`migrate`: the journal of a join becomes that of a join with another horizon, method or segments."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

from streamcal.errors import InputError, StateError
from streamcal.kernels.pending.pending_steps import PendingSteps
from streamcal.live.holding import issued_at, outcome_at
from streamcal.live.issued import Issued, Outcome
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
        learned, forgotten = _carry_on(join, before, keep)
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

    table = join._now.table
    for place in range(table.first, table.end):
        remembered = table.record(place)
        if remembered is not None:
            prediction = issued_at(table, place)
            learner = join._versions.get(prediction.version)
            record = None if learner is None else record_in_shadow(learner, prediction, remembered, inside=inside)
            table.set_record(place, record)
    join._versions = {name: in_shadow(learner, shadow if inside else None) for name, learner in join._versions.items()}
    return True


def _carry_on(join: LabelJoin, before: LabelJoin, keep: bool) -> tuple[int, int]:
    """Give a new join what another one remembers and has counted, and its calibrators if they are kept.

    Return how many labels a new calibrator has learned, and how many predictions are remembered no more.
    """
    for name in ("_newest", "_note", "_stride", "_next_stride", "_aside"):
        setattr(join, name, getattr(before, name))
    now, then = join._now, before._now
    now.clock, now.number = then.clock, then.number
    join.max_held, join.max_unknown = max(join.max_held, before.max_held), max(join.max_unknown, before.max_unknown)
    learner = join._versions.pop(None)
    join._versions = before._versions if keep else {before._newest: learner}
    curve_kept = before.spans == join.spans._replace(late=before.spans.late)
    if curve_kept:
        join._curve, now.ages = before._curve, then.ages
        join._follow_curve()
    forgotten = learned = 0

    def taken_over(place: int) -> bool:
        """Take a prediction over; False if its label was learned and is another by the new spans."""
        one, outcome = issued_at(then.table, place), outcome_at(then.table, place)
        seen = outcome if outcome is None or curve_kept else _seen_again(join, one, outcome, before)
        if keep and place < then.unlearned:
            relabelled = join._curve is None and _label(now, one, seen) != _label(then, one, outcome)
            if one.at > now.clock - now.soonest or relabelled:
                return False
        record = then.table.record(place) if keep else None
        if not keep and one.version == before._newest:
            record = learner.issue(one.score * now.factor, one.keys, one.t, one.w)[1]
        at = now.table.add(*one, record)
        if seen is not None:
            now.table.set_outcome(at, *seen)
        return True

    for place in range(then.table.first, then.unlearned):
        forgotten += not taken_over(place)
    if keep:
        now.unlearned = now.table.end
    else:
        join._settle()
        learned = now.learned
    now.counts = then.counts
    for place in range(then.unlearned, then.table.end):
        taken_over(place)
    if join._curve is not None and not curve_kept:  # a new curve needs early clicks as well as later ones
        for place in range(now.table.first, now.table.end):
            outcome = outcome_at(now.table, place)
            if outcome is not None and outcome.positive:
                join._await_age(issued_at(now.table, place), outcome)
    join._settle()
    if not keep:
        learned += now.learned - then.learned
    return learned, forgotten


def _label(now: PendingSteps, one: Issued, outcome: Outcome | None) -> bool:
    """Return the label that an outcome means, where labels are learned as they are now."""
    if outcome is None or not outcome.positive:
        return False
    return bool(outcome.t - one.t <= now.keep) if now.waits else outcome.cell == 0


def _seen_again(join: LabelJoin, one: Issued, outcome: Outcome, before: LabelJoin) -> Outcome:
    """Return an outcome with its cell in a new curve, by its own time and the cell in which it was known before."""
    if join._curve is None or not outcome.positive:
        return outcome._replace(cell=0)
    known = outcome.t - one.at
    if before._curve is not None and outcome.cell > 0:
        known = max(known, before._curve.edges[min(outcome.cell, len(before._curve.edges) - 1)])
    return outcome._replace(cell=bisect_left(join._curve.edges, known))
