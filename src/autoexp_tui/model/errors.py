"""The errors a person may meet. `exit_code` 2: the command line or the primary config;
3: the plan, or no confirmation; 4: another owner; 5: the machine, or a record that does
not read; the rest: `cli.diagnostics`. What else escapes is a bug, with a traceback in
the log."""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import indent
from typing import ClassVar, Final


@dataclass(eq=False)
class AutoexpError(Exception):
    """What is wrong, where, and the next step. Shown without a traceback."""

    problem: str
    where: str = ""
    """File and key path, or the name of the thing; empty when obvious."""
    hint: str = ""
    """The next step, as a sentence or a command."""

    exit_code: ClassVar[int] = 70

    def __str__(self) -> str:
        head = f"{self.where}: {self.problem}" if self.where else self.problem
        return f"{head}\n{indent(self.hint, '  ')}" if self.hint else head

    @property
    def line(self) -> str:
        """The same on one line, without its last full stop."""
        text = re.sub(r"\.?\n\s*- ", "; ", str(self))
        return re.sub(r"\.?\n\s*", ". ", text).rstrip(".")


@dataclass(eq=False)
class UsageError(AutoexpError):
    """A command line or a config that cannot be meant."""

    problems: tuple[Problem, ...] = ()

    exit_code: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding of validation; warnings are kept with the plan."""

    message: str
    where: str = ""
    job: str = ""
    hint: str = ""
    place: str = ""
    """`config/exp.yaml:41` of what `where` names; empty: none, or `where` says it."""

    @property
    def below(self) -> str:
        """What a person reads below the message: where it stands, and what to do."""
        return ": ".join(part for part in (self.place, self.hint) if part)

    def __str__(self) -> str:
        head = " ".join(part for part in (self.job, self.where) if part)
        line = f"{head}: {self.message}" if head else self.message
        return f"{line}\n{indent(self.below, '    ')}" if self.below else line


@dataclass(eq=False)
class Findings(Exception):
    """Carries every finding at once."""

    problems: tuple[Problem, ...]

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


_PLACED: Final = re.compile(r"^(.+?\.ya?ml):(\d+)")


def find_written_place(text: str) -> tuple[str, int] | None:
    found = _PLACED.match(text)
    return (found[1], int(found[2])) if found else None


@dataclass(eq=False)
class ValidationFailed(AutoexpError):
    """Every error of a plan at once; nothing was submitted."""

    problems: tuple[Problem, ...] = ()

    exit_code: ClassVar[int] = 3

    def __str__(self) -> str:
        told = (f"  - {problem}" for problem in self.problems)
        return "\n".join((super().__str__(), *told))


class NotConfirmed(AutoexpError):
    exit_code: ClassVar[int] = 3


class SessionOwned(AutoexpError):
    exit_code: ClassVar[int] = 4


@dataclass(eq=False)
class EnvironmentFailed(AutoexpError):
    """The machine does not let us: unwritable, full, or something is missing."""

    passing: bool = False
    """Whether time, or a little room, may mend it: the same may succeed later."""

    exit_code: ClassVar[int] = 5


@dataclass(eq=False)
class JournalDamaged(EnvironmentFailed):
    """A record other than a torn last line cannot be read."""

    newer: bool = False
    """Nothing is lost: a newer version wrote it, and reads it."""


def format_os_reason(error: OSError) -> str:
    """What the system said, without its number: `Permission denied`."""
    return error.strerror or str(error)
