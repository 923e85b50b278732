"""Kinds: what stands in one module each and is found by its stored name in a table.

Conditions, actions, effects, events and commands are kinds. A base class of each lies
in this package with the table of its kinds; a kind's module is imported when the kind
is first asked for. A new kind is a class in a module of its own, and a line of the
table; one of an installed package of somebody else's is added to it (`extend`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

K = TypeVar("K")

FieldUse: TypeAlias = Literal["text", "glob", "name", "plain"]
"""What a value from a log becomes part of: any text, a pattern of paths that it must
not change, one name in a path, or what a grammar would read as more than text."""


GROUP: Final = "autoexp_tui.kinds"
"""Of entry points that bring kinds: `condition.disk_free = "pkg.mod:Class"`."""


@cache
def list_installed() -> tuple[tuple[str, str], ...]:
    """Names and homes of the kinds that installed packages bring."""
    from importlib.metadata import entry_points  # slow, and seldom needed

    return tuple((found.name, found.value) for found in entry_points(group=GROUP))


class KindTable(Mapping[str, type[K]], Generic[K]):
    """The kinds of one base class, by the name that is stored of them."""

    def __init__(self, noun: str, homes: Mapping[str, str]) -> None:
        """`homes`: module, below this package, -> `name:Class` of its kinds, or the
        class alone where that is the name. `noun`: of the kinds of installed packages,
        whose entry points are called `noun.name`."""
        self._noun = noun
        self._homes: dict[str, str] = {}
        self._loaded: dict[str, type[K]] = {}
        for module, kinds in homes.items():
            for kind in kinds.split():
                name, _, found = kind.partition(":")
                self._homes[name] = f"autoexp_tui.{module}:{found or name}"

    def add(self, name: str, home: str) -> None:
        """Take in a kind of `home`, `pkg.mod:Class`, before anything is read.

        Raises:
            ValueError: another kind has the name.
        """
        if self._homes.setdefault(name, home) != home:
            raise ValueError(f"{name} is the name of {self._homes[name]}")

    def _list_homes(self) -> Mapping[str, str]:
        """Those of installed packages too; ours win."""
        theirs = ((name.partition("."), home) for name, home in list_installed())
        found = {kind: home for (noun, _, kind), home in theirs if noun == self._noun}
        return {**found, **self._homes}

    def __getitem__(self, name: str) -> type[K]:
        kind = self._loaded.get(name)
        if kind is None:
            homes = self._homes if name in self._homes else self._list_homes()
            module, _, found = homes[name].partition(":")
            kind = self._loaded[name] = getattr(import_module(module), found)
        return kind

    def __iter__(self) -> Iterator[str]:
        return iter(self._list_homes())

    def __len__(self) -> int:
        return len(self._list_homes())

    def __contains__(self, name: object) -> bool:
        return name in self._homes or name in self._list_homes()


class Kind:
    """A value that is stored with its `kind`; the base class has the table."""

    __slots__ = ()
    kinds: ClassVar[KindTable[Any]]
    kind: str

    def find_use(self, field: str) -> FieldUse:
        """What a text of a field is to whoever uses it."""
        return "text"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """A field that admits any kind is read as what its `kind` says, at once."""
        if "kinds" not in vars(cls):
            return handler(source)
        choices = {
            name: handler.generate_schema(kind) for name, kind in cls.kinds.items()
        }
        return {"type": "tagged-union", "choices": choices, "discriminator": "kind"}
