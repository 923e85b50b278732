"""Planning in a process of its own, which this side may kill at any moment: what is
asked and answered, as JSON, and who asks.

The child owns Hydra's globals and the user's own classes; this side, in the cockpit's
process, imports neither, nor pydantic. A child that crashes is a bug: its traceback
goes to a file, the person gets one line that names it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal, TypeAlias

from autoexp_tui.model.errors import (
    AutoexpError,
    EnvironmentFailed,
    Problem,
    UsageError,
    ValidationFailed,
)
from autoexp_tui.model.masking import mask_text
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.replan_job import join_plan
from autoexp_tui.probes.config_files import DEFAULT_STATE_DIR
from autoexp_tui.storage.user_files import write_crash_log

if TYPE_CHECKING:
    from autoexp_tui.engine.ports import FurtherPlan
    from autoexp_tui.model.resubmission import DoneReport
    from autoexp_tui.planning.build import KnownJob
    from autoexp_tui.planning.estimate import Estimate

LIMIT_SECONDS: Final = 600.0
_AGAIN_SECONDS: Final = 120.0
"""For what a running session asks."""
_BEGIN: Final = (
    "import gc; gc.set_threshold(400_000)\n"
    "from autoexp_tui.config.planning_main import main; main(); gc.freeze()"
)
"""Rings are looked for seldom, and not at the end: nearly all that is made is kept."""
COMMAND: Final = (sys.executable, "-P", "-c", _BEGIN)
"""-P: a file of the user's that is called like one of our modules must not be one."""
_TAIL: Final = 64 * 1024
"""Bytes of a crashed child's words that are kept."""


Want: TypeAlias = Literal["plan", "points", "config", "job", "growth"]
"""`plan`: everything; `points`: the expanded sweep; `config`: the composed primary
config, or one job's; `job`: one job of a plan with further overrides; `growth`: a plan
for a session that runs."""

Stage: TypeAlias = Literal["", "config", "plan", "environment"]
"""Where it failed: the command line or primary config (exit 2), validation (exit 3),
or the machine (exit 5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningRequest:
    """One question to the planning process."""

    want: Want = "plan"
    config_ref: str = "exp"
    config_dir: str = ""
    """As `-C` says; empty: ./config if it exists, else the shipped one."""
    overrides: tuple[str, ...] = ()
    cwd: str = ""
    """Where relative paths start and commands run; empty: the current directory."""
    prefix: str = ""
    """Put before the names of the jobs, whatever the config calls them."""
    state_dir: str = ""
    """Flag or variable; empty: what the config says."""
    sweep_file: str = ""
    """For `points`: expand this file's sweep, without any other config."""
    keep: bool = False
    """Write the manifest, and the record of provenance beside it."""
    joins: bool = False
    """A rule or a policy asks, and its session keeps the plan: no manifest is written,
    and no plan of a person's compared with it."""
    report: bool = False
    """Answer with the plan as `autoexp-plan --json` writes it, not with the plan."""
    known: tuple[KnownJob, ...] = ()
    """Jobs of the session that the plan is to join."""
    fingerprints: tuple[tuple[str, str], ...] = ()
    """For `growth`: of those jobs, by name."""
    search_dirs: tuple[str, ...] = ()
    """Where config groups are looked for beside the primary config's directory."""
    now: float = 0.0
    """UTC; becomes the plan's `created_at`, and what `${now:...}` shows."""
    job: str = ""
    """For `config` and `job`: which; for `config`, empty means the primary config."""
    manifest: str = ""
    """For `job`: the file that holds the plan."""
    further: tuple[str, ...] = ()
    """For `job`: overrides after the job's own. Else: after those of the plan, where
    keys of the sweep may stand as its parameters are called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningAnswer:
    """What came of planning; with errors there is no plan to submit."""

    plan: Plan | None = None
    plan_json: str = ""
    """Of the planning process alone: how the plan travels; the same for the others."""
    renamed: Plan | None = None
    """Of a growth: the plan with new names for jobs that differ from the session's."""
    renamed_json: str = ""
    report: str = ""
    """The plan as `autoexp-plan --json` writes it; where that is asked for, there is no
    `plan`."""
    job: JobSpec | None = None
    job_json: str = ""
    points: tuple[Mapping[str, object], ...] = ()
    config: Mapping[str, object] | None = None
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    holes: tuple[Mapping[str, object], ...] = ()
    """Of a plan with errors: what filters took, as `autoexp-plan --json` writes it."""
    holes_more: int = 0
    failed: Stage = ""
    manifest: str = ""
    """The manifest's file, when one was asked for and there were no errors."""
    changes: Mapping[str, Any] | None = None
    """With the manifest: what is new since the last plan of the same config."""

    def raise_errors(self) -> None:
        """Raise the errors as the exception whose exit code they have: UsageError where
        the primary config does not compose, ValidationFailed, or EnvironmentFailed."""
        if not self.errors:
            return
        first, count = self.errors[0], len(self.errors)
        if self.failed == "config" and count == 1:
            where = " ".join(part for part in (first.job, first.where) if part)
            raise UsageError(first.message, where, first.hint)
        if self.failed == "config":
            text = list_problems("the config does not compose", self.errors)
            raise UsageError(text, problems=self.errors)
        if self.failed == "environment":
            raise EnvironmentFailed(first.message, first.where, first.hint)
        head = f"the plan has {count} error{'s' if count > 1 else ''}"
        raise ValidationFailed(head, problems=self.errors)


