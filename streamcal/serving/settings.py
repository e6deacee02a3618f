"""`Settings`: how a service takes requests, and their limits."""

from __future__ import annotations

from dataclasses import dataclass, fields

from streamcal.parameters.numbers import real_number, whole_number
from streamcal.serving.tokens import Tokens

#: Characters of an id or a version, and of a field or a level of `keys`.
LONGEST_TEXT = 256


@dataclass(frozen=True)
class Settings:
    """How a service takes requests."""

    #: Times are those that clients give, who have to give them; else the clock is that of the server.
    event_time: bool = False
    #: An impression is on the disk before its prediction is answered. Outcomes always are before they are acknowledged.
    durable_issues: bool = True
    #: What clients have to give as "Authorization: Bearer …", except for /healthz and /readyz: one of the tokens, with
    #: commas between them, or of those in the file, one in each line, which is read again when it changes.
    token: str | None = None
    token_file: str | None = None
    backup: str | None = None  #: the file that `POST /v1/backup` writes
    #: Bytes of a request's body, and of its headers together.
    max_body: int = 2**20
    max_header: int = 2**14
    #: Items of a batch, and keys of an impression.
    max_batch: int = 1_000
    max_keys: int = 16
    body_timeout: float = 10.0  #: seconds in which the body of a request has to come
    max_ahead: float = 60.0  #: with the server's clock: seconds by which the time of a client may be ahead of it
    snapshot_every: int = 1_000_000  #: events after which the whole state is written to the journal, beside at the end
    #: Seconds for which the calibration map that is shown is kept, since it is made beside the requests.
    map_every: float = 10.0
    report_every: float = 10.0  #: seconds for which the report is kept, since each is made by a process of its own
    #: Segments with measures of their own in the metrics; further levels are together under "other".
    metric_segments: int = 100
    run_length: float = 1e6  #: mean number of labels until a false alarm of the monitor

    def __post_init__(self) -> None:
        for field in fields(self):
            allowed = f"a number such as {field.default!r}"
            if field.type == "int":
                least = 0 if field.name == "metric_segments" else 1
                number: float = whole_number(getattr(self, field.name), field.name, least, allowed=allowed)
            elif field.type == "float":
                number = real_number(getattr(self, field.name), field.name, allowed, least=1e-3)
            else:
                continue
            object.__setattr__(self, field.name, number)  # those of NumPy as Python's
        Tokens(self.token, self.token_file)
