"""Tests import `benchmarks` from the root of the repository, but streamcal from where it is installed."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # last: a source tree holds no compiled kernels
