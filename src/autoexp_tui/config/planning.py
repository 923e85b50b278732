"""Planning in a process of its own, which this side may kill at any moment.

The child owns Hydra's globals and the user's own classes; this side, in the cockpit's
process, imports neither, nor pydantic. A child that crashes is a bug: its traceback
goes to a file, the person gets one line that names it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autoexp_tui.config.planning_messages import (
    PlanningAnswer,
    PlanningRequest,
    decode_answer,
    encode_request,
    list_problems,
)
from autoexp_tui.model.errors import (
    AutoexpError,
    EnvironmentFailed,
    UsageError,
)
from autoexp_tui.model.masking import mask_text
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.planning.replan_job import join_plan
from autoexp_tui.probes.config_files import DEFAULT_STATE_DIR
from autoexp_tui.storage.user_files import write_crash_log

if TYPE_CHECKING:
    from autoexp_tui.engine.ports import FurtherPlan

LIMIT_SECONDS: Final = 600.0
_AGAIN_SECONDS: Final = 120.0
"""For what a running session asks."""
_MODULE: Final = "autoexp_tui.config.planning_process"
_TAIL: Final = 64 * 1024
"""Bytes of a crashed child's words that are kept."""


class PlanningChild:
    """One running planning process."""

    def __init__(self, request: PlanningRequest) -> None:
        self._request = replace(request, cwd=request.cwd or os.getcwd())
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives with the child
        self._process = subprocess.Popen(
            # -P: a file of the user's that is called like one of our modules must
            # not be one.
            [sys.executable, "-P", "-m", _MODULE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=self._request.cwd,
            start_new_session=True,
        )
        self.pid = self._process.pid
        """Of the process, and of its group."""

    def wait(self, limit_seconds: float = LIMIT_SECONDS) -> PlanningAnswer:
        """Ask, wait for the answer, and close.

        Raises EnvironmentFailed where it took longer or was killed, AutoexpError (which
        names the file with its traceback) where it crashed.
        """
        question = encode_request(self._request)
        try:
            data, _ = self._process.communicate(question, timeout=limit_seconds)
            return self._read_answer(data)
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
            os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """End it if it still runs, and let go of its files."""
        if self._process.poll() is None:
            self.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._stderr):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def _read_answer(self, data: bytes) -> PlanningAnswer:
        code = self._process.returncode
        if code == -signal.SIGKILL:
            raise EnvironmentFailed(
                "planning was killed",
                hint="if you did not stop it, the machine may be out of memory",
            )
        if code != 0:
            raise self._explain_crash(f"exit status {code}")
        try:
            return decode_answer(data)
        except (ValueError, TypeError, KeyError) as error:
            raise self._explain_crash(str(error)) from error

    def _explain_crash(self, reason: str) -> AutoexpError:
        """Its output is kept in a file: below the state dir, else a temporary one."""
        request = self._request
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _TAIL))
        output = self._stderr.read().decode("utf-8", "replace")
        wanted = Path(request.cwd, request.state_dir or DEFAULT_STATE_DIR, "crashes")
        name = f"planning-{time.strftime('%Y%m%dT%H%M%S')}-{self.pid}.log"
        log = write_crash_log(mask_text(f"{request}\n\n{output}"), name, wanted)
        last = output.strip().splitlines()[-1:] or [reason]
        hint = f"This is a bug. The traceback is in {log}"
        return AutoexpError(f"planning crashed: {last[0]}", hint=hint)


def run_planning(
    request: PlanningRequest, limit_seconds: float = LIMIT_SECONDS
) -> PlanningAnswer:
    """Answer one request in a process of its own; findings are in the answer.

    Raises as `PlanningChild.wait`.
    """
    return PlanningChild(request).wait(limit_seconds)


class ChildPlanner:
    """`engine.ports.Planner`: plans for a running session, in a planning process."""

    def __init__(
        self, limit_seconds: float = _AGAIN_SECONDS, state_dir: str = ""
    ) -> None:
        """`state_dir`: where what joins a session is kept; empty: as configs say."""
        self._limit_seconds = limit_seconds
        self._state_dir = state_dir

    def plan(self, asked: FurtherPlan) -> Plan:
        """The plan of another config, for the session that has `asked.known`.

        Raises ValidationFailed where it has errors, UsageError where its config does
        not compose, and as `run_planning`.
        """
        base = asked.base
        ref, place, search = asked.config_ref, base.config_dir, base.search_dirs
        if asked.config_path:
            path = Path(asked.config_path).expanduser()
            ref, place = path.stem, str(path.parent)
            search = (*((base.config_dir,) if base.config_dir else ()), *search)
        answer = self._run(
            base,
            config_ref=ref,
            config_dir=place,
            search_dirs=search,
            overrides=asked.overrides,
            known=asked.known,
            now=asked.now,
        )
        answer.raise_errors()
        assert answer.plan is not None
        return join_plan(
            answer.plan,
            family=asked.family,
            families=asked.families,
            stage=asked.stage if asked.config_path else "",
        )

    def compose(self, plan: Plan, job: str, overrides: Sequence[str]) -> JobSpec:
        """The job with further overrides; its name, directories and waits stay.

        Raises UsageError where there is no such job, or an override does not compose,
        and as `run_planning`.
        """
        if not plan.config_ref:
            raise UsageError(
                "it has no config that overrides could change",
                where=job,
                hint="a rule made it of a command; R without overrides runs it again",
            )
        from autoexp_tui.storage.json_codec import encode_plan

        with tempfile.NamedTemporaryFile(prefix="plan-", suffix=".json") as held:
            held.write(encode_plan(plan))
            held.flush()
            answer = self._run(
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
        if answer.job is None:
            raise UsageError(list_problems(f"{job} cannot be made anew", answer.errors))
        return answer.job

    def _run(self, plan: Plan, **question: Any) -> PlanningAnswer:
        request = PlanningRequest(
            cwd=_find_cwd(plan), state_dir=self._state_dir, keep=True, **question
        )
        return run_planning(request, self._limit_seconds)


def _find_cwd(plan: Plan) -> str:
    """Where the plan was made; manifests of old do not say, but their jobs may."""
    if not plan.cwd:
        return next((job.cwd for job in plan.jobs if Path(job.cwd).is_dir()), "")
    if not Path(plan.cwd).is_dir():
        raise UsageError(
            "the directory in which the plan was made is not there",
            where=plan.cwd,
            hint="overrides compose from there: bring it back, or make a new plan",
        )
    return plan.cwd
