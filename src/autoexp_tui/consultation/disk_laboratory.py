"""The disk, git and planning, as the research loop uses them: the adapter behind
`research.ports.Laboratory`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from autoexp_tui.agents.call import hash_bytes
from autoexp_tui.agents.isolated import Caller, build_call
from autoexp_tui.agents.runner import find_program
from autoexp_tui.consultation.call import clean_up, conclude
from autoexp_tui.consultation.item_plans import plan_items
from autoexp_tui.consultation.requests import (
    CALLED,
    PROMPT,
    Called,
    CallRequest,
    find_code_place,
)
from autoexp_tui.evaluation.requests import write_record
from autoexp_tui.isolation.kinds import choose_isolation
from autoexp_tui.isolation.port import FILES
from autoexp_tui.model.agents import AgentSpec, Outcome
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.states import JobState
from autoexp_tui.probes.log_reader import read_tail
from autoexp_tui.research.answer import (
    SCHEMAS,
    AnswerRefused,
    read_answer,
    read_fix,
    take_plans,
)
from autoexp_tui.research.context import STATE_FILE, render_context, render_fix_context
from autoexp_tui.research.events import ResearchOpened
from autoexp_tui.research.fixer import build_fixed_item
from autoexp_tui.research.instructions import OUTPUT
from autoexp_tui.research.jobs import REQUEST, find_call_dir
from autoexp_tui.research.options import ResearchOptions, read_options
from autoexp_tui.research.ports import (
    CallEnd,
    CallResult,
    PlannedItems,
    PlanRequest,
    View,
    build_plan_request,
)
from autoexp_tui.research.readings import find_log
from autoexp_tui.research.state import Answer, list_jobs
from autoexp_tui.research.state_file import build_state
from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic
from autoexp_tui.storage.json_codec import decode, encode
from autoexp_tui.storage.trust import read_checked
from autoexp_tui.text.log_lines import find_canonical_name
from autoexp_tui.worktrees.checkouts import add_worktree
from autoexp_tui.worktrees.promotion import create_branch
from autoexp_tui.worktrees.readiness import (
    check_repository,
    ignore_directory,
    open_repository,
)
from autoexp_tui.worktrees.tree_repository import Git, TreeRepository

if TYPE_CHECKING:
    from autoexp_tui.engine.ports import Planner
    from autoexp_tui.model.snapshot import Live
    from autoexp_tui.model.specs import Plan
    from autoexp_tui.research.state import CodeChange, Consultation, Run

_TAIL_BYTES: Final = 64 << 10
"""Of the log of a run that failed."""
_MOST_RUNS: Final = 100
"""Whose files an agent may read, the newest."""
_MOST_ANSWER: Final = 64 << 20
_STATE: Final = "state"
"""The directory of the state file, which an isolated agent may read: a file that is
replaced would be another to it."""


@dataclass(frozen=True)
class DiskLaboratory:
    """Implements `research.ports.Laboratory` for one session."""

    directory: Path
    """The research's own, below the session's."""
    state_dir: Path
    session: str
    plan: Plan
    planner: Planner
    read_live: Callable[[], Mapping[str, Live]] = dict
    """Jobs that are watched -> what their logs said last."""
    count_gpus: Callable[[], int] = int
    """Of this machine."""

    @cached_property
    def options(self) -> ResearchOptions:
        return read_options(self.plan.research)

    @cached_property
    def repository(self) -> TreeRepository:
        """Raises UsageError, EnvironmentFailed."""
        where, links = self.options.repository, self.options.link_paths
        top = Path(self.plan.cwd, where)
        return open_repository(top, self.session, self.directory, links, "research")

    # ------------------------------------------------------------------------ opening
    def check(self) -> Sequence[str]:
        """Whether research can begin, with what merely differs, for people; raises
        AutoexpError. There need not be a session yet."""
        notes = [*self._check_agents(self.options)]
        if self.options.repository:
            notes += check_repository(self.repository, self.state_dir)
        return notes

    def open(self, options: ResearchOptions) -> tuple[ResearchOpened, Sequence[str]]:
        notes, base = self.check(), ""
        if options.repository:
            self._ignore_results()
            base = Git(self.repository).resolve("HEAD")
        ignore_directory(self.directory)
        objective, result = options.objective, self.plan.monitoring.result
        metric = objective.metric or result.metric or self.plan.monitoring.loss
        mode = objective.mode or ("max" if result.mode == "max" else "min")
        opened = ResearchOpened(
            directory=str(self.directory),
            python=sys.executable,
            gpus=self.count_gpus() if options.gpus is None else options.gpus,
            metric=find_canonical_name(metric or "loss"),
            mode=mode,
            base_commit=base,
        )
        return opened, notes

    def _ignore_results(self) -> None:
        """Where items write, should that be in the checkout: the next research there
        would find files that nobody committed."""
        base = self.plan.base_output_dir or "outputs"
        results = Path(os.path.realpath(Path(self.plan.cwd, base, self.session)))
        if self.repository.top in results.parents:
            ignore_directory(results)

    def _check_agents(self, options: ResearchOptions) -> Iterator[str]:
        """What is not there; raises UsageError for agents that cannot be
        called at all."""
        isolation = choose_isolation(self.plan.isolation)
        if self.plan.isolation != "none" and not isolation.promises >= FILES:
            yield f"agents are not isolated here: {isolation.summarize()}"
        has_code, cwd = bool(options.repository), self.plan.cwd
        links = self.repository.list_links() if has_code else ()
        place = self.repository.top if has_code else self.directory
        caller = Caller(agents=self.plan.agents, isolation=isolation, readable=links)
        for name in dict.fromkeys((*options.agent, *options.fixer.agent)):
            agent = self.plan.agents[name]
            asked = build_call(agent, place)
            if find_program(asked, os.environ) is None:
                yield f"agents.{name}: its program is not there"
            for word in agent.command:
                here, there = os.path.join(cwd, word), os.path.join(place, word)
                if os.path.isfile(here) and not os.path.isfile(there):
                    told = "in its own directory, not here: write its full path"
                    yield f"agents.{name}: {word} is looked for {told}"
            caller.require_visible(name, self.directory)

    # -------------------------------------------------------------------------- calls
    def write_call(self, consultation: Consultation, view: View) -> str:
        live = self.read_live()
        if consultation.role == "fixer":
            run = view.research.runs[consultation.run]
            prompt = render_fix_context(view, run, _read_tail(run, view)).encode()
        else:
            prompt = render_context(view, live, consultation).encode()
        self._write_state(view, live)
        request = self._build_request(consultation, view, hash_bytes(prompt))
        make_directory(request.home)
        write_atomic(request.home / PROMPT, prompt)
        write_record(request.home / REQUEST, request)
        return request.prompt_sha256

    def _build_request(
        self, consultation: Consultation, view: View, sha256: str
    ) -> CallRequest:
        options, is_fix = self.options, consultation.role == "fixer"
        chain = options.fixer.agent if is_fix else options.agent
        base, places = view.research.base_commit, dict[str, str]()
        if base:
            git_dir, top = self.repository.git_dir, self.repository.top
            places = {"git_dir": str(git_dir), "top": str(top), "code_base": base}
        return CallRequest(
            directory=str(self.directory),
            job=consultation.job,
            consultation=consultation.id,
            role=consultation.role,
            prompt_sha256=sha256,
            chain=chain,
            agents={name: self._limit_agent(name, is_fix=is_fix) for name in chain},
            isolation=self.plan.isolation,
            answer_file=OUTPUT,
            schema=SCHEMAS[consultation.role],
            research=self.plan.research,
            session=self.session,
            epoch=int(consultation.opened_at),
            readable=(*self._list_state_paths(), *_list_run_paths(view)),
            guarded=(str(self.directory.parent / "plan.json"),),
            **places,
        )

    def _limit_agent(self, name: str, *, is_fix: bool) -> AgentSpec:
        spec = self.plan.agents[name]
        limits, steps = spec.limits, spec.limits.steps
        if is_fix:
            most = self.options.fixer.steps
            steps = most if steps is None else min(steps, most)
        disk = min(limits.disk_bytes, self.options.max_disk_bytes)
        return replace(spec, limits=replace(limits, steps=steps, disk_bytes=disk))

    def _list_state_paths(self) -> tuple[str, str]:
        return str(self.directory / STATE_FILE), str(self.directory / _STATE)

    def read_call(self, consultation: Consultation, view: View) -> CallResult:
        home = self._find_home(consultation)
        called = self._load_called(consultation, view)
        names = (one.name for one in fields(CallEnd))
        result = CallResult(**{name: getattr(called, name) for name in names})
        if called.outcome is not Outcome.OK:
            return result
        try:
            data = _read_answer(home / called.answer, called.sha256)
            if consultation.role == "fixer":
                return self._take_fix(result, data, consultation, view)
            return self._take_answer(result, data, called, consultation, view)
        except AnswerRefused as refused:
            problem = f"{OUTPUT}: {refused.line}"
        return replace(result, outcome=Outcome.BAD_OUTPUT, problem=problem, code=None)

    def _find_home(self, consultation: Consultation) -> Path:
        return Path(find_call_dir(str(self.directory), consultation))

    def _load_called(self, consultation: Consultation, view: View) -> Called:
        """What the call says of itself; where its job died before, what it left. Its
        request is made again: an agent may have changed the file."""
        sha256 = consultation.prompt_sha256
        request = self._build_request(consultation, view, sha256)
        path = request.home / CALLED
        if not path.exists():
            write_record(path, conclude(request))
        with explaining(path, "read what came of a call"):
            made = decode(Called, read_checked(path, "own"), str(path))
        clean_up(request, made)
        return made

    def _take_answer(
        self,
        result: CallResult,
        data: bytes,
        called: Called,
        consultation: Consultation,
        view: View,
    ) -> CallResult:
        """With the answer, its items planned; raises AnswerRefused, AutoexpError."""
        answer = read_answer(data, view.research, consultation.id)
        problem = called.code_refused and f"its code is refused: {called.code_refused}"
        result = replace(result, problem=problem)
        if answer.order is None:
            return replace(result, answer=answer)
        stated = answer.items or ()
        refused = dict[str, str]()
        if called.code is None:
            reason = problem or "the call left no change of code"
            own = (one for one in stated if one.code_ref == consultation.id)
            refused = {one.id: reason for one in own}
        fresh = [one for one in stated if one.id not in refused and not one.jobs]
        code = {} if called.code is None else {consultation.id: called.code}
        request = build_plan_request(fresh, view.research, view.jobs, code)
        planned = self.plan_items(request)
        planned = replace(planned, problems={**refused, **planned.problems})
        answer = take_plans(answer, view.research, planned)
        return replace(result, answer=answer)

    def _take_fix(
        self, result: CallResult, data: bytes, consultation: Consultation, view: View
    ) -> CallResult:
        """With the fix, and the run's item with it; raises AnswerRefused,
        AutoexpError."""
        research = view.research
        run = research.runs[consultation.run]
        fix = read_fix(data, run.id)
        result = replace(result, fix=fix)
        if not fix.overrides:
            return result
        taken = {*research.runs, *(one.id for one in research.items)}
        item = build_fixed_item(run, fix, taken)
        request = build_plan_request([item], research, view.jobs)
        planned = self.plan_items(request)
        if planned.problems:
            problem = f"the fix does not plan: {planned.problems[item.id]}"
            return replace(result, problem=problem)
        return replace(result, answer=Answer(items=planned.items))

    # ------------------------------------------------------------------- plans and code
    def plan_items(self, request: PlanRequest) -> PlannedItems:
        def find_worktree(name: str) -> Path | None:
            change = request.code.get(name)
            return self._check_out(name, change) if change else None

        return plan_items(
            self.planner,
            self.plan,
            request,
            self.directory,
            time.time(),
            top=self.repository.top if request.code else None,
            find_worktree=find_worktree,
        )

    def _check_out(self, name: str, change: CodeChange) -> Path:
        git = Git(self.repository)
        return add_worktree(git, find_code_place(name), change.commit)

    def keep_code(self, consultation: Consultation) -> None:
        """A branch `research/<session>/<call>`, and a worktree for its runs."""
        assert consultation.code is not None, "it was approved"
        name = f"research/{self.session}/{consultation.id}"
        create_branch(Git(self.repository), name, consultation.code.commit)
        self._check_out(consultation.id, consultation.code)

    # -------------------------------------------------------------------------- views
    def write_state(self, view: View) -> None:
        self._write_state(view, self.read_live())

    def _write_state(self, view: View, live: Mapping[str, Live]) -> None:
        link, home = self.directory / STATE_FILE, self.directory / _STATE
        make_directory(home)
        state = encode(build_state(view, live))
        write_atomic(home / STATE_FILE, state, durable=False)
        with explaining(link, "link the state file"), suppress(FileExistsError):
            link.symlink_to(Path(_STATE, STATE_FILE))


def _read_tail(run: Run, view: View) -> str:
    """The end of the log of the job that failed."""
    jobs = list_jobs(run, view.jobs)
    failed = [one for one in jobs if one.state is JobState.FAILED]
    for job in (failed or jobs)[-1:]:
        with suppress(OSError):
            return read_tail(find_log(job), _TAIL_BYTES)
    return ""


def _list_run_paths(view: View) -> Iterator[str]:
    """Where the newest runs have their logs and results."""
    research = view.research
    for name in [*research.runs][-_MOST_RUNS:]:
        for job in list_jobs(research.runs[name], view.jobs):
            yield from (job.spec.log_dir, job.spec.output_dir)


def _read_answer(path: Path, sha256: str) -> bytes:
    """Raises EnvironmentFailed."""
    with explaining(path, "read the answer"):
        data = read_checked(path, "own", _MOST_ANSWER)
    if hash_bytes(data) != sha256:
        raise EnvironmentFailed("the answer is not what it was", str(path))
    return data
