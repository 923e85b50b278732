"""A session's whole state as JSON, and back: what `state_cache` keeps.

Jobs name their specs by their place in the plan that all plans of the session make
together, which is made anew from those; a field at its default is left out.
What comes back equals the state that the journal folds to, JSON's own limits included
(see `codec`). No file is touched here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass, make_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

from autoexp_tui.model.fast_replace import amended
from autoexp_tui.model.joining import joined_all
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.state import JobRecord, SessionState
from autoexp_tui.storage.core_json import Undecodable, mended
from autoexp_tui.storage.plan_codec import decode_job, encode_job
from autoexp_tui.storage.validators import complaint, names_of_core, validator

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

_ELSEWHERE = ("plans", "plan", "renew")
"""Fields of a state that are not kept as they are."""
_NEVER = object()
"""Equals no value."""


def encode_state(state: SessionState) -> bytes:
    """`state` as JSON.

    Raises:
        ValueError: it holds what JSON cannot, or a plan that it does not know by sha.
    """
    if state.plan is not None and not state.joined:
        raise ValueError("the plan of the state is not known by its sha")
    jobs = state.plan.jobs if state.plan else ()
    places = {id(spec): place for place, spec in enumerate(jobs)}
    tree = {name: getattr(state, name) for name in _kept_names()}
    tree["jobs"] = {name: _job(job, places) for name, job in state.jobs.items()}
    return _to_json({"state": tree})


def decode_state(data: bytes, plans: MutableMapping[str, Plan]) -> SessionState:
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
    plan = joined_all((sha, plans[sha]) for sha in kept.state.joined)
    specs = plan.jobs if plan else ()
    for job in kept.state.jobs.values():
        amended(job, spec=_spec(job.spec, specs))
    named = {name: getattr(kept.state, name) for name in _kept_names()}
    return SessionState(plans=plans, plan=plan, **named)


# --------------------------------------------------------------------------- out
def _job(job: JobRecord, places: Mapping[int, int]) -> dict[str, object]:
    place = places.get(id(job.spec))
    tree = _lean(job)
    tree["spec"] = json.loads(encode_job(job.spec)) if place is None else place
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
        [("state", state)],
        kw_only=True,
        slots=True,
    )
    return validator(document, free=frozenset({(JobRecord, "spec")}))


def _spec(kept: object, specs: Sequence[JobSpec]) -> JobSpec:
    """The spec at a place of the plan, or one that is kept as a whole."""
    if isinstance(kept, dict):
        return decode_job(json.dumps(kept).encode())
    if isinstance(kept, int) and 0 <= kept < len(specs):
        return specs[kept]
    raise Undecodable(f"the plan has no spec {kept!r:.80}")
