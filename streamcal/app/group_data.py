"""Data of the table of groups of a `Multicalibrated`, for the terminal and the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from streamcal.stream.by_segment import field_text, level_text

if TYPE_CHECKING:
    from streamcal.live.multicalibrated import Certificate, Group
    from streamcal.stream.comparing import Comparison

HEADINGS = ("group", "gap", "z", "bound", "evidence")


@dataclass(frozen=True)
class GroupTable:
    """The groups of one method with most evidence against their predictions."""

    of: str  #: the name of the method
    sentence: str  #: what is certified
    headings: tuple[str, ...]  #: of the columns of `rows`
    rows: tuple[tuple[str, ...], ...]  #: a row for each group, that with most evidence first


def group_tables(comparison: Comparison) -> tuple[GroupTable, ...]:
    """Return the table of the best method that is kept calibrated in groups; none without such a method."""
    for name in comparison.names:
        certified = comparison.standings[name].certified
        if certified is not None:
            rows = tuple(_row(group, certified.bins) for group in certified.groups)
            return (GroupTable(name, certificate_text(certified.certificate), HEADINGS, rows),)
    return ()


def certificate_text(certificate: Certificate) -> str:
    """Describe a certificate in words."""
    so_far = f"so far by {-certificate.gain:+.1f}"
    return f"log loss exceeds the uncorrected one by at most {certificate.regret:+.1f} nats, {so_far}"


def group_text(group: Group, width: float) -> str:
    """Describe a group in words; `width` is the width of its bins of log-odds.

    >>> from streamcal.live import Group
    >>> group_text(Group("campaign", "c1", -3, 1.0, 2.0, 3.0, 4.0, 0), 1.0)
    'campaign c1, log-odds from -3'
    """
    of = "all rows" if group.field is None else f"{field_text(group.field)} {level_text(group.level)}"
    return of if group.bin is None else f"{of}, log-odds from {group.bin * width:g}"


def bound_text(group: Group) -> str:
    """Write the bound of a group, and how many of its labels were late at once, if any was."""
    return f"{group.bound:.1f}" + (f" with {group.pending} pending" if group.pending > 1 else "")


def _row(group: Group, width: float) -> tuple[str, ...]:
    numbers = f"{group.gap:+.1f}", f"{group.z:+.1f}", bound_text(group), f"{group.evidence:.1f}"
    return group_text(group, width), *numbers
