"""Calibration of a deployed model: late labels, journals, monitors, challengers, segments and groups.

`LabelJoin` joins predictions with labels that come late, `Journal` keeps its events on the disk; `CalibrationMonitor`
raises an alarm when predictions go wrong; `Shadow` compares calibrators; `Segmented` calibrates campaigns,
placements and other levels in addition to the whole, and `Multicalibrated` keeps every group of them calibrated;
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
    "LabelJoin": "streamcal.live.label_join.LabelJoin",
    "Shadow": "streamcal.live.shadow.Shadow",
}

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.live.corrections import importance_weight, shift_prior, undo_downsampling
    from streamcal.live.issued import Issued
    from streamcal.live.journal import Journal
    from streamcal.live.label_join import LabelJoin
    from streamcal.live.migrating import migrate
    from streamcal.live.monitor import CalibrationMonitor
    from streamcal.live.multicalibrated import Certificate, Group, IssuedBets, Multicalibrated
    from streamcal.live.pairs import PairFound
    from streamcal.live.segmented import Segmented
    from streamcal.live.shadow import Shadow
else:  # the same names, each imported when it is first used
    __getattr__, __dir__ = attributes(
        globals(),
        {
            "Certificate": "streamcal.live.multicalibrated.Certificate",
            "Group": "streamcal.live.multicalibrated.Group",
            "Issued": "streamcal.live.issued.Issued",
            "IssuedBets": "streamcal.live.multicalibrated.IssuedBets",
            "Journal": "streamcal.live.journal.Journal",
            "migrate": "streamcal.live.migrating.migrate",
            "PairFound": "streamcal.live.pairs.PairFound",
            "importance_weight": "streamcal.live.corrections.importance_weight",
            "shift_prior": "streamcal.live.corrections.shift_prior",
            "undo_downsampling": "streamcal.live.corrections.undo_downsampling",
            **SAVED,
            **METHODS.by_class,
        },
    )

__all__ = [
    "METHODS",
    "SAVED",
    "CalibrationMonitor",
    "Certificate",
    "Group",
    "Issued",
    "IssuedBets",
    "Journal",
    "LabelJoin",
    "Multicalibrated",
    "PairFound",
    "Segmented",
    "Shadow",
    "importance_weight",
    "migrate",
    "shift_prior",
    "undo_downsampling",
]
