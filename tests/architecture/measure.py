"""Measures a code base: size, names, imports, and how far each kind is spread.

    python -m tests.architecture.measure [SRC ...] [--names]

`SRC` is a package's directory, `src/autoexp_tui` by default. One row a package is
printed, so that several can be laid side by side. Only the text is read: nothing is
imported. `tests.architecture.trips` counts what runs enter.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import cache, cached_property
from pathlib import Path
from statistics import median

from tests.architecture.source import Source, text_of

HERE = Path(__file__).parent
_NO_PARTICIPLES = frozenset({"embed", "exceed", "feed", "need", "proceed", "seed"})


@cache
def words(name: str) -> frozenset[str]:
    """The words of a list beside this file; its head says what they are."""
    lines = (HERE / f"{name}.txt").read_text().splitlines()
    text = " ".join(line for line in lines if not line.startswith("#"))
    return frozenset(text.split())


@cache
def own_verbs() -> frozenset[str]:
    """The verbs that the glossary in CONTRIBUTING adds, at most forty."""
    text = (HERE.parent.parent / "CONTRIBUTING.md").read_text()
    table = text.partition("| verb | meaning |")[2].partition("\n\n")[0]
    return frozenset(re.findall(r"^\| (\w+) \|", table, re.MULTILINE))


# ------------------------------------------------------------------------- a package
@dataclass(frozen=True)
class Package:
    """All modules below a directory."""

    root: Path

    @cached_property
    def sources(self) -> list[Source]:
        """In the order of their paths."""
        return [
            Source(path, self._module(path)) for path in sorted(self.root.rglob("*.py"))
        ]

    def _module(self, path: Path) -> str:
        parts = path.relative_to(self.root.parent).with_suffix("").parts
        return ".".join(part for part in parts if part != "__init__")

    @cached_property
    def tables(self) -> frozenset[str]:
        """Modules that hold a table of kinds."""
        return frozenset(
            source.module for source in self.sources if "KindTable(" in source.text
        )

    @cached_property
    def graph(self) -> dict[str, set[str]]:
        """What each module imports of the package; a table loads nothing by itself."""
        known = frozenset(source.module for source in self.sources)
        return {source.module: source.imports(known) for source in self.sources}

    @cached_property
    def kinds(self) -> frozenset[str]:
        """Modules that are named in a table of kinds."""
        tables = (name.partition(".")[2] for name in self.tables)
        named = {name for table in tables for name in self.named_in(table)}
        return frozenset(f"{self.root.name}.{name}" for name in named)

    def named_in(self, table: str) -> set[str]:
        """The modules, below the package, that a module names in strings."""
        return {
            text
            for source in self.sources
            if source.module == f"{self.root.name}.{table}"
            for text in map(text_of, ast.walk(source.tree))
            if f"{self.root.name}.{text}" in self.graph
        }

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """Who imports each module."""
        found: dict[str, set[str]] = {name: set() for name in self.graph}
        for name, wanted in self.graph.items():
            for other in wanted:
                found[other].add(name)
        return found

    def one_importer(self) -> list[str]:
        """Modules with one importer; commands and kinds apart, which a table names."""
        return [
            name
            for name, who in self.importers.items()
            if len(who) == 1 and ".cli." not in name and name not in self.kinds
        ]

    def circles(self) -> list[list[str]]:
        """Groups of modules that import each other."""
        reached = {name: self._reach(name) for name in self.graph}
        groups = {
            tuple(sorted(other for other in found if name in reached[other]))
            for name, found in reached.items()
        }
        return [list(group) for group in sorted(groups) if group]

    def _reach(self, name: str) -> set[str]:
        found: set[str] = set()
        todo = [name]
        while todo:
            new = self.graph[todo.pop()] - found
            found |= new
            todo += new
        return found

    def participles(self) -> list[str]:
        """Functions, properties apart, that are named by a participle alone."""
        named = (
            f.name.strip("_")
            for source in self.sources
            for f in source.functions
            if not any("property" in ast.unparse(d) for d in f.decorator_list)
        )
        return [name for name in named if is_participle(name)]

    def verb_names(self) -> tuple[int, int]:
        """Names that begin with a verb, and all; those of Python's protocols apart."""
        known = words("verbs") | own_verbs()
        firsts = [
            f.name.strip("_").split("_")[0].lower()
            for source in self.sources
            for f in source.functions
            if not (f.name.startswith("__") and f.name.endswith("__"))
        ]
        return sum(word in known for word in firsts), len(firsts)

    def spread(self, modules: Iterable[str]) -> dict[str, int]:
        """In how many files each public class of some modules is named."""
        wanted = {
            node.name
            for source in self.sources
            if source.module.removeprefix(f"{self.root.name}.") in modules
            for node in source.tree.body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        }
        found = dict.fromkeys(sorted(wanted), 0)
        for source in self.sources:
            words = set(re.findall(r"\w+", source.text))
            for name in wanted & words:
                found[name] += 1
        return found


