"""What lies between two commits: changed files with numbers, a bounded patch, and a
hash by which two ideas that came to the same change are known."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import plural
from autoexp_tui.worktrees.tree_repository import Git

_WORDS: Final = (
    *("diff-tree", "-r", "-z", "--raw", "--numstat", "--no-abbrev", "--no-renames"),
    *("--submodule=short", "--diff-algorithm=myers", "--indent-heuristic"),
)
_PATCH: Final = (
    *("-p", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)
_MOST: Final = 64 << 20
NO_FILE: Final = "000000"
"""The mode of a file that is not there."""
LINK: Final = "120000"
SUBMODULE: Final = "160000"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """How one file differs."""

    path: str
    """As the system decodes names: bytes that are no text are surrogates."""
    added: int | None
    """Lines; None: the file is binary."""
    removed: int | None
    old_mode: str
    new_mode: str
    """Octal, as git has it; `000000`: there is no file."""
    new_id: str = ""
    """The object."""

    @property
    def raw_path(self) -> bytes:
        return os.fsencode(self.path)

    @property
    def lines(self) -> int:
        return (self.added or 0) + (self.removed or 0)


@dataclass(frozen=True, slots=True)
class Diff:
    """All that lies between two commits or trees."""

    changes: tuple[FileChange, ...]
    patch: bytes
    """As far as it is read; untrusted."""
    is_whole: bool

    def cut_patch(self, most: int = 1 << 20) -> str:
        """The patch, of one that is longer its first `most` bytes."""
        note = "" if self.is_whole and len(self.patch) <= most else "\n# it goes on\n"
        return self.patch[:most].decode("utf-8", "replace") + note

    def hash(self) -> str:
        """The digest of what a change does: the same lines in the same files, wherever
        they stand and whatever stands around them, have the same."""
        if self.is_whole:
            return _hash_patch(self.patch)
        # Of what is that large, two that agree are the same files.
        files = (f"{one.new_id} ".encode() + one.raw_path for one in self.changes)
        return hashlib.sha256(b"\n".join(files)).hexdigest()


def list_changes(git: Git, old: str, new: str) -> tuple[FileChange, ...]:
    """Each file that differs between two commits or trees, in git's order; a file that
    moved is one that went and one that came. Raises GitFailed."""
    said = git.run(*_WORDS, "--end-of-options", old, new)
    return tuple(_parse_changes(iter(said.split(b"\0")[:-1])))


def read_diff(git: Git, old: str, new: str) -> Diff:
    """The same with the patch; raises GitFailed."""
    words = (*_WORDS, *_PATCH, "--end-of-options", old, new)
    data, more = git.read(words, most=_MOST)
    listed, _, patch = data.partition(b"\0\0")
    changes = _parse_changes(iter(listed.removesuffix(b"\0").split(b"\0")))
    return Diff(tuple(changes) if data else (), patch, not more)


def _parse_changes(parts: Iterator[bytes]) -> Iterator[FileChange]:
    """First `:old_mode new_mode old_id new_id STATUS`, path, ... of all, then
    `added TAB removed TAB path` of all (git-diff-tree(1), raw output format)."""
    raw: dict[bytes, list[str]] = {}
    for part in parts:
        if part.startswith(b":"):
            raw[next(parts)] = part[1:].decode().split(" ")
            continue
        added, removed, path = part.split(b"\t", 2)
        old_mode, new_mode, _, new_id, _ = raw[path]
        yield FileChange(
            path=os.fsdecode(path),
            added=None if added == b"-" else int(added),
            removed=None if removed == b"-" else int(removed),
            old_mode=old_mode,
            new_mode=new_mode,
            new_id=new_id,
        )


def _hash_patch(patch: bytes) -> str:
    """Of each file count its name and modes and, in order, the lines that went and
    came; blanks at their ends do not count, nor does where they stood. Of binary files
    the objects count."""
    files: list[bytes] = []
    lines: list[bytes] = []
    in_hunk = is_change = False
    for line in [*patch.split(b"\n"), b"diff --git "]:
        is_change = line[:1] in (b"+", b"-") or (is_change and line[:1] == b"\\")
        if line.startswith(b"diff --git "):
            files += [b"\n".join(lines)] if lines else []
            lines, in_hunk = [line], False
        elif line.startswith(b"@@ "):
            in_hunk = True
            lines = [one for one in lines if not one.startswith(b"index ")]
        elif is_change if in_hunk else line.startswith(_HEADS):
            lines.append(line.rstrip())
    return hashlib.sha256(b"\n".join(sorted(files))).hexdigest()


_HEADS: Final = (b"old ", b"new ", b"deleted ", b"index ")


def list_top_files(
    changes: Iterable[FileChange], most: int = 10
) -> tuple[FileChange, ...]:
    """The files with the most changed lines, then by name."""
    return tuple(sorted(changes, key=lambda one: (-one.lines, one.path))[:most])


def format_stat(changes: Sequence[FileChange], most: int = 20) -> tuple[str, ...]:
    """`name  +3 -1` a line, largest first, and a line with the sums."""
    rows = [
        f"{clean_line(one.path, 200)}  {_format_numbers(one)}"
        for one in list_top_files(changes, most)
    ]
    hidden = len(changes) - len(rows)
    rows += [f"and {plural(hidden, 'more file')}"] if hidden else []
    added = sum(one.added or 0 for one in changes)
    removed = sum(one.removed or 0 for one in changes)
    return (*rows, f"{plural(len(changes), 'file')}  +{added} -{removed}")


def _format_numbers(change: FileChange) -> str:
    numbers = "binary" if change.added is None else f"+{change.added} -{change.removed}"
    new, old = change.new_mode, change.old_mode
    if NO_FILE in (new, old) or new == old:
        return numbers
    return f"{numbers}  mode {old} -> {new}"
