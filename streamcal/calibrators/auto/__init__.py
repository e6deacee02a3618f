"""`Auto`: a mixture of experts of many kinds, with nothing to choose.

`experts` is the table of the experts, `panel` runs them side by side, `mixture` weights them, and `auto` is the method.
"""

from streamcal.calibrators.auto.auto import Auto

__all__ = ["Auto"]
