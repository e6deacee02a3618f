"""What stands between a deployed model and its users.

`CalibrationMonitor` says when forecasts go wrong, `Shadow` which of several calibrators is better.
"""

from typing import TYPE_CHECKING

from streamcal.lazy import attributes

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.live.monitor import CalibrationMonitor
    from streamcal.live.shadow import Shadow
else:  # the same names, each imported when it is first used
    __getattr__, __dir__ = attributes(
        globals(),
        {
            "CalibrationMonitor": "streamcal.live.monitor.CalibrationMonitor",
            "Shadow": "streamcal.live.shadow.Shadow",
        },
    )

__all__ = [
    "CalibrationMonitor",
    "Shadow",
]