def is_participle(name: str) -> bool:
    """Whether a name is one participle: `told`, `parsed`."""
    regular = name.endswith("ed") and name not in _NO_PARTICIPLES
    return (
        "_" not in name and name.islower() and (regular or name in words("participles"))
    )


# --------------------------------------------------------------------------- figures
KINDS = {
    "condition": "condition",
    "action": "rules",
    "effect": "effect",
    "event": "event",
}
"""The module of `model` that has the table of each kind."""


@dataclass(frozen=True)
class Figures:
    """What the table of a package shows."""

    files: int
    lines: int
    code: int
    functions: int
    verb_share: float
    participles: int
    """In -ed, and irregular ones."""
    one_importer: int
    circles: int
    modules_in_circles: int
    private_modules: int
    nodes: int
    characters_a_line: float
    docstring_share: float
    files_naming: dict[str, str] = field(default_factory=dict)


def measure(package: Package) -> Figures:
    """All figures of a package."""
    sources = package.sources
    lines = sum(len(source.text.splitlines()) for source in sources)
    code = sum(len(source.code_lines) for source in sources)
    verb, names = package.verb_names()
    circles = package.circles()
    private = [use for source in sources for use in source.private_uses()]
    return Figures(
        files=len(sources),
        lines=lines,
        code=code,
        functions=sum(len(source.functions) for source in sources),
        verb_share=round(100 * verb / max(1, names), 1),
        participles=len(package.participles()),
        one_importer=len(package.one_importer()),
        circles=len(circles),
        modules_in_circles=sum(map(len, circles)),
        private_modules=len({use.partition(":")[0] for use in private}),
        nodes=sum(source.nodes for source in sources),
        characters_a_line=round(
            sum(s.code_characters() for s in sources) / max(1, code), 1
        ),
        docstring_share=round(
            100 * sum(len(s.docstring_lines) for s in sources) / max(1, lines), 1
        ),
        files_naming={
            kind: _spread_in_words(package.spread(package.named_in(f"model.{table}")))
            for kind, table in KINDS.items()
        },
    )


def _spread_in_words(found: dict[str, int]) -> str:
    if not found:
        return "-"
    counts = sorted(found.values())
    return f"{counts[0]}-{counts[-1]}, median {median(counts):g}"


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("src", nargs="*", type=Path, default=[Path("src/autoexp_tui")])
    parser.add_argument(
        "--names", action="store_true", help="what is behind the figures"
    )
    chosen = parser.parse_args(arguments)
    packages = [Package(path.resolve()) for path in chosen.src]
    rows = {
        str(path): asdict(measure(package))
        for path, package in zip(chosen.src, packages, strict=True)
    }
    for key in next(iter(rows.values())):
        print(f"{key:20}", *(f"{row[key]!s:>14}" for row in rows.values()))
    if chosen.names:
        for package in packages:
            print_names(package)


def print_names(package: Package) -> None:
    """What the figures of a package are about, name by name."""
    print("\nmodules that import each other:")
    for group in package.circles():
        print("  ", ", ".join(group))
    print("private parts of libraries:")
    for source in package.sources:
        for use in source.private_uses():
            print("  ", use)
    print("modules with one importer:", len(package.one_importer()))
    for name in package.one_importer():
        print("  ", name, "<-", *package.importers[name])
    print("participles:", " ".join(sorted(set(package.participles()))))


if __name__ == "__main__":
    main()
