"""What stands between a deployed model and its users: `CalibrationMonitor`, which says when forecasts go wrong."""

from typing import TYPE_CHECKING

from streamcal.lazy import Methods, attributes

#: Those that learn from keys beside scores, by name: what `streamcal.load` finds.
METHODS: Methods[type] = Methods({"segmented": "streamcal.live.segmented.Segmented"})

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.live.monitor import CalibrationMonitor
    from streamcal.live.segmented import Segmented
else:  # the same names, each imported when it is first used
    __getattr__, __dir__ = attributes(
        globals(),
        {
            "CalibrationMonitor": "streamcal.live.monitor.CalibrationMonitor",
            **METHODS.by_class,
        },
    )

__all__ = [
    "METHODS",
    "CalibrationMonitor",
    "Segmented",
]
