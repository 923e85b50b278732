"""The model's values as JSON, and back. Decoding checks with pydantic, imported at its
first use, after the first paint.

Where a field's type admits text, `nan` and the infinities become texts; a number-only
field refuses them. Characters that no encoding can write become U+FFFD."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from autoexp_tui.model.errors import JournalDamaged, Problem, ValidationFailed

if TYPE_CHECKING:
    from pydantic_core import SchemaValidator

    from autoexp_tui.model.snapshot import LiveDetail
    from autoexp_tui.model.specs import JobSpec, Plan

T = TypeVar("T")

PLAN_VERSION: Final = 1
"""Of the plans that this program writes; it reads those before it."""
NEWER: Final = (
    "It was written by a newer autoexp-tui, or with a package that is not installed "
    "here: read it with that."
)
_SURROGATES: Final = re.compile("[\ud800-\udfff]")


class Unencodable(ValueError):
    """A value that JSON has no way to write; names the field. A bug of its maker."""


class Undecodable(ValueError):
    def __init__(self, problem: str, *, newer: bool = False) -> None:
        super().__init__(problem)
        self.newer = newer


list_fields: Final[Callable[[Any], tuple[str, ...]]] = cache(
    lambda model: tuple(part.name for part in fields(model))
)


list_rare_fields: Final[Callable[[Any], tuple[tuple[str, object], ...]]] = cache(
    lambda model: tuple(
        (p.name, p.default) for p in fields(model) if "rare" in p.metadata
    )
)
"""With their defaults: what came later leaves plans that lack it as they were."""


def _to_plain(value: object) -> object:
    """What the JSON encoder asks about anything that JSON has no word for."""
    if is_dataclass(value):
        model = type(value)
        tree = {name: getattr(value, name) for name in list_fields(model)}
        for name, usual in list_rare_fields(model):
            if tree[name] == usual:
                del tree[name]
        return tree
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return list(value)
    raise Unencodable(f"a {type(value).__name__} has no JSON form: {value!r:.80}")


_FORM: Final[dict[str, Any]] = {
    "ensure_ascii": False,
    "check_circular": False,
    "separators": (",", ":"),
    "default": _to_plain,
}
_encode_strictly: Final = json.JSONEncoder(**_FORM, allow_nan=False).encode
_encode_loosely: Final = json.JSONEncoder(**_FORM, allow_nan=True).encode


def encode(value: Any) -> bytes:
    """A dataclass of the core as one line of JSON; raises Unencodable."""
    return to_json(value, lambda data: decode(type(value), data, type(value).__name__))


def to_json(value: object, check: Callable[[bytes], object]) -> bytes:
    """`value` as JSON, the slow way, checked, where it must; raises Unencodable."""
    try:
        return _encode_strictly(value).encode()
    except Unencodable:
        raise
    except (ValueError, TypeError):  # nan, lone surrogates, strange keys
        data = _encode_strictly(_replace_unwritable(value)).encode()
    try:
        check(data)
    except (Undecodable, JournalDamaged) as error:
        raise Unencodable(str(error)) from error
    return data


def _replace_unwritable(value: object) -> object:
    """`value` as plain JSON data, numbers and characters of no JSON form replaced."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, int | float):
        return value
    plain = _to_plain(value)
    if isinstance(plain, list):
        return [_replace_unwritable(part) for part in plain]
    tree = cast("Mapping[object, object]", plain)
    if odd := [key for key in tree if not isinstance(key, str)]:
        raise Unencodable(f"a key that is not text: {odd[0]!r:.80}")
    return {_replace_unwritable(key): _replace_unwritable(tree[key]) for key in tree}


def read_json(data: bytes) -> Any:
    """Plain data; raises ValueError, for nan and the infinities as well."""
    from pydantic_core import from_json

    return from_json(data, allow_inf_nan=False)


