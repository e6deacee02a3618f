"""Names that are not known: the nearest of those that are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

#: What methods are called in other libraries → here.
ELSEWHERE = {"sigmoid": "platt", "logistic": "platt", "pav": "isotonic", "pava": "isotonic", "ivap": "venn-abers"}


def did_you_mean(name: Any, known: Iterable[Any]) -> str:
    """The known name that `name` is most like, as a question to be added to a message; empty where none is like it.

    Names may be other than texts, as those of columns of pandas are.

    >>> did_you_mean("clik", ["click", 0]), did_you_mean("pctr", ["click", 0]), did_you_mean("0", ["click", 0])
    ("; did you mean 'click'?", '', '; did you mean 0?')
    """
    by_lower_case = {str(one).lower(): one for one in known}
    elsewhere = ELSEWHERE.get(str(name).lower())
    if elsewhere in by_lower_case:
        return f"; did you mean {by_lower_case[elsewhere]!r}?"
    near = difflib.get_close_matches(str(name).lower(), by_lower_case, n=1)
    return f"; did you mean {by_lower_case[near[0]]!r}?" if near else ""
