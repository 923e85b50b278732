"""Planning in a process of its own, and the `engine.ports.Planner` made of it.

The child owns Hydra's globals and the user's own classes; this side may kill it at any
moment and imports neither. A child that crashes is a bug: its traceback goes to a file,
the person gets one line that names it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from autoexp_tui.adapters.codec import decode_job, decode_plan, encode_plan
from autoexp_tui.adapters.config_files import DEFAULT_STATE_DIR
from autoexp_tui.adapters.planning_words import (
    PlanningAnswer,
    PlanningRequest,
    Stage,
    decode_answer,
    encode_request,
)
from autoexp_tui.core.errors import (
    AutoexpError,
    EnvironmentFailed,
    Problem,
    UsageError,
    ValidationFailed,
)
from autoexp_tui.core.specs import JobSpec, Plan, PlanFinding
from autoexp_tui.engine.ports import FurtherPlan
from autoexp_tui.plan.further import as_further

__all__ = [
    "ChildPlanner",
    "PlanningChild",
    "PlanningRequest",
    "PlanningResult",
    "plan_in_child",
    "result_of",
]

LIMIT_SECONDS: Final = 600.0
_MODULE: Final = "autoexp_tui.adapters.planning_main"
_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+)', re.MULTILINE)
_TAIL: Final = 64 * 1024
"""Bytes of a crashed child's words that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningResult:
    """What came of planning; with errors there is no plan to submit."""

    plan: Plan | None = None
    job: JobSpec | None = None
    points: tuple[Mapping[str, object], ...] = ()
    config: Mapping[str, object] | None = None
    errors: tuple[Problem, ...] = ()
    warnings: tuple[PlanFinding, ...] = ()
    failed: Stage = ""
    manifest: str = ""
    """The manifest's file, when one was asked for and there were no errors."""
    composed: int = 0

    def raise_errors(self) -> None:
        """Raise the errors as the exception whose exit code they have.

        Raises:
            UsageError: the primary config does not compose.
            ValidationFailed: the plan has errors.
            EnvironmentFailed: the machine did not let us.
        """
        if not self.errors:
            return
        if self.failed == "config" and len(self.errors) == 1:
            only = self.errors[0]
            where = " ".join(part for part in (only.job, only.where) if part)
            raise UsageError(only.message, where, only.hint)
        if self.failed == "config":
            raise UsageError(_listed("the config does not compose", self.errors))
        if self.failed == "environment":
            first = self.errors[0]
            raise EnvironmentFailed(first.message, first.where, first.hint)
        count = len(self.errors)
        head = f"the plan has {count} error{'s' if count > 1 else ''}"
        raise ValidationFailed(head, problems=self.errors)


