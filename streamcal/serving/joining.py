"""`ServedJoin`: the join of the service, which says how it is and which predictions are those of a map alone."""

from __future__ import annotations

from streamcal.calibrators.base import Calibrator
from streamcal.live.issued import Id
from streamcal.live.judged import JudgedJoin
from streamcal.live.keyed import Keyed


class ServedJoin(JudgedJoin):
    """A `JudgedJoin` with what the endpoints of the service report."""

    def oldest(self, now: float) -> float:
        """Return the seconds since the oldest prediction that waits for its label was issued; 0 if there is none."""
        return max(now, self._clock) - self._waiting[0].at if self._waiting else 0.0

    def contradicts(self, id: Id, y: bool) -> bool:
        """Return whether an earlier outcome of an id has the other label."""
        before = self._outcomes.get(id) or self._aside.get(id)
        return before is not None and (before.negative if y else before.positive)

    def levels_held(self, most: int) -> dict[str, dict[str | int, None]]:
        """Return the first levels of each field of the predictions held, at most `most` of each."""
        found: dict[str, dict[str | int, None]] = {}
        for one in self._index.values():
            for field, level in one.keys.items() if one.keys else ():
                levels = found.setdefault(field, {})
                if len(levels) < most:
                    levels[level] = None
        return found

    @property
    def newest(self) -> Id | None:
        """The version of the model that came last."""
        return self._newest

    @property
    def overall(self) -> Calibrator:
        """The calibrator of all levels, of the newest version."""
        calibrator = self.calibrator
        return calibrator.overall if isinstance(calibrator, Keyed) else calibrator

    @property
    def mixes(self) -> bool:
        """Whether predictions of the newest version are made of several, for an early window or the version before."""
        return self.spans.early is not None or self._versions[self._newest].before is not None

    @property
    def has_one_map(self) -> bool:
        """Whether predictions of the newest version are those of `overall`, and of no other beside it."""
        return not (self.mixes or isinstance(self.calibrator, Keyed))

    @property
    def served_by_map(self) -> bool:
        """Whether they are its map: of the score alone, and not of the time."""
        return self.has_one_map and not self.overall.reads_time
