"""The number of repetitions of every part."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Plan:
    """Sizes are numbers of distinct scores held; everything else is how often something is done."""

    sizes: tuple[int, ...] = (10_000, 31_623, 100_000, 316_228, 1_000_000, 3_162_278, 10_000_000)
    rounds: int = 60
    refit_sizes: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    refit_rounds: int = 7
    #: A rival is not run at a size where one fit would take longer, estimated from the size before.
    refit_seconds: float = 6.0
    stream_size: int = 1_000_000
    tail_size: int = 10_000_000
    tail_steps: int = 500_000
    bulk_size: int = 1_000_000
    bulk_rounds: int = 9
    #: Observations held by what is streamed in one call, and the number of calls.
    call_size: int = 100_000
    call_rounds: int = 30
    #: Rows of the file that `streamcal run` reads, and how often; starts on ten rows.
    run_rows: int = 10_000_000
    run_rounds: int = 3
    start_rounds: int = 10
    memory_size: int = 1_000_000
    accuracy_steps: int = 10_000
    profile_sizes: tuple[int, ...] = (10_000, 1_000_000)
    #: Rows of each long stream, and of the click log; predictions that wait for their labels.
    long_rows: int = 1_000_000
    log_rows: int = 20_000_000
    pending: int = 10_000_000
    seed: int = 3

    def with_sizes(self, sizes: list[int]) -> Plan:
        """Return the plan for another ladder; no size in the plan is above its largest size."""
        largest = max(sizes)
        return replace(
            self,
            sizes=tuple(sorted(sizes)),
            refit_sizes=tuple(size for size in sorted(sizes) if size <= max(self.refit_sizes)),
            stream_size=min(self.stream_size, largest),
            tail_size=min(self.tail_size, largest),
            memory_size=min(self.memory_size, largest),
            profile_sizes=tuple(sorted({min(size, largest) for size in self.profile_sizes})),
        )


FULL = Plan()
#: A smoke run: the figures mean little.
QUICK = Plan(
    sizes=(1_000, 10_000, 100_000),
    rounds=3,
    refit_sizes=(1_000, 10_000),
    refit_rounds=2,
    stream_size=10_000,
    tail_size=100_000,
    tail_steps=20_000,
    bulk_size=100_000,
    bulk_rounds=3,
    call_size=10_000,
    call_rounds=2,
    run_rows=20_000,
    run_rounds=1,
    start_rounds=1,
    memory_size=100_000,
    accuracy_steps=500,
    profile_sizes=(10_000,),
    long_rows=2_000,
    log_rows=20_000,
    pending=10_000,
)
