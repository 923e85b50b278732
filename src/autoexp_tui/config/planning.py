"""Planning in a process of its own.

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

from autoexp_tui.config.planning_messages import (
    PlanningAnswer,
    PlanningRequest,
    Stage,
    decode_answer,
    encode_request,
)
from autoexp_tui.model.errors import (
    AutoexpError,
    EnvironmentFailed,
    Problem,
    UsageError,
    ValidationFailed,
)
from autoexp_tui.model.masking import mask_text
from autoexp_tui.model.specs import JobSpec, Plan, PlanFinding
from autoexp_tui.probes.config_files import DEFAULT_STATE_DIR
from autoexp_tui.storage.crash_log import write_crash_log

__all__ = [
    "PlanningChild",
    "PlanningRequest",
    "PlanningResult",
    "plan_in_child",
    "result_of",
]

LIMIT_SECONDS: Final = 600.0
_MODULE: Final = "autoexp_tui.config.planning_process"
_FRAME: Final = re.compile(r'^  File "(.+)", line (\d+)', re.MULTILINE)
_TAIL: Final = 64 * 1024
"""Bytes of a crashed child's words that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningResult:
    """What came of planning; with errors there is no plan to submit."""

    plan: Plan | None = None
    report: str = ""
    """The plan as `autoexp-plan --json` writes it, where that was asked for."""
    job: JobSpec | None = None
    points: tuple[Mapping[str, object], ...] = ()
    config: Mapping[str, object] | None = None
    errors: tuple[Problem, ...] = ()
    warnings: tuple[PlanFinding, ...] = ()
    holes: tuple[Mapping[str, object], ...] = ()
    """Of a plan with errors: what filters took, as `autoexp-plan --json` writes it."""
    holes_more: int = 0
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
            raise UsageError(listed("the config does not compose", self.errors))
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
        text = mask_text(f"{self._request}\n\n{said}")
        return write_crash_log(text, name, wanted / "crashes")


def plan_in_child(
    request: PlanningRequest, limit_seconds: float = LIMIT_SECONDS
) -> PlanningResult:
    """Answer one request in a process of its own; findings are in the result.

    Raises:
        EnvironmentFailed: it took too long or was killed.
        AutoexpError: it crashed.
    """
    return PlanningChild(request).wait(limit_seconds)


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
    plan, job = _decoded(answer) if answer.plan or answer.job else (None, None)
    return PlanningResult(
        plan=plan,
        job=job,
        report=answer.report,
        points=answer.points,
        config=answer.config,
        errors=answer.errors,
        warnings=answer.warnings,
        holes=answer.holes,
        holes_more=answer.holes_more,
        failed=answer.failed,
        manifest=answer.manifest,
        composed=answer.composed,
    )


def _decoded(answer: PlanningAnswer) -> tuple[Plan | None, JobSpec | None]:
    # Reading plans takes 0.2 s of imports that an answer without one does not need.
    from autoexp_tui.storage.json_codec import decode_job, decode_plan

    plan = decode_plan(answer.plan.encode()) if answer.plan else None
    job = decode_job(answer.job.encode()) if answer.job else None
    return plan, job


def listed(head: str, problems: Sequence[Problem]) -> str:
    """Problems as a text: a line for the head, and one for each."""
    return "\n".join([head, *(f"  - {problem}" for problem in problems)])