def encode_request(request: PlanningRequest) -> bytes:
    """A request as JSON."""
    return json.dumps(asdict(request)).encode("utf-8", "surrogatepass")


def decode_requests(data: bytes) -> list[PlanningRequest]:
    """The requests of a list of such, or the only one."""
    found = json.loads(data)
    return [*map(_read_request, found if isinstance(found, list) else (found,))]


def _read_request(tree: dict[str, Any]) -> PlanningRequest:
    for key in ("overrides", "further", "search_dirs"):
        tree[key] = tuple(tree[key])
    for key in ("known", "fingerprints"):
        tree[key] = tuple(tuple(job) for job in tree[key])
    return PlanningRequest(**tree)


def encode_answer(answer: PlanningAnswer) -> bytes:
    """An answer as JSON; values that JSON has no word for become their text."""
    bare = replace(answer, plan=None, renamed=None, job=None, config=None)
    tree = asdict(bare)
    tree["config"] = answer.config
    return json.dumps(tree, default=str).encode("utf-8", "surrogatepass")


def decode_answer(data: bytes) -> PlanningAnswer:
    """The answer of `encode_answer`; raises ValueError, TypeError or KeyError."""
    tree = json.loads(data)
    for key in ("errors", "warnings"):
        tree[key] = tuple(Problem(**one) for one in tree[key])
    for key in ("points", "holes"):
        tree[key] = tuple(tree[key])
    plan, job = tree.pop("plan_json"), tree.pop("job_json")
    renamed = tree.pop("renamed_json")
    if plan or job:
        # Their codec takes 0.2 s of imports; not every answer has a plan.
        from autoexp_tui.storage.json_codec import decode, decode_plan

        tree["plan"] = decode_plan(plan.encode()) if plan else None
        tree["renamed"] = decode_plan(renamed.encode()) if renamed else None
        tree["job"] = decode(JobSpec, job.encode(), "job") if job else None
    return PlanningAnswer(**tree)


def list_problems(head: str, problems: Iterable[Problem]) -> str:
    """Problems as a text: a line for the head, and one for each."""
    return "\n".join([head, *(f"  - {problem}" for problem in problems)])


def report_of(plan: Plan, errors: Iterable[Problem] = ()) -> dict[str, object]:
    """The documented answer of `autoexp-plan --json`, safe to dump: the plan, its cost,
    what of it is done (which the jobs' output directories tell); `errors`: its own."""
    from autoexp_tui.planning.as_json import finding_to_json, plan_to_json
    from autoexp_tui.planning.estimate import estimate_to_json, read_bounds
    from autoexp_tui.storage.done_file import check_done

    done = check_done(plan)
    return {
        **plan_to_json(plan),
        "errors": [finding_to_json(error) for error in errors],
        "estimate": estimate_to_json(estimate_of(plan, done), read_bounds(plan)),
        "done_before": list(done.done),
        "changed_since": list(done.changed),
        "builds_on_changed": list(done.upstream),
    }


