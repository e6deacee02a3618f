"""`Auto`: a mixture of ten experts, with nothing to choose.

`experts` is the table of experts and constants, `auto` is the method, `saved` reads states. The step is the kernel
`auto_mixture`.
"""

from streamcal.calibrators.auto.auto import Auto

__all__ = ["Auto"]