def decode(model: type[T], data: bytes, where: str, *, finite: bool = True) -> T:
    """A dataclass from its JSON; `finite`: no nan, no infinities; raises
    JournalDamaged."""
    check = build_validator(cast(Any, model), finite=finite)
    try:
        value = check.validate_json(data, strict=True)
    except ValueError as error:
        raise JournalDamaged(describe_error(error), where) from error
    if value is None:
        raise JournalDamaged("it is null", where)
    return cast(T, value)


def read_small(model: type[T], tree: object) -> T:
    """A small record from its plain data; fields that nobody knows are passed over, as
    of a later version; raises ValueError."""
    data = json.dumps(tree)
    value = build_validator(cast(Any, model), loose=True).validate_json(
        data, strict=True
    )
    if value is None:
        raise ValueError("it is null")
    return cast(T, value)


@cache
def build_validator(
    model: Any, *, finite: bool = True, loose: bool = False
) -> SchemaValidator:
    """What checks and makes a dataclass, built at its first use; `loose`: beside fields
    that it does not have."""
    from pydantic import ConfigDict, TypeAdapter
    from pydantic_core import CoreConfig, SchemaValidator

    from autoexp_tui.model import snapshot

    extra: Final = "ignore" if loose else "forbid"
    config = ConfigDict(extra=extra, allow_inf_nan=not finite, defer_build=True)
    # A bare dataclass takes no config of ours; inside `| None` it takes the union's.
    adapter: TypeAdapter[Any] = TypeAdapter(model | None, config=config)
    adapter.rebuild(_types_namespace=vars(snapshot))
    return SchemaValidator(adapter.core_schema, CoreConfig())


def describe_error(error: Exception) -> str:
    """What a validation error says first, as `field.path: reason`."""
    from pydantic_core import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    message = str(first["msg"])
    return f"{path}: {message}" if path else message


def names_unknown_kind(text: str) -> bool:
    """Whether an error says that a condition, an action or the like is not known."""
    return "does not match any of the expected tags" in text


def encode_plan(value: Plan | JobSpec) -> bytes:
    """The bytes of a manifest, or of one job: equal plans, equal bytes. Raises
    ValidationFailed: what cannot be kept is the person's to mend."""
    try:
        return encode(value)
    except Unencodable as error:
        problem = Problem(message=str(error), where=value.name)
        raise ValidationFailed(
            "the plan holds a value that JSON cannot", value.name, problems=(problem,)
        ) from error


def decode_plan(data: bytes, where: str = "plan") -> Plan:
    """A plan of this version or an earlier one; raises JournalDamaged."""
    from autoexp_tui.model.specs import Plan

    try:
        plan = decode(Plan, data, where)
    except JournalDamaged as error:
        with suppress(ValueError):
            tree = read_json(data)
            if isinstance(tree, dict):
                _refuse_newer(tree.get("version"), where)
        if names_unknown_kind(error.problem):
            raise JournalDamaged(error.problem, where, NEWER, newer=True) from error
        raise
    _refuse_newer(plan.version, where)
    return plan


def _refuse_newer(version: object, where: str) -> None:
    if isinstance(version, int) and version > PLAN_VERSION:
        problem = f"it has version {version}; this program knows {PLAN_VERSION}"
        raise JournalDamaged(problem, where, NEWER, newer=True)


def hash_plan(data: bytes) -> str:
    """The name under which a session keeps a plan of these bytes: 16 hex digits."""
    return hashlib.sha256(data).hexdigest()[:16]


def mask_plan(plan: Plan, data: bytes) -> bytes:
    """A plan, encoded as `data`, with its secrets masked; `data` itself without any."""
    from autoexp_tui.model.masking import mask_value  # few plans are shown to others

    tree = json.loads(data)
    masked = mask_value("", tree, plan.mask)
    return data if masked == tree else json.dumps(masked).encode()


def encode_live(detail: LiveDetail) -> bytes:
    """Volatile detail as JSON; nan and the infinities as Python's JSON spells them."""
    return _encode_loosely(detail).encode("utf-8", "replace")
