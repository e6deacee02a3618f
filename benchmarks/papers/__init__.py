"""The tables of the papers, computed again with streamcal."""

from pathlib import Path

from streamcal import StreamcalError
from streamcal.datasets import fetch


def path_of(name: str) -> Path:
    """The file of a data set: in `$STREAMCAL_DATA`, else in the cache, else downloaded; a script ends without it."""
    try:
        return fetch(name)
    except StreamcalError as error:
        raise SystemExit(str(error)) from None
