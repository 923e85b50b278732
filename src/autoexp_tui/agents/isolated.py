"""Calls of the agents of a chain, each within our isolation, as one step makes them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoexp_tui.agents.call import Answer, Request, write_request
from autoexp_tui.agents.runner import find_program, run_call
from autoexp_tui.isolation.port import FILES, Isolation
from autoexp_tui.isolation.profiles import make_agent_profile
from autoexp_tui.model.agents import AgentSpec, choose_next


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls agents, and what they may reach."""

    agents: Mapping[str, AgentSpec]
    isolation: Isolation
    readable: tuple[Path, ...] = ()
    """What they may read beside their own."""
    deadline: float = math.inf
    """Monotonic: no call lasts longer."""
    wait: Callable[[], object] = bool
    """Called before each call: it returns when that may begin."""

    def call_chain(
        self, chain: Sequence[str], directory: Path, **asked: Any
    ) -> Sequence[Answer]:
        """Have the agents try, one after the other, as far as the service behind one
        fails; what came of each. `asked` as for `call`; raises as that."""
        answers: list[Answer] = []
        while agent := choose_next(chain, [one.outcome for one in answers]):
            answers.append(self.call(agent, directory, **asked))
        return answers

    def call(self, agent: str, directory: Path, **asked: Any) -> Answer:
        """One call. `asked`: the fields of its request that are no agent's; raises as
        `run_call`."""
        spec = self.agents[agent]
        left = max(1.0, self.deadline - time.monotonic())
        limits = replace(spec.limits, wall_seconds=min(spec.limits.wall_seconds, left))
        call = Request(
            agent=replace(spec, limits=limits),
            # A program's own sandbox does not start within ours.
            is_isolated=self.isolation.promises >= FILES,
            **asked,
        )
        self.wait()
        write_request(directory, call)
        return run_call(directory, call, self._wrap(call, directory))

    def _wrap(self, call: Request, directory: Path) -> Sequence[str]:
        """The words before an agent's command that isolate it."""
        profile = make_agent_profile(
            Path(call.cwd),
            directory,
            program=find_program(call, os.environ),
            logins=[Path(one).expanduser() for one in call.agent.files],
            readable=self.readable,
            file_bytes=call.agent.limits.disk_bytes,
        )
        return self.isolation.wrap((), profile)
