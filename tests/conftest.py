"""Tests import `benchmarks` from the root of the repository, but streamcal from where it is installed."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.append(str(Path(__file__).parents[1]))  # last: a source tree holds no compiled kernels

# A deadline would fail whoever runs the tests on a busy machine.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
