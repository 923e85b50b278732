"""Whose directory a path lies in, and whom a condition therefore waits for."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Final

from autoexp_tui.conditions.bindings import split_reference
from autoexp_tui.model.condition import Condition, change_parts, walk

_RUNTIME: Final = re.compile(r"\{runtime\.([^{}]+)\}")


class Places:
    """The output and log directories of all jobs of a plan."""

    def __init__(self, jobs: Iterable[tuple[str, str, str]]) -> None:
        """`jobs`: (name, output_dir, log_dir)."""
        self._owners: dict[str, str] = {}
        self._names: set[str] = set()
        for name, output_dir, log_dir in jobs:
            self._names.add(name)
            for directory in (output_dir, log_dir):
                self._owners.setdefault(posixpath.normpath(directory), name)

    def owner(self, path: str) -> str:
        """The job in whose directory a path lies; empty when in none."""
        place = posixpath.normpath(path) if path else ""
        while place and place not in {"/", "."}:
            if place in self._owners:
                return self._owners[place]
            place = posixpath.dirname(place)
        return ""

    def with_writers(self, condition: Condition) -> Condition:
        """The condition with the job that writes its file or log, where known."""
        return change_parts(condition, lambda part: part.with_writers(self.owner))

    def list_awaited(self, condition: Condition) -> Iterator[str]:
        """The jobs whose progress a condition looks at; names may repeat."""
        for part in walk(condition):
            yield from part.list_awaited_jobs()
            for path in _list_runtime_paths(part):
                job = split_reference(path, self._names).job
                yield job if job in self._names else ""


def _list_runtime_paths(value: object) -> Iterator[str]:
    """What follows `runtime.` in any text of a condition; nested conditions apart."""
    if isinstance(value, str):
        yield from _RUNTIME.findall(value)
    elif isinstance(value, tuple):
        for item in value:
            if not is_dataclass(item):
                yield from _list_runtime_paths(item)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _list_runtime_paths(item)
    elif is_dataclass(value):
        for field in fields(value):
            if field.name not in {"pattern", "condition"}:
                yield from _list_runtime_paths(getattr(value, field.name))
