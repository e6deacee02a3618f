"""Calibration of a deployed model: late labels, journals, monitors, challengers, segments and groups.

`LabelJoin` joins predictions with labels that come late, and `CountedJoin` counts any number of them; `Journal` keeps
their events on the disk. `CalibrationMonitor` raises an alarm when predictions go wrong; `Shadow` compares calibrators;
`Segmented` calibrates campaigns, placements and other levels in addition to the whole, and `Multicalibrated` keeps
every group of them calibrated;
`undo_downsampling`, `importance_weight` and `shift_prior` correct for how the training data of a model differ from its
traffic.
"""

from typing import TYPE_CHECKING

from streamcal.lazy import Methods, attributes

#: Those that learn from keys beside scores, by name: what `streamcal.load` finds.
METHODS: Methods[type] = Methods(
    {
        "multicalibrated": "streamcal.live.multicalibrated.Multicalibrated",
        "segmented": "streamcal.live.segmented.Segmented",
    }
)
#: Classes with a state that are no learners, and their places: what `streamcal.load` finds besides.
SAVED = {
    "CalibrationMonitor": "streamcal.live.monitor.CalibrationMonitor",
    "CountedJoin": "streamcal.live.counted_join.CountedJoin",
    "LabelJoin": "streamcal.live.label_join.LabelJoin",
    "Shadow": "streamcal.live.shadow.Shadow",
}

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.live.corrections import importance_weight as importance_weight
    from streamcal.live.corrections import shift_prior as shift_prior
    from streamcal.live.corrections import undo_downsampling as undo_downsampling
    from streamcal.live.counted_join import Answer as Answer
    from streamcal.live.counted_join import Answers as Answers
    from streamcal.live.counted_join import CountedJoin as CountedJoin
    from streamcal.live.issued import Issued as Issued
    from streamcal.live.journal import Journal as Journal
    from streamcal.live.label_join import LabelJoin as LabelJoin
    from streamcal.live.migrating import migrate as migrate
    from streamcal.live.monitor import CalibrationMonitor as CalibrationMonitor
    from streamcal.live.multicalibrated import Certificate as Certificate
    from streamcal.live.multicalibrated import Group as Group
    from streamcal.live.multicalibrated import Multicalibrated as Multicalibrated
    from streamcal.live.pairs import PairEffect as PairEffect
    from streamcal.live.segmented import Segmented as Segmented
    from streamcal.live.shadow import Shadow as Shadow
else:  # the same names, each imported when it is first used
    __getattr__, __dir__, __all__ = attributes(
        globals(),
        {
            "streamcal.live.corrections": "importance_weight shift_prior undo_downsampling",
            "streamcal.live.counted_join": "Answer Answers",
            "streamcal.live.issued": "Issued",
            "streamcal.live.journal": "Journal",
            "streamcal.live.migrating": "migrate",
            "streamcal.live.multicalibrated": "Certificate Group",
            "streamcal.live.pairs": "PairEffect",
        },
        SAVED | METHODS.by_class,
    )
    __all__ += ["METHODS", "SAVED"]
