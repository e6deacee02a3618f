"""Calibration on Apache Spark: `fit` over partitions of a table, `transform`, and keyed streams.

`folding.py`, `chaining.py`, `joining.py` and `packing.py` run in the Python workers and import no Spark: Arrow batches
become one state for each key, states are merged and applied, a `Segmented` learns and predicts batches, and events are
packed and joined with their labels. `frames.py` puts this on tables, `streams.py` on streams, `segments.py` a
`Segmented` on both, and `audits.py` reads what a stream has learned. PySpark (4.1 or later) is the extra `spark`;
importing this package does not import it, using one of its functions does.
"""

from typing import TYPE_CHECKING

from streamcal.lazy import attributes

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.spark.audits import audit, checksums
    from streamcal.spark.frames import fit, merge, states, transform
    from streamcal.spark.segments import SegmentStream, fit_segments, transform_segments
    from streamcal.spark.streams import calibrate_stream
else:  # the same names, each imported when it is first used
    __getattr__, __dir__ = attributes(
        globals(),
        {
            "SegmentStream": "streamcal.spark.segments.SegmentStream",
            "audit": "streamcal.spark.audits.audit",
            "calibrate_stream": "streamcal.spark.streams.calibrate_stream",
            "checksums": "streamcal.spark.audits.checksums",
            "fit": "streamcal.spark.frames.fit",
            "fit_segments": "streamcal.spark.segments.fit_segments",
            "merge": "streamcal.spark.frames.merge",
            "states": "streamcal.spark.frames.states",
            "transform": "streamcal.spark.frames.transform",
            "transform_segments": "streamcal.spark.segments.transform_segments",
        },
    )

__all__ = [
    "SegmentStream",
    "audit",
    "calibrate_stream",
    "checksums",
    "fit",
    "fit_segments",
    "merge",
    "states",
    "transform",
    "transform_segments",
]
