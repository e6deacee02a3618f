"""`Auto`: a mixture of experts with memories of every length, with nothing to choose.

`experts` is the table of experts and constants, `auto` is the method, `saved` reads states. The kernel
`auto_mixture` makes a step, and names the kernels of its parts.
"""

from streamcal.calibrators.auto.auto import Auto

__all__ = ["Auto"]
