"""Calibration on Apache Spark: `fit` over partitions of a table, `transform`, and keyed streams.

`folding.py` and `joining.py` run in the Python workers and import no Spark: Arrow batches become one state for each
key, states are merged and applied, and events are joined with their labels. `frames.py` puts this on tables,
`streams.py` on streams. PySpark (4.1 or later) is the extra `spark`; importing this package does not import it, using
one of its functions does.
"""

from typing import TYPE_CHECKING

from streamcal.lazy import attributes

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.spark.frames import fit, merge, states, transform
    from streamcal.spark.streams import calibrate_stream
else:  # the same names, each imported when it is first used
    __getattr__, __dir__ = attributes(
        globals(),
        {
            "calibrate_stream": "streamcal.spark.streams.calibrate_stream",
            "fit": "streamcal.spark.frames.fit",
            "merge": "streamcal.spark.frames.merge",
            "states": "streamcal.spark.frames.states",
            "transform": "streamcal.spark.frames.transform",
        },
    )

__all__ = ["calibrate_stream", "fit", "merge", "states", "transform"]
