"""One Python file, read for measuring: its functions, lines, imports."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

LIBRARIES: Final = ("hydra", "omegaconf", "textual", "rich", "pydantic")
_PRIVATE_PATH: Final = re.compile(rf"({'|'.join(LIBRARIES)})(\.\w+)*\._\w+(\.\w+)*")
_DOTTED: Final = re.compile(r"[a-z_]+([.:][A-Za-z_]\w*)+")
_SPACE: Final = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
_LAYOUT: Final = frozenset({*_SPACE, tokenize.COMMENT, tokenize.ENDMARKER})


@dataclass(frozen=True)
class Source:
    """One module of a package."""

    path: Path
    module: str

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every def, nested ones and methods too."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [node for node in ast.walk(self.tree) if isinstance(node, kinds)]

    @cached_property
    def docstrings(self) -> list[ast.Expr]:
        """Strings that stand alone as a statement, those below a field too."""
        return [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr) and text_of(node.value)
        ]

    @cached_property
    def docstring_lines(self) -> set[int]:
        """Numbers of the lines that docstrings take."""
        return {
            line
            for node in self.docstrings
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
        }

    @cached_property
    def code_lines(self) -> set[int]:
        """Numbers of the lines with code: no blanks, comments and docstrings."""
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in _LAYOUT:
                lines.update(range(token.start[0], token.end[0] + 1))
        return lines - self.docstring_lines

    @cached_property
    def nodes(self) -> int:
        """AST nodes, docstrings apart."""
        return sum(1 for _ in ast.walk(self.tree)) - 2 * len(self.docstrings)

    def code_characters(self) -> int:
        """Characters of the lines with code, without their indentation."""
        lines = self.text.splitlines()
        return sum(len(lines[number - 1].strip()) for number in self.code_lines)

    def imports(self, known: frozenset[str]) -> set[str]:
        """Modules of the package that it imports, anywhere, also by a string."""
        return {
            name
            for wanted in self._names_imported()
            if (name := _longest_known(wanted, known)) and name != self.module
        }

    def _names_imported(self) -> Iterator[str]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif _DOTTED.fullmatch(text := text_of(node)):
                yield text.replace(":", ".")

    def private_uses(self) -> list[str]:
        """Private parts of libraries that it imports, names or replaces."""
        return [f"{self.module}: {name}" for name in sorted(set(self._private()))]

    def _private(self) -> Iterator[str]:
        theirs: set[str] = set()
        for node in ast.walk(self.tree):
            for name, known_as in _imported_from_libraries(node):
                theirs.add(known_as)
                if _is_private(name):
                    yield name
            if _PRIVATE_PATH.fullmatch(text := text_of(node)):
                yield text
        for node in ast.walk(self.tree):
            for target in _replaced(node):
                if _root(target) in theirs:
                    yield f"{ast.unparse(target)} replaced"


def text_of(node: ast.AST) -> str:
    """The string that a node is; empty when it is none."""
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return str(node.value) if is_text else ""  # type: ignore[attr-defined]


def _imported_from_libraries(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Dotted names that a statement imports, and what it calls them."""
    if isinstance(node, ast.Import):
        found = [(a.name, a.asname or a.name.split(".")[0]) for a in node.names]
    elif isinstance(node, ast.ImportFrom):
        found = [(f"{node.module}.{a.name}", a.asname or a.name) for a in node.names]
    else:
        return
    yield from (one for one in found if one[0].split(".")[0] in LIBRARIES)


def _is_private(name: str) -> bool:
    parts = name.split(".")
    return any(part.startswith("_") and not part.startswith("__") for part in parts)


def _replaced(node: ast.AST) -> Iterator[ast.Attribute]:
    """Attributes that a statement assigns to, also by setattr."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        targets = [node.target]
    yield from (target for target in targets if isinstance(target, ast.Attribute))
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "setattr"
        and len(node.args) == 3
    ):
        yield ast.Attribute(value=node.args[0], attr="setattr", ctx=ast.Load())


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _longest_known(wanted: str, known: frozenset[str]) -> str:
    while wanted:
        if wanted in known:
            return wanted
        wanted = wanted.rpartition(".")[0]
    return ""
