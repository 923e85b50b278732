"""What is asked of the planning process, and what it answers; both travel as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, TypeAlias

from autoexp_tui.model.errors import (
    EnvironmentFailed,
    Problem,
    UsageError,
    ValidationFailed,
)
from autoexp_tui.model.specs import JobSpec, Plan, PlanFinding

Want: TypeAlias = Literal["plan", "points", "config", "job"]
"""`plan`: everything; `points`: the expanded sweep; `config`: the composed primary
config, or one job's; `job`: one job of a plan with further overrides."""

KnownJob: TypeAlias = tuple[str, str, str]
"""A job's name, its output directory and its log directory."""

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
    state_dir: str = ""
    """Flag or variable; empty: what the config says."""
    sweep_file: str = ""
    """For `points`: expand this file's sweep, without any other config."""
    keep: bool = False
    """Write the manifest, and the record of provenance beside it."""
    report: bool = False
    """Answer with the plan as `autoexp-plan --json` writes it, not with the plan."""
    known: tuple[KnownJob, ...] = ()
    """Jobs of the session that the plan is to join."""
    search_dirs: tuple[str, ...] = ()
    """Where config groups are looked for beside the primary config's directory."""
    now: float = 0.0
    """UTC; becomes the plan's `created_at`, and what `${now:...}` shows."""
    job: str = ""
    """For `config` and `job`: which; for `config`, empty means the primary config."""
    manifest: str = ""
    """For `job`: the file that holds the plan."""
    further: tuple[str, ...] = ()
    """For `job`: overrides after the job's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanningAnswer:
    """What came of planning; with errors there is no plan to submit."""

    plan: Plan | None = None
    plan_json: str = ""
    """Of the planning process alone: how the plan travels; the same for `job_json`."""
    report: str = ""
    """The plan as `autoexp-plan --json` writes it; where that is asked for, there is no
    `plan`."""
    job: JobSpec | None = None
    job_json: str = ""
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
    """How often Hydra composed."""

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


def decode_request(data: bytes) -> PlanningRequest:
    """The request of `encode_request`."""
    tree: dict[str, Any] = json.loads(data)
    for key in ("overrides", "further", "search_dirs"):
        tree[key] = tuple(tree[key])
    tree["known"] = tuple(tuple(job) for job in tree["known"])
    return PlanningRequest(**tree)


def encode_answer(answer: PlanningAnswer) -> bytes:
    """An answer as JSON; values that JSON has no word for become their text."""
    tree = asdict(replace(answer, plan=None, job=None, config=None))
    tree["config"] = answer.config
    return json.dumps(tree, default=str).encode("utf-8", "surrogatepass")


def decode_answer(data: bytes) -> PlanningAnswer:
    """The answer of `encode_answer`; raises ValueError, TypeError or KeyError."""
    tree = json.loads(data)
    tree["errors"] = tuple(
        Problem(**{**one, "others": tuple(one["others"])}) for one in tree["errors"]
    )
    tree["warnings"] = tuple(PlanFinding(**one) for one in tree["warnings"])
    for key in ("points", "holes"):
        tree[key] = tuple(tree[key])
    plan, job = tree.pop("plan_json"), tree.pop("job_json")
    if plan or job:
        # Their codec takes 0.2 s of imports; not every answer has a plan.
        from autoexp_tui.storage.json_codec import decode_job, decode_plan

        tree["plan"] = decode_plan(plan.encode()) if plan else None
        tree["job"] = decode_job(job.encode()) if job else None
    return PlanningAnswer(**tree)


def list_problems(head: str, problems: Iterable[Problem]) -> str:
    """Problems as a text: a line for the head, and one for each."""
    return "\n".join([head, *(f"  - {problem}" for problem in problems)])
