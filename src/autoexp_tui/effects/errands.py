"""Errands: commands, lines in files, and word of success, each one call outside."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from autoexp_tui.effects.outside import (
    Answer,
    Outside,
    OutsideEffect,
    Settlement,
    warn_of_failure,
)
from autoexp_tui.model.decision_context import DecisionContext
from autoexp_tui.model.done import work_of
from autoexp_tui.model.errors import AutoexpError, format_os_reason
from autoexp_tui.model.facts import CommandKey, CommandResult
from autoexp_tui.model.state import SessionState

NOTIFY_TIMEOUT: Final = 30.0
"""Seconds that the user's notification command may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNotifyCommand(OutsideEffect, kind="notify", recovery="once", pool="command"):
    """Run the user's notification command with a message as its last argument."""

    command: tuple[str, ...]
    message: str

    def job_names(self) -> Sequence[str]:
        return ()

    def name_object(self) -> str:
        return self.message

    def describe(self) -> str:
        return f"{' '.join(self.command)}: {self.message}"

    def call(self, outside: Outside) -> Answer:
        key = CommandKey((*self.command, self.message), NOTIFY_TIMEOUT)
        fact = outside.facts.observe(key)
        result = fact.value if isinstance(fact.value, CommandResult) else None
        ok = not fact.error and result is not None and result.exit_code == 0
        return Answer(ok=ok, detail=fact.error or (result.detail if result else ""))


class _Errand(OutsideEffect, recovery="once", pool="errand"):
    """What a rule of a job has done outside, once; a person is told when it fails."""

    __slots__ = ()

    job: str

    def settle(
        self, context: DecisionContext, settlement: Settlement, answer: Answer
    ) -> None:
        super().settle(context, settlement, answer)
        if not answer.ok:
            warn_of_failure(context, settlement.pending, answer.detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendText(_Errand, kind="append"):
    """Add a line of text to a file, as a rule of a job says."""

    job: str
    path: str
    text: str
    below: str = ""
    """The directory that it must lie in, links resolved; empty: any."""

    def name_object(self) -> str:
        return self.path

    def describe(self) -> str:
        return f"{self.path}: {self.text}"

    def call(self, outside: Outside) -> Answer:
        try:
            outside.errands.append(self.path, self.text, self.below)
        except OSError as error:
            return Answer(ok=False, detail=format_os_reason(error))
        return Answer(detail=self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunActionCommand(_Errand, kind="command"):
    """Run a command of a rule of a job, without a shell."""

    job: str
    command: tuple[str, ...]
    timeout: float
    """Seconds."""
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    """Empty: where the engine runs."""

    def name_object(self) -> str:
        return " ".join(self.command)

    def describe(self) -> str:
        return f"$ {shlex.join(self.command)}"

    def call(self, outside: Outside) -> Answer:
        result = outside.errands.run(self.command, self.timeout, self.env, self.cwd)
        ended = "" if result.exit_code is None else f"exit {result.exit_code}"
        detail = "\n".join(filter(None, (ended, result.detail)))
        return Answer(ok=result.exit_code == 0, detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteDone(OutsideEffect, kind="note_done"):
    """Leave word in a completed job's output directory, for sessions to come."""

    job: str

    def describe(self) -> str:
        return "left word of success in its output directory"

    def send(self, outside: Outside, state: SessionState) -> Callable[[], Answer]:
        job = state.jobs[self.job]
        spec, work = job.spec, work_of(state, job)

        def call() -> Answer:
            try:
                outside.preparation.note_done(spec, work)
            except AutoexpError as error:
                return Answer(ok=False, detail=error.line)
            return Answer()

        return call
