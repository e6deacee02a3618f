"""`Tokens`: which tokens clients may give, from the settings and from a file that is read again when it changes."""

from __future__ import annotations

import hmac
import logging
import os
from pathlib import Path

from streamcal.errors import InputError

logger = logging.getLogger(__name__)

#: Characters of a token at least.
SHORTEST = 16


class Tokens:
    """The tokens that are accepted; with none, every request is.

    They are `given`, with commas between them, or in a file, one in each line; lines that begin with # are passed over.
    To change a token, add the new one, give it to all clients, and then remove the old one. Raise `InputError` for a
    token that is too short or not printable ASCII, and for a file that cannot be read or has none.
    """

    def __init__(self, tokens: str | None = None, path: str | None = None) -> None:
        self._fixed = () if tokens is None else checked(tokens.split(","), "the token")
        self._path, self._seen = path, self._changed(path)
        self._accepted = self._fixed + (() if path is None else read(path))

    @property
    def asked(self) -> bool:
        """Whether clients have to give one."""
        return bool(self._accepted)

    def accept(self, header: bytes) -> bool:
        """Return whether the header of a request has one of the tokens; the time does not depend on which.

        The name of the scheme may be in any case (RFC 9110, section 11.1).
        """
        scheme, _, token = header.partition(b" ")
        header = b"Bearer " + token.strip() if scheme.lower() == b"bearer" else header
        return any([hmac.compare_digest(header, accepted) for accepted in self._accepted])

    def refresh(self) -> None:
        """Read the file again if it has changed; tokens stay as they are where it cannot be used."""
        if self._path is None or (seen := self._changed(self._path)) == self._seen:
            return
        self._seen = seen
        try:
            self._accepted = self._fixed + read(self._path)
        except InputError as error:
            logger.error("%s; the tokens from before stay valid", error)
        else:
            event = {"event": "tokens", "tokens": len(self._accepted)}
            logger.info("%s: read again, %d tokens are valid", self._path, len(self._accepted), extra=event)

    @staticmethod
    def _changed(path: str | None) -> tuple[int, ...] | None:
        """Return what differs where the file is another one or has other content."""
        try:
            status = None if path is None else os.stat(path)
        except OSError:
            return None
        return None if status is None else (status.st_ino, status.st_mtime_ns, status.st_size)


def read(path: str) -> tuple[bytes, ...]:
    """Return the headers of the tokens in a file."""
    try:
        lines = Path(path).read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path}: the tokens cannot be read: {error}; give a file of ASCII, a token in each line"
        ) from None
    tokens = [line for line in map(str.strip, lines) if line and not line.startswith("#")]
    return checked(tokens, f"{path}: a token")


def checked(tokens: list[str], what: str) -> tuple[bytes, ...]:
    """Return the headers of tokens; `InputError` where one cannot be used, or there is none."""
    stripped = [token.strip() for token in tokens]
    if not stripped or not all(
        token.isascii() and token.isprintable() and len(token) >= SHORTEST for token in stripped
    ):
        raise InputError(f"{what} is not possible; give at least {SHORTEST} printable ASCII characters")
    return tuple([f"Bearer {token}".encode() for token in stripped])
