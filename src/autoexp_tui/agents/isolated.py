"""Calls of the agents of a chain, each within our isolation, as one step makes them."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autoexp_tui.agents.call import Answer, Request, write_request
from autoexp_tui.agents.runner import find_program, run_call
from autoexp_tui.isolation.port import FILES, Isolation, Profile, Promise
from autoexp_tui.isolation.profiles import make_agent_profile
from autoexp_tui.model.agents import AgentSpec, choose_next
from autoexp_tui.model.errors import UsageError


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
        `run_call`, and UsageError for what `require_visible` refuses."""
        spec = self.agents[agent]
        left = max(1.0, self.deadline - time.monotonic())
        limits = replace(spec.limits, wall_seconds=min(spec.limits.wall_seconds, left))
        call = Request(
            agent=replace(spec, limits=limits),
            # A program's own sandbox does not start within ours.
            is_isolated=self.isolation.promises >= FILES,
            **asked,
        )
        profile = self._make_profile(call, directory)
        self._require_visible(agent, call.agent, profile)
        self.wait()
        write_request(directory, call)
        return run_call(directory, call, self.isolation.wrap((), profile))

    def require_visible(self, agent: str, directory: Path) -> None:
        """Refuse an agent whose command, or whose PYTHONPATH, names a file that the
        isolation would hide from it; raises UsageError. `directory`: where its calls
        lie."""
        spec = self.agents[agent]
        profile = self._make_profile(build_call(spec, directory), directory)
        self._require_visible(agent, spec, profile)

    def _require_visible(self, agent: str, spec: AgentSpec, profile: Profile) -> None:
        if Promise.READS not in self.isolation.promises:
            return
        known = (*profile.list_readable(), *profile.list_writable())
        seen = [Path(os.path.realpath(one)) for one in known]
        for path in _list_named(spec):
            if not any(path.is_relative_to(one) for one in seen):
                raise UsageError(
                    f"the isolation ({self.isolation.name}) hides {path} from it",
                    f"agents.{agent}",
                    f"Name it in agents.{agent}.files: what stands there can be read.",
                )

    def _make_profile(self, call: Request, directory: Path) -> Profile:
        return make_agent_profile(
            Path(call.cwd),
            directory,
            program=find_program(call, os.environ),
            logins=[Path(one).expanduser() for one in call.agent.files],
            readable=self.readable,
            file_bytes=call.agent.limits.disk_bytes,
        )


def build_call(agent: AgentSpec, place: Path) -> Request:
    """A call that is never made, of an agent that would work in a directory: to see
    what it needs."""
    return Request(role="", agent=agent, prompt="", prompt_sha256="", cwd=str(place))


def _list_named(agent: AgentSpec) -> Iterator[Path]:
    """Files that its command names by their full paths, and directories of modules;
    without links."""
    words = (part for word in agent.command for part in (word, word.partition("=")[2]))
    files = [word for word in words if os.path.isfile(word)]
    given = agent.env.get("PYTHONPATH", "")
    modules = os.environ.get("PYTHONPATH", "") if given is None else given
    places = [one for one in modules.split(":") if os.path.isdir(one)]
    named = filter(os.path.isabs, (*files, *places))
    yield from (Path(os.path.realpath(one)) for one in named)