def estimate_of(plan: Plan, done: DoneReport) -> Estimate:
    """What the jobs that are left may cost."""
    from autoexp_tui.planning.estimate import estimate

    return estimate(job for job in plan.jobs if job.name not in done.done)


def run_planning(
    request: PlanningRequest, limit_seconds: float = LIMIT_SECONDS
) -> PlanningAnswer:
    """Answer one request in a process of its own. Raises EnvironmentFailed where it
    took longer or was killed, AutoexpError (which names the file with its traceback)
    where it crashed."""
    (answer,) = run_plannings((request,), limit_seconds)
    if isinstance(answer, AutoexpError):
        raise answer
    return answer


def run_plannings(
    requests: Iterable[PlanningRequest], limit_seconds: float = LIMIT_SECONDS
) -> Iterator[PlanningAnswer | AutoexpError]:
    """Answer requests in their order, those of one directory in one process. What
    `run_planning` raises stands in the place of an answer; another process then goes on
    with the next. `limit_seconds`: of one of them."""
    left = [replace(one, cwd=one.cwd or os.getcwd()) for one in requests]
    while left:
        alike = [*takewhile(lambda one: one.cwd == left[0].cwd, left)]
        answers, problem = _ask_child(alike, limit_seconds)
        yield from answers
        if problem is not None:
            yield problem
        del left[: len(answers) + (problem is not None)]


def _ask_child(
    requests: Sequence[PlanningRequest], limit_seconds: float
) -> tuple[list[PlanningAnswer], AutoexpError | None]:
    """The answers of one process, and why the one after them is lacking."""
    pipe, answers = subprocess.PIPE, list[PlanningAnswer]()
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            COMMAND,
            stdin=pipe,
            stdout=pipe,
            stderr=said,
            cwd=requests[0].cwd,
            start_new_session=True,
        ) as child,
    ):
        asked = b"[%b]" % b",".join(map(encode_request, requests))
        data, is_late = b"", False
        try:
            data, _ = child.communicate(asked, limit_seconds * len(requests))
        except subprocess.TimeoutExpired as late:
            data, is_late = late.output or b"", True
        finally:
            if child.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
        reason = f"exit status {child.returncode}"
        try:
            for line in data.split(b"\n")[: len(requests)]:
                if line:
                    answers.append(decode_answer(line))
        except (ValueError, TypeError, KeyError) as error:
            reason = str(error)
        if len(answers) == len(requests):
            return answers, None
        if is_late:
            return answers, EnvironmentFailed(
                f"planning took longer than {limit_seconds:.0f} s and was stopped",
                hint="narrow the sweep, or look with `autoexp-plan --points`",
            )
        if child.returncode == -signal.SIGKILL:
            return answers, EnvironmentFailed(
                "planning was killed",
                hint="if you did not stop it, the machine may be out of memory",
            )
        lacking = requests[len(answers)]
        return answers, _explain_crash(lacking, child.pid, said, reason)


def _explain_crash(
    request: PlanningRequest, pid: int, said: IO[bytes], reason: str
) -> AutoexpError:
    """Its output is kept in a file: below the state dir, else a temporary one."""
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - _TAIL))
    output = said.read().decode("utf-8", "replace")
    wanted = Path(request.cwd, request.state_dir or DEFAULT_STATE_DIR, "crashes")
    name = f"planning-{time.strftime('%Y%m%dT%H%M%S')}-{pid}.log"
    log = write_crash_log(mask_text(f"{request}\n\n{output}"), name, wanted)
    last = output.strip().splitlines()[-1:] or [reason]
    hint = f"This is a bug. The traceback is in {log}"
    return AutoexpError(f"planning crashed: {last[0]}", hint=hint)


