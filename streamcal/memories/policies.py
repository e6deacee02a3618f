"""`memory_under`: the memory that implements a forgetting policy."""

from __future__ import annotations

from typing import cast

from streamcal.errors import InputError
from streamcal.memories.decay import CountDecay, TimeDecay
from streamcal.memories.memory import Memory, StatisticT
from streamcal.memories.windows import CountWindow, TimeWindow
from streamcal.parameters.forgetting import Decay, Forgetting, Window, largest_jump
from streamcal.parameters.prior import PseudoObservations


def memory_under(
    policy: Forgetting, statistic: StatisticT, prior: PseudoObservations | None = None
) -> Memory[StatisticT]:
    """Return a memory over an empty statistic with a prior; raise `InputError` if the policy allows no prior."""
    if isinstance(policy, Window):
        size = cast(float, policy.size)
        return (
            TimeWindow(statistic, prior, size, largest_jump(policy, size))
            if policy.timed
            else CountWindow(statistic, prior, int(size))
        )
    if isinstance(policy, Decay):
        half_life = cast(float, policy.half_life)
        if not policy.timed:
            return CountDecay(statistic, prior, half_life)
        if prior is not None:
            raise InputError(
                "a prior has no time, so it cannot fade under Decay(by='time'); use Decay by count, Window or Forever"
            )
        return TimeDecay(statistic, prior, half_life, largest_jump(policy, half_life))
    return Memory(statistic, prior)
