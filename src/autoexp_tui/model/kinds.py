"""Kinds: what stands in one module each and is found by its stored name in a table. The
base class of each lies in this package; a kind's module is imported when first asked
for. One of somebody else's package is added to the table (`extend`)."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, ClassVar, Final, Generic, Literal, TypeAlias, TypeVar

from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.text.sanitize import clean

K = TypeVar("K")

FieldUse: TypeAlias = Literal["text", "glob", "name", "plain"]
"""What a value from a log becomes part of: any text, a pattern of paths that it must
not change, one name in a path, or what a grammar would read as more than text."""
_OURS: Final = "autoexp_tui."
GROUP: Final = "autoexp_tui.kinds"
"""Of entry points that bring kinds: `condition.disk_free = "pkg.mod:Class"`."""


@cache
def list_installed() -> tuple[tuple[str, str], ...]:
    from importlib.metadata import entry_points  # slow, and seldom needed

    return tuple((found.name, found.value) for found in entry_points(group=GROUP))


def is_ours(kind: type) -> bool:
    """Whether a class is of this package: its mistakes are bugs, and are raised."""
    return kind.__module__.startswith(_OURS)


class TheirFault(Exception):
    """Somebody else's code cannot be used; the text says why."""


def tell_error(error: Exception) -> str:
    """What somebody else's code has raised, in a line."""
    name = "" if isinstance(error, TheirFault) else f"{type(error).__name__}: "
    return clean(f"{name}{error}", limit=1000)


class KindTable(Mapping[str, type[K]], Generic[K]):
    """The kinds of one base class, by the name that is stored of them."""

    def __init__(self, noun: str, homes: Mapping[str, str]) -> None:
        """`homes`: module, below this package, -> `name:Class` of its kinds, or the
        class alone. `noun`: before the dot of an entry point's name."""
        self._noun = noun
        self._homes: dict[str, str] = {}
        self._known: dict[tuple[str, str], type[K] | str] = {}
        """Name and home of a kind -> its class, or why it cannot be used."""
        for module, kinds in homes.items():
            for kind in kinds.split():
                name, _, found = kind.partition(":")
                self._homes[name] = f"{_OURS}{module}:{found or name}"

    def add(self, name: str, home: str) -> None:
        """Take in a kind of `home`, `pkg.mod:Class`; ValueError for a name taken."""
        for other in (self._homes.get(name, home), *self._list_rivals(name)):
            if other != home:
                raise ValueError(f"{name} is the name of {other}")
        self._homes[name] = home

    def _list_rivals(self, name: str) -> set[str]:
        """The homes that installed packages give to a name: more than one clash."""
        wanted = f"{self._noun}.{name}"
        return {home for found, home in list_installed() if found == wanted}

    def _list_homes(self) -> Mapping[str, str]:
        """Those of installed packages too; ours win."""
        theirs = ((name.partition("."), home) for name, home in list_installed())
        found = {kind: home for (noun, _, kind), home in theirs if noun == self._noun}
        return {**found, **self._homes}

    def _look_up(self, name: str) -> type[K] | str | None:
        home = self._homes.get(name) or self._list_homes().get(name)
        if home is None:
            return None
        if (name, home) not in self._known:
            is_ours = home.startswith(_OURS)
            load = _import_class(home) if is_ours else self._load_theirs(name, home)
            self._known[name, home] = load
        return self._known[name, home]

    def _load_theirs(self, name: str, home: str) -> type[K] | str:
        rivals = sorted({home} | self._list_rivals(name))
        if len(rivals) > 1:
            return f"{' and '.join(rivals)} bring the same name: uninstall one of them"
        try:
            kind: Any = _import_class(home)
        except Exception as error:  # noqa: BLE001 - their module may raise anything
            return tell_error(error)
        bases = kind.__mro__ if isinstance(kind, type) else ()
        if not any(vars(base).get("kinds") is self for base in bases):
            return f"{home} is not a class of {self._noun} kinds"
        field = getattr(kind, "__dataclass_fields__", {}).get("kind")
        stored = field.default if field else ""
        if self._noun == "event":
            stored = kind.__name__
        if stored != name and self._noun != "policy":  # those are not stored
            return f"{home} is stored as {stored!r}, not as {name!r}"
        found: type[K] = kind
        return found

    def find(self, name: str) -> type[K] | None:
        """A kind; None: there is none, or somebody else's cannot be used."""
        found = self._look_up(name)
        return None if isinstance(found, str) else found

    def __getitem__(self, name: str) -> type[K]:
        """The kind of that name; raises KeyError or EnvironmentFailed."""
        found = self._look_up(name)
        if found is None:
            raise KeyError(name)
        if isinstance(found, str):
            home = self._list_homes()[name]
            hint = f"mend, update or uninstall the package that brings {home}"
            raise EnvironmentFailed(found, f"{self._noun}.{name} = {home}", hint)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._list_homes())

    def __len__(self) -> int:
        return len(self._list_homes())

    def __contains__(self, name: object) -> bool:
        return name in self._homes or name in self._list_homes()


def _import_class(home: str) -> Any:
    module, _, found = home.partition(":")
    return getattr(import_module(module), found)


class Marked:
    """`class JobEnded(Event, matters=True)`: a class says what holds for all of it."""

    __slots__ = ()

    def __init_subclass__(cls, **marks: object) -> None:
        for name, value in marks.items():
            getattr(cls, name)  # one that its bases do not declare is a mistake
            setattr(cls, name, value)


class Kind(Marked):
    """A value that is stored with its `kind`, the first of its own fields: written as
    one, or in the class's line. The base class has the table."""

    __slots__ = ()
    kinds: ClassVar[KindTable[Any]]
    kind: str

    def __init_subclass__(cls, kind: str = "", **marks: object) -> None:
        super().__init_subclass__(**marks)
        if kind:
            literal: Any = Literal
            own = inspect.get_annotations(cls)
            cls.__annotations__ = {"kind": literal[kind], **own}
            cls.kind = kind

    def find_use(self, field: str) -> FieldUse:
        return "text"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """A field that admits any kind is read as what its `kind` says, at once."""
        if "kinds" not in vars(cls):
            return handler(source)
        choices = {}
        for name in cls.kinds:
            kind = cls.kinds.find(name)
            if kind is None:
                continue
            try:
                choices[name] = handler.generate_schema(kind)
            except Exception:  # somebody else's fields may be anything
                if is_ours(kind):
                    raise
        return {"type": "tagged-union", "choices": choices, "discriminator": "kind"}