class ChildPlanner:
    """`engine.ports.Planner`: plans for a running session, in a planning process."""

    def __init__(
        self, limit_seconds: float = _AGAIN_SECONDS, state_dir: str = ""
    ) -> None:
        """`state_dir`: where what joins a session is kept; empty: as configs say."""
        self._limit_seconds = limit_seconds
        self._state_dir = state_dir

    def plan(self, asked: FurtherPlan) -> Plan:
        """The plan of another config, for the session that has `asked.known`. Raises
        ValidationFailed where it has errors, UsageError where its config does not
        compose, and as `run_planning`."""
        (made,) = self.plan_all((asked,))
        if isinstance(made, AutoexpError):
            raise made
        return made

    def plan_all(self, asked: Sequence[FurtherPlan]) -> Sequence[Plan | AutoexpError]:
        """The plans of several configs, planned in one process; what `plan` raises
        stands in the place of one."""
        requests = [*map(self._build_request, asked)]
        answers = run_plannings(requests, self._limit_seconds)
        return [*map(_read_plan, asked, answers)]

    def _build_request(self, asked: FurtherPlan) -> PlanningRequest:
        base = asked.base
        ref, place, search = asked.config_ref, base.config_dir, base.search_dirs
        if asked.config_path:
            path = Path(asked.config_path).expanduser()
            ref, place = path.stem, str(path.parent)
            search = (*((base.config_dir,) if base.config_dir else ()), *search)
        overrides, further = asked.overrides, asked.further
        if asked.output_dir:
            from autoexp_tui.planning.overrides import escape_dollars, format_override

            written = escape_dollars(asked.output_dir)
            own = format_override("++project.base_output_dir", written)
            further = (*further, own)
        return self._ask(
            base,
            config_ref=ref,
            config_dir=place,
            search_dirs=search,
            overrides=overrides,
            further=further,
            known=asked.known,
            prefix=asked.prefix,
            now=asked.now,
        )

    def compose(self, plan: Plan, job: str, overrides: Sequence[str]) -> JobSpec:
        """The job with further overrides; its name, directories and waits stay. Raises
        UsageError where there is no such job, or an override does not compose, and as
        `run_planning`."""
        if not plan.config_ref:
            raise UsageError(
                "it has no config that overrides could change",
                where=job,
                hint="a rule or a policy made it; R without overrides runs it again",
            )
        from autoexp_tui.storage.json_codec import encode_plan

        with tempfile.NamedTemporaryFile(prefix="plan-", suffix=".json") as held:
            held.write(encode_plan(plan))
            held.flush()
            request = self._ask(
                plan,
                want="job",
                now=plan.created_at,
                config_ref=plan.config_ref,
                config_dir=plan.config_dir,
                search_dirs=plan.search_dirs,
                overrides=plan.overrides,
                manifest=held.name,
                job=job,
                further=tuple(overrides),
            )
            answer = run_planning(request, self._limit_seconds)
        if answer.job is None:
            raise UsageError(list_problems(f"{job} cannot be made anew", answer.errors))
        return answer.job

    def _ask(self, plan: Plan, **question: Any) -> PlanningRequest:
        return PlanningRequest(
            cwd=find_cwd(plan),
            state_dir=self._state_dir,
            keep=True,
            joins=True,
            **question,
        )


def _read_plan(
    asked: FurtherPlan, answer: PlanningAnswer | AutoexpError
) -> Plan | AutoexpError:
    try:
        if isinstance(answer, AutoexpError):
            return answer
        answer.raise_errors()
    except AutoexpError as error:
        return error
    assert answer.plan is not None
    return join_plan(
        answer.plan,
        family=asked.family,
        families=asked.families,
        stage=asked.stage if asked.config_path else "",
    )


def find_cwd(plan: Plan) -> str:
    """Where the plan was made; manifests of old do not say, but their jobs may. Raises
    UsageError where that is gone."""
    if not plan.cwd:
        return next((job.cwd for job in plan.jobs if Path(job.cwd).is_dir()), "")
    if not Path(plan.cwd).is_dir():
        raise UsageError(
            "the directory in which the plan was made is not there",
            where=plan.cwd,
            hint="overrides compose from there: bring it back, or make a new plan",
        )
    return plan.cwd
