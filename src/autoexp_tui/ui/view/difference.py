"""What tells two jobs apart: config, command, environment and resources, by lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from autoexp_tui.ui.view.parameters import spell
from autoexp_tui.ui.view.spans import Line, Role, Span, outside

if TYPE_CHECKING:
    from autoexp_tui.core.specs import JobSpec

_ROLES: dict[str, Role] = {"+": "done", "-": "failed", "@": "accent"}


def difference(first: JobSpec, second: JobSpec) -> tuple[Line, ...]:
    """A unified diff of the two jobs; one line that says so when they are alike."""
    lines = tuple(
        difflib.unified_diff(
            list(described(first)),
            list(described(second)),
            outside(first.name),
            outside(second.name),
            lineterm="",
            n=2,
        )
    )
    if not lines:
        return ((Span("These two jobs differ in nothing but their names.", "muted"),),)
    return tuple((Span(text, _ROLES.get(text[:1], "text")),) for text in lines)


def described(spec: JobSpec) -> Iterable[str]:
    """A job as lines that can be compared."""
    yield f"stage: {outside(spec.stage)}"
    for key, value in spec.parameters.items():
        yield f"{outside(key)}: {spell(value)}"
    for override in spec.overrides:
        yield f"override {outside(override)}"
    for part in spec.command:
        yield f"command {outside(part, 2000)}"
    for key, text in sorted(spec.env.items()):
        yield f"env {outside(key)}={outside(text)}"
    resources = spec.resources
    yield f"time limit: {resources.time_limit_seconds}"
    yield f"gpus: {resources.gpus}"
    for key, option in sorted(resources.options.items()):
        yield f"option {outside(key)}={spell(option)}"
    yield f"output: {outside(spec.output_dir)}"
