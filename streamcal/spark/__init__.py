"""Calibration on Apache Spark: `fit` over partitions of a table, `transform`, and keyed streams.

`folding.py` is the part that runs in the Python workers and imports no Spark: Arrow batches become one state for each
key, and states are merged and applied. `frames.py` puts it on DataFrames. PySpark (4.1 or later) is the extra `spark`;
importing this package does not import it, using one of its functions does.
"""

from typing import TYPE_CHECKING

from streamcal.lazy import attributes

if TYPE_CHECKING:  # what type checkers and editors see
    from streamcal.spark.frames import fit, merge, states, transform
else:  # the same names, each imported when it is first used
    __getattr__, __dir__ = attributes(
        globals(),
        {
            "fit": "streamcal.spark.frames.fit",
            "merge": "streamcal.spark.frames.merge",
            "states": "streamcal.spark.frames.states",
            "transform": "streamcal.spark.frames.transform",
        },
    )

__all__ = ["fit", "merge", "states", "transform"]
