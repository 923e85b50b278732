"""A command that must pass."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from autoexp_tui.model.condition import (
    Condition,
    EvalContext,
    NameJobs,
    read_fact,
    say_pass,
    say_wait,
)
from autoexp_tui.model.facts import (
    CommandKey,
    CommandResult,
    FactKey,
    Facts,
    Moment,
)
from autoexp_tui.model.states import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPasses(Condition):
    """A command, run without a shell, exits 0."""

    kind: Literal["command"] = "command"
    command: tuple[str, ...]
    timeout: float = 30.0
    """Seconds for one run."""

    @property
    def key(self) -> CommandKey:
        """The run that answers it."""
        return CommandKey(self.command, self.timeout)

    def keys(self, job: str, action: str) -> Iterator[FactKey]:
        yield self.key

    def name_object(self) -> str:
        return " ".join(self.command)

    def name_subject(self, name_jobs: NameJobs) -> str:
        name = posixpath.basename(self.command[0]) if self.command else "command"
        return f"{name} exits 0"

    def list_sources(self) -> Iterator[str]:
        yield f"$ {shlex.join(self.command)}"

    def evaluate(self, facts: Facts, now: Moment, ctx: EvalContext) -> Verdict:
        words = " ".join(self.command)
        done = read_fact(facts.get(self.key), CommandResult, words)
        if isinstance(done, Verdict):
            return done
        if done.exit_code is None:
            return say_wait("command_error", command=words, detail=done.detail)
        if done.exit_code == 0:
            return say_pass("command_ok", command=words)
        exit_code = done.exit_code
        return say_wait(
            "command_failed", command=words, exit=exit_code, detail=done.detail
        )
