"""`Tokens`: what a `CountedJoin` signs and reads its tokens by."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, Self

import numpy as np

from streamcal.errors import InputError, StateError
from streamcal.kernels.counts.tokens import LENGTH, Signer
from streamcal.live.counted_bucket import Whole

#: Bytes of a key at least.
SHORTEST_KEY = 16
_ANOTHER = "was not issued by this join: it is of another join or key, or was changed on its way"


class Tokens:
    """The key of a join, and its tokens.

    Parameters
    ----------
    key : bytes or str, optional
        That of the user; a random one by default, which is `stored` with the join.
    """

    def __init__(self, key: bytes | str | None) -> None:
        self.stored = secrets.token_bytes(SHORTEST_KEY) if key is None else None
        self.fingerprint = ""
        self.signer: Any = Unsigned()
        self._sign_with(checked_key(key) if self.stored is None else self.stored)

    @classmethod
    def loaded(cls, stored: bytes | None, fingerprint: str) -> Self:
        """Return the tokens of a state; those without a stored key need `use`."""
        tokens = cls.__new__(cls)
        tokens.stored, tokens.fingerprint, tokens.signer = stored, fingerprint, Unsigned()
        if stored is not None:
            tokens._sign_with(stored)
        return tokens

    def use(self, key: bytes | str) -> None:
        """Sign and read tokens with the key they were loaded without; raise `InputError` for another one."""
        checked = checked_key(key)
        if _fingerprint(checked) != self.fingerprint:
            raise InputError("this key is not that of the join, whose tokens are in use; give the key it was made with")
        self._sign_with(checked)

    def _sign_with(self, key: bytes) -> None:
        self.fingerprint = _fingerprint(key)
        self.signer = Signer(hashlib.blake2b(key, digest_size=16, person=b"streamcal token").digest())

    def read(self, token: Any) -> tuple[int, int, int, int]:
        """Return the numbers of a token; raise `InputError` unless this join has issued it."""
        numbers = self._read(token)
        if numbers is None:
            raise InputError(f"token {str(token)[:40]!r} {_ANOTHER}; give the token that `issue` returned")
        return numbers

    def _read(self, token: Any) -> tuple[int, int, int, int] | None:
        written = token.encode("ascii", "replace") if isinstance(token, str) else token
        if not isinstance(written, (bytes, bytearray, memoryview)):  # such as a number
            return None
        numbers: tuple[int, int, int, int] | None = self.signer.read(bytes(written))
        return numbers

    def read_many(self, tokens: Any) -> Whole:
        """Return the numbers of tokens, shape (n, 4)."""
        column = np.asarray(tokens)
        if column.ndim != 1:
            raise InputError(f"tokens of shape {column.shape} are not possible; give a column of them")
        numbers = np.empty((len(column), 4), dtype=np.int64)
        if not len(column):
            return numbers
        try:
            texts = column.astype(f"S{max(LENGTH, column.dtype.itemsize)}") if column.dtype.kind in "SU" else None
        except UnicodeEncodeError:
            texts = None
        if texts is None:  # as pandas and Arrow have texts
            read: list[Any] = [self._read(one) for one in column.tolist()]
            bad = read.index(None) if None in read else -1
            if bad < 0:
                numbers[:] = read
        else:
            longer = np.char.str_len(texts) > LENGTH
            texts = np.where(longer, b"", texts).astype(f"S{LENGTH}")
            bad = int(self.signer.read_many(texts.view(np.uint8), numbers))
        if bad >= 0:
            raise InputError(
                f"token {str(column[bad])[:40]!r} in row {bad} {_ANOTHER}; nothing of this call was learned"
            )
        return numbers


class Unsigned:
    """In place of the signer of a join that was loaded without its key."""

    def __getattr__(self, name: str) -> Any:
        raise StateError("the key of this join is no part of its state; give it to use_key() first")


def checked_key(key: Any) -> bytes:
    """Return a key as bytes; raise `InputError` for one that is too short."""
    secret = key.encode() if isinstance(key, str) else key
    if not isinstance(secret, bytes) or not SHORTEST_KEY <= len(secret) <= 1024:
        raise InputError(
            f"this key is not possible; give {SHORTEST_KEY} to 1,024 bytes, such as secrets.token_bytes(32)"
        )
    return secret


def _fingerprint(key: bytes) -> str:
    return hashlib.blake2b(key, digest_size=8, person=b"streamcal key").hexdigest()
