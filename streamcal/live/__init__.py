"""What stands between a deployed model and its users: `CalibrationMonitor`, which says when forecasts go wrong."""

from typing import TYPE_CHECKING

from streamcal.lazy import attributes

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.live.monitor import CalibrationMonitor
    from streamcal.live.segmented import Segmented
else:  # the same names, each imported when it is first used
    __getattr__, __dir__ = attributes(
        globals(),
        {
            "CalibrationMonitor": "streamcal.live.monitor.CalibrationMonitor",
            "Segmented": "streamcal.live.segmented.Segmented",
        },
    )

__all__ = [
    "CalibrationMonitor",
    "Segmented",
]
