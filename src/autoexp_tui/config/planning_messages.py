"""What is asked of the planning process, and what it answers, as JSON.

Standard library and core alone: the asking side runs in the cockpit's process, where
neither Hydra nor pydantic may be imported before the first paint.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import PlanFinding

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
    """What the planning process says; plans and jobs are still in their JSON form."""

    plan: str = ""
    report: str = ""
    """The plan as `autoexp-plan --json` writes it; where that is asked for, `plan` is
    empty."""
    job: str = ""
    points: tuple[Mapping[str, object], ...] = ()
    config: Mapping[str, object] | None = None
    errors: tuple[Problem, ...] = ()
    warnings: tuple[PlanFinding, ...] = ()
    holes: tuple[Mapping[str, object], ...] = ()
    """Of a plan with errors: what filters took, as `autoexp-plan --json` writes it."""
    holes_more: int = 0
    failed: Stage = ""
    manifest: str = ""
    composed: int = 0
    """How often Hydra composed."""
    notes: Mapping[str, object] = field(default_factory=dict)


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
    return json.dumps(asdict(answer), default=str).encode("utf-8", "surrogatepass")


def decode_answer(data: bytes) -> PlanningAnswer:
    """The answer of `encode_answer`.

    Raises:
        ValueError: it is none.
    """
    tree = json.loads(data)
    if not isinstance(tree, dict):
        raise TypeError("not a mapping")
    tree["errors"] = tuple(
        Problem(**{**one, "others": tuple(one["others"])}) for one in tree["errors"]
    )
    tree["warnings"] = tuple(PlanFinding(**one) for one in tree["warnings"])
    for key in ("points", "holes"):
        tree[key] = tuple(tree[key])
    return PlanningAnswer(**tree)


def findings(problems: Iterable[Problem]) -> tuple[PlanFinding, ...]:
    """Problems that are no errors, as a plan keeps them."""
    return tuple(
        PlanFinding(
            message=p.message, where=p.where, job=p.job, hint=p.hint, place=p.place
        )
        for p in problems
    )
