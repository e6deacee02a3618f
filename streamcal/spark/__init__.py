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
    from streamcal.spark.audits import audit as audit
    from streamcal.spark.audits import checksums as checksums
    from streamcal.spark.frames import fit as fit
    from streamcal.spark.frames import merge as merge
    from streamcal.spark.frames import states as states
    from streamcal.spark.frames import transform as transform
    from streamcal.spark.segments import SegmentStream as SegmentStream
    from streamcal.spark.segments import fit_segments as fit_segments
    from streamcal.spark.segments import transform_segments as transform_segments
    from streamcal.spark.streams import calibrate_stream as calibrate_stream
else:  # the same names, each imported when it is first used
    __getattr__, __dir__, __all__ = attributes(
        globals(),
        {
            "streamcal.spark.audits": "audit checksums",
            "streamcal.spark.frames": "fit merge states transform",
            "streamcal.spark.segments": "SegmentStream fit_segments transform_segments",
            "streamcal.spark.streams": "calibrate_stream",
        },
    )
