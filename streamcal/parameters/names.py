"""Names that are not known: the nearest of those that are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The known name that `name` is most like, as a question to be added to a message; empty where none is like it.

    >>> did_you_mean("clik", ["click", "score"]), did_you_mean("pctr", ["click", "score"])
    ("; did you mean 'click'?", '')
    """
    by_lower_case = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_lower_case, n=1)
    return f"; did you mean {by_lower_case[near[0]]!r}?" if near else ""
