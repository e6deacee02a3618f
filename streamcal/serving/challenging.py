"""The challengers of a service: what is known of them, and promotions and rollbacks by request."""

from __future__ import annotations

from typing import Any

from streamcal.errors import CapabilityError, InputError
from streamcal.live.shadow import LONGEST_NAME, Comparison, Shadow, Version
from streamcal.serving.reading import RefusedError, checked

#: What is answered where there is no shadow.
NONE = "this service has no challengers; start it with --challenger METHOD"


class Challenging:
    """The shadow of a service; `RefusedError` with status 404 for a service without one."""

    def __init__(self, calibrator: Any) -> None:
        self._calibrator = calibrator

    @property
    def shadow(self) -> Shadow:
        """The shadow of the newest version of the model."""
        if not isinstance(self._calibrator, Shadow):
            raise RefusedError(404, NONE, "challengers")
        return self._calibrator

    def shown(self) -> dict[str, Any]:
        """Return the version in use, its method, and the comparison of each challenger with it."""
        shadow = self.shadow
        methods = shadow.challengers
        challengers = [
            {**compared(comparison), "method": repr(methods[comparison.name])} for comparison in shadow.comparisons()
        ]
        return {**shadow.version._asdict(), "method": repr(shadow.champion), "challengers": challengers}

    def promote(self, item: Any) -> Version:
        """Put the challenger `name` into use, or without a name the best; 409 unless it is shown to be better."""
        fields = checked(item, {"name": check_name}, ())
        try:
            return self.shadow.promote(fields.get("name"))
        except CapabilityError as error:
            raise RefusedError(409, str(error), "name") from None
        except InputError as error:
            raise RefusedError(422, str(error), "name") from None

    def rollback(self, item: Any) -> Version:
        """Put the calibrator of an earlier version into use again."""
        fields = checked(item, {"version": check_number}, ("version",))
        try:
            return self.shadow.rollback(fields["version"])
        except InputError as error:
            raise RefusedError(422, str(error), "version") from None


def compared(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as it is answered."""
    sequence = {"difference": comparison.difference, "low": comparison.low, "high": comparison.high}
    return {"name": comparison.name, "verdict": comparison.verdict, "labels": comparison.n, **sequence}


def check_name(value: Any) -> None:
    """Check the name of a challenger."""
    if value.__class__ is not str or not 0 < len(value) <= LONGEST_NAME:
        raise InputError(
            f"name is no text of up to {LONGEST_NAME} characters; give that of a challenger, or leave it out"
        )


def check_number(value: Any) -> None:
    """Check the number of a version."""
    if value.__class__ is not int:
        raise InputError("version is no whole number; give that of a version, such as 1")
