"""The schemas that the backends of one plan name, each read once."""

from __future__ import annotations

from collections.abc import Sequence

from autoexp_tui.backends.argument_check import Checker
from autoexp_tui.backends.argument_schema import SchemaError, load_schema
from autoexp_tui.backends.messages import WHERE, Config, Places, problem
from autoexp_tui.model.errors import Problem


class Schemas:
    """What `backend.schema` stands for."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._known: dict[tuple[str, str], Checker | SchemaError] = {}

    def of(self, backend: Config, key: str) -> tuple[Checker | None, Sequence[Problem]]:
        """What checks the arguments at `key`; None: no schema, or none that is good."""
        name = backend.get("schema")
        if name is None:
            return None, ()
        if not isinstance(name, str) or not name:
            return None, (problem("schema", f"is {name!r}, not a name"),)
        found = self._known.get((name, key))
        if found is None:
            found = self._known[name, key] = self._loaded(name, key)
        if isinstance(found, Checker):
            return found, ()
        return None, (problem("schema", found.message, found.hint),)

    def _loaded(self, name: str, key: str) -> Checker | SchemaError:
        try:
            return Checker(load_schema(name, self._places), f"{WHERE}.{key}")
        except SchemaError as error:
            return error
