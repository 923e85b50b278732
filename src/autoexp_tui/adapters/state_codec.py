"""A session's whole state as JSON, and back: what `state_cache` keeps.

Jobs name their specs by the plan that has them, and a field at its default is left out.
What comes back equals the state that the journal folds to, JSON's own limits included
(see `codec`). No file is touched here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, make_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast, get_type_hints

from autoexp_tui.adapters.codec import Undecodable, decode_job, encode_job, mended
from autoexp_tui.adapters.validators import complaint, names_of_core, validator
from autoexp_tui.core.copying import amended
from autoexp_tui.core.specs import JobSpec, Plan
from autoexp_tui.core.state import JobRecord, SessionState

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

_ELSEWHERE = ("plans", "plan", "renew")
"""Fields of a state that are not kept as they are."""
_NEVER = object()
"""Equals no value."""

SpecRef = tuple[int, int]
"""(which of the kept plans, which of its jobs)."""


def encode_state(state: SessionState) -> bytes:
    """`state` as JSON.

    Raises:
        ValueError: it holds what JSON cannot, or a plan that it does not know by sha.
    """
    shas = list(state.plans)
    plans = [state.plans[sha] for sha in shas]
    refs = {
        id(spec): (n, i) for n, p in enumerate(plans) for i, spec in enumerate(p.jobs)
    }
    tree = {name: getattr(state, name) for name in _kept_names()}
    tree["jobs"] = {name: _job(job, refs) for name, job in state.jobs.items()}
    plan = None if state.plan is None else _index_of(state.plan, plans)
    return _to_json({"plans": shas, "plan": plan, "state": tree})


def decode_state(data: bytes, plans: Mapping[str, Plan]) -> SessionState:
    """The state of `encode_state`; `plans` must give every sha that it names.

    Raises:
        Undecodable: it is none.
        JournalDamaged: a plan is gone.
    """
    validate = _document()
    try:
        kept: Any = validate.validate_json(data)
    except ValueError as error:
        raise Undecodable(complaint(error)) from error
    known = [plans[sha] for sha in kept.plans]
    for job in kept.state.jobs.values():
        amended(job, spec=_spec(job.spec, known))
    named = {name: getattr(kept.state, name) for name in _kept_names()}
    plan = None if kept.plan is None else known[kept.plan]
    return SessionState(plans=plans, plan=plan, **named)


# --------------------------------------------------------------------------- out
def _index_of(plan: Plan, plans: list[Plan]) -> int:
    for index, one in enumerate(plans):
        if one is plan:
            return index
    raise ValueError("the newest plan is not among those of the state")


def _job(job: JobRecord, refs: Mapping[int, SpecRef]) -> dict[str, object]:
    ref = refs.get(id(job.spec))
    tree = _lean(job)
    tree["spec"] = ref if ref else json.loads(encode_job(job.spec))
    return tree


def _lean(value: object) -> dict[str, object]:
    """What the JSON encoder asks about anything that JSON has no word for."""
    if is_dataclass(value):
        model: Any = type(value)
        return {
            name: found
            for name, default in _defaults(model)
            if (found := getattr(value, name)) != default or name == "kind"
        }
    if isinstance(value, Mapping):
        return dict(value)
    raise ValueError(f"a {type(value).__name__} has no JSON form: {value!r:.80}")


@cache
def _defaults(model: Any) -> tuple[tuple[str, object], ...]:
    return tuple((part.name, _default(part)) for part in fields(model))


def _default(part: Field[Any]) -> object:
    if part.default is not MISSING:
        return part.default
    return _NEVER if part.default_factory is MISSING else part.default_factory()


_LEAN = json.JSONEncoder(
    ensure_ascii=False,
    allow_nan=False,
    check_circular=False,
    separators=(",", ":"),
    default=_lean,
)


def _to_json(tree: object) -> bytes:
    try:
        return _LEAN.encode(tree).encode()
    except (ValueError, TypeError):  # nan, lone surrogates, strange keys
        return _LEAN.encode(mended(tree)).encode()


# ---------------------------------------------------------------------------- in
@cache
def _kept_names() -> tuple[str, ...]:
    return tuple(f.name for f in fields(SessionState) if f.name not in _ELSEWHERE)


@cache
def _document() -> SchemaValidator:
    """The check of a whole document, made from the state's own fields."""
    hints = get_type_hints(SessionState, localns=names_of_core())
    kept = [(name, hints[name]) for name in _kept_names()]
    state: Any = make_dataclass("KeptState", kept, kw_only=True, slots=True)
    document: Any = make_dataclass(
        "KeptDocument",
        [("plans", tuple[str, ...]), ("plan", int | None), ("state", state)],
        kw_only=True,
        slots=True,
    )
    return validator(document, free=frozenset({(JobRecord, "spec")}))


def _spec(kept: object, plans: list[Plan]) -> JobSpec:
    """The spec that a job's record names, or holds itself."""
    if isinstance(kept, dict):
        return decode_job(json.dumps(kept).encode())
    try:
        which, index = cast(SpecRef, kept)
        return plans[which].jobs[index]
    except (TypeError, ValueError, IndexError) as error:
        raise Undecodable(f"no plan has the spec {kept!r:.80}") from error