class PlanningChild:
    """One running planning process."""

    def __init__(self, request: PlanningRequest) -> None:
        self._request = replace(request, cwd=request.cwd or os.getcwd())
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - lives with the child
        self._process = subprocess.Popen(
            _command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            cwd=self._request.cwd,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """Of the process, and of its group."""
        return self._process.pid

    def wait(self, limit_seconds: float = LIMIT_SECONDS) -> PlanningResult:
        """Ask, wait for the answer, and close.

        Raises:
            EnvironmentFailed: it took longer than `limit_seconds`, or was killed.
            AutoexpError: it crashed; the text names the file with its traceback.
        """
        question = encode_request(self._request)
        try:
            data, _ = self._process.communicate(question, timeout=limit_seconds)
            return self._result(data)
        except subprocess.TimeoutExpired:
            raise EnvironmentFailed(
                f"planning took longer than {limit_seconds:.0f} s and was stopped",
                hint="narrow the sweep, or look with `autoexp-plan --points`",
            ) from None
        finally:
            self.close()

    def kill(self) -> None:
        """End it at once, with whatever it started; from any thread."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """End it if it still runs, and let go of its files."""
        if self._process.poll() is None:
            self.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._said):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def _result(self, data: bytes) -> PlanningResult:
        code = self._process.returncode
        if code == -signal.SIGKILL:
            raise EnvironmentFailed(
                "planning was killed",
                hint="if you did not stop it, the machine may be out of memory",
            )
        if code != 0:
            raise self._crashed(f"exit status {code}")
        try:
            return result_of(decode_answer(data))
        except (ValueError, TypeError, KeyError) as error:
            raise self._crashed(str(error)) from error

    def _crashed(self, reason: str) -> AutoexpError:
        said = self._words()
        last = said.strip().splitlines()[-1:] or [reason]
        place = _users_place(said, self._request.cwd)
        whose = "" if place else "This is a bug. "
        return AutoexpError(
            f"planning crashed: {last[0]}",
            where=place,
            hint=f"{whose}The traceback is in {self._log(said)}",
        )

    def _words(self) -> str:
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, size - _TAIL))
        return self._said.read().decode("utf-8", "replace")

    def _log(self, said: str) -> Path:
        """The words in a file that stays: below the state dir, else a temporary one."""
        wanted = Path(self._request.cwd, self._request.state_dir or DEFAULT_STATE_DIR)
        name = f"planning-{time.strftime('%Y%m%dT%H%M%S')}-{self._process.pid}.log"
        for directory in (wanted / "crashes", Path(tempfile.gettempdir())):
            try:
                directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                (directory / name).write_text(f"{self._request}\n\n{said}")
            except OSError:
                continue
            return directory / name
        return Path(name)


def plan_in_child(
    request: PlanningRequest, limit_seconds: float = LIMIT_SECONDS
) -> PlanningResult:
    """Answer one request in a process of its own; findings are in the result.

    Raises:
        EnvironmentFailed: it took too long or was killed.
        AutoexpError: it crashed.
    """
    return PlanningChild(request).wait(limit_seconds)


class ChildPlanner:
    """`engine.ports.Planner`: composes one job again, in a planning process."""

    def __init__(self, limit_seconds: float = 120.0, state_dir: str = "") -> None:
        """`state_dir`: where what joins a session is kept; empty: as configs say."""
        self._limit_seconds = limit_seconds
        self._state_dir = state_dir

    def plan(self, asked: FurtherPlan) -> Plan:
        """The plan of another config, for the session that has `asked.known`.

        Raises:
            ValidationFailed: it has errors.
            UsageError: its config does not compose.
            EnvironmentFailed: planning took too long or was killed.
            AutoexpError: planning crashed.
        """
        base = asked.base
        ref, place, search = asked.config_ref, base.config_dir, base.search_dirs
        if asked.config_path:
            path = Path(asked.config_path).expanduser()
            ref, place = path.stem, str(path.parent)
            search = (*((base.config_dir,) if base.config_dir else ()), *search)
        request = PlanningRequest(
            config_ref=ref,
            config_dir=place,
            search_dirs=search,
            overrides=asked.overrides,
            cwd=_cwd_of(base),
            state_dir=self._state_dir,
            keep=True,
            known=asked.known,
            now=asked.now,
        )
        result = plan_in_child(request, self._limit_seconds)
        result.raise_errors()
        if result.plan is None:
            raise UsageError("planning gave no plan", hint="This is a bug.")
        return as_further(
            result.plan,
            family=asked.family,
            families=asked.families,
            stage=asked.stage if asked.config_path else "",
        )

    def compose(self, plan: Plan, job: str, overrides: Sequence[str]) -> JobSpec:
        """The job with further overrides; its name, directories and waits stay.

        Raises:
            UsageError: there is no such job, or an override does not compose.
            EnvironmentFailed: planning took too long or was killed.
            AutoexpError: planning crashed.
        """
        if not plan.config_ref:
            raise UsageError(
                "it has no config that overrides could change",
                where=job,
                hint="a rule made it of a command; R without overrides runs it again",
            )
        with tempfile.NamedTemporaryFile(prefix="plan-", suffix=".json") as held:
            held.write(encode_plan(plan))
            held.flush()
            request = PlanningRequest(
                want="job",
                cwd=_cwd_of(plan),
                now=plan.created_at,
                config_ref=plan.config_ref,
                config_dir=plan.config_dir,
                search_dirs=plan.search_dirs,
                overrides=plan.overrides,
                manifest=held.name,
                job=job,
                further=tuple(overrides),
            )
            result = plan_in_child(request, self._limit_seconds)
        if result.job is None:
            raise UsageError(_listed(f"{job} cannot be made anew", result.errors))
        return result.job


def _cwd_of(plan: Plan) -> str:
    """Where the plan was made; manifests of old do not say, but their jobs may.

    Raises:
        UsageError: the directory is gone.
    """
    if not plan.cwd:
        return next((job.cwd for job in plan.jobs if Path(job.cwd).is_dir()), "")
    if not Path(plan.cwd).is_dir():
        raise UsageError(
            "the directory in which the plan was made is not there",
            where=plan.cwd,
            hint="overrides compose from there: bring it back, or make a new plan",
        )
    return plan.cwd


def _command() -> list[str]:
    # -P: a file of the user's that is called like one of our modules must not be one.
    return [sys.executable, "-P", "-m", _MODULE]


def _users_place(said: str, cwd: str) -> str:
    """file:line of the traceback's end when that lies in the user's own code."""
    frames = _FRAME.findall(said)
    if not frames:
        return ""
    path, line = frames[-1]
    installed = "/site-packages/" in path or "/autoexp_tui/" in path
    ours = installed or not path.startswith(f"{cwd}/")
    return "" if ours else f"{path}:{line}"


def result_of(answer: PlanningAnswer) -> PlanningResult:
    """What a planning process answered, for those who asked."""
    return PlanningResult(
        plan=decode_plan(answer.plan.encode()) if answer.plan else None,
        job=decode_job(answer.job.encode()) if answer.job else None,
        points=answer.points,
        config=answer.config,
        errors=answer.errors,
        warnings=answer.warnings,
        failed=answer.failed,
        manifest=answer.manifest,
        composed=answer.composed,
    )


def _listed(head: str, problems: Sequence[Problem]) -> str:
    return "\n".join([head, *(f"  - {problem}" for problem in problems)])
