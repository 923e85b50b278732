"""What a condition says, and why: a result, and a reason as a code with arguments.

A reason is stored as its code; `model.wording` makes the sentence when it is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Result(StrEnum):
    """What a condition says."""

    PASS = "pass"
    WAIT = "wait"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Why:
    """A reason as a code and its arguments; the sentence is made when shown."""

    code: str
    args: tuple[tuple[str, str | int | float], ...] = field(default=())

    def arg(self, name: str, default: str | float = "") -> str | int | float:
        """One argument by name."""
        return dict(self.args).get(name, default)

    def having(self, **args: str | float) -> Why:
        """The same reason with further arguments."""
        return Why(self.code, (*self.args, *args.items()))


def why(code: str, /, **args: str | float) -> Why:
    """A `Why` from keyword arguments, in the order given."""
    return Why(code, tuple(args.items()))


@dataclass(frozen=True, slots=True)
class Verdict:
    """PASS, WAIT or FAIL, with its reason."""

    result: Result
    why: Why
