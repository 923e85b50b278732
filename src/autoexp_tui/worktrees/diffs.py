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
from autoexp_tui.worktrees.tree_repository import Git, TreeRepository

_PATCH: Final = (
    *("diff-tree", "-p", "--full-index", "--no-renames", "--no-ext-diff"),
    *("--no-textconv", "--no-color", "--diff-algorithm=myers", "--indent-heuristic"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short"),
)
_MOST_HASHED: Final = 64 << 20
NO_FILE: Final = "000000"
"""The mode of a file that is not there."""
LINK: Final = "120000"
SUBMODULE: Final = "160000"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
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


def list_changes(git: Git, old: str, new: str) -> tuple[FileChange, ...]:
    """Each file that differs between two commits or trees, in git's order; a file that
    moved is one that went and one that came."""
    words = "diff-tree -r -z --no-renames --raw --numstat --no-abbrev --end-of-options"
    parts = iter(git.run(*words.split(), old, new).split(b"\0")[:-1])
    return tuple(_parse_changes(parts))


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


def read_changes(tree: TreeRepository, old: str, new: str) -> tuple[FileChange, ...]:
    """As `list_changes`, of a search's repository; raises GitFailed."""
    return list_changes(Git(tree), old, new)


def read_patch(
    tree: TreeRepository,
    old: str,
    new: str,
    most: int = 1 << 20,
    git: Git | None = None,
) -> tuple[str, bool]:
    """The patch from one commit to another, its first `most` bytes, and whether there
    was more; untrusted text; raises GitFailed."""
    words = (*_PATCH, "--end-of-options", old, new)
    data, more = (git or Git(tree)).read(words, most=most)
    return data.decode("utf-8", "replace"), more


def hash_diff(tree: TreeRepository, old: str, new: str, git: Git | None = None) -> str:
    """The digest of what a change does: the same lines in the same files, wherever they
    stand and whatever stands around them, have the same. Raises GitFailed."""
    git = git or Git(tree)
    words = (*_PATCH, "-U0", "--end-of-options", old, new)
    data, more = git.read(words, most=_MOST_HASHED)
    if more:  # of what is that large, two that agree are the same files
        changes = list_changes(git, old, new)
        data = b"\n".join(
            b"%s %s" % (one.new_id.encode(), one.raw_path) for one in changes
        )
        return hashlib.sha256(data).hexdigest()
    return hash_patch(data)


def hash_patch(patch: bytes) -> str:
    """The digest of a patch without context (`-U0 --full-index`). Of each file count
    its name and modes and, in order, the lines that went and came; blanks at their ends
    do not count, nor does where they stood. Of binary files the objects count."""
    files: list[bytes] = []
    lines: list[bytes] = []
    in_hunk = False
    for line in [*patch.split(b"\n"), b"diff --git "]:
        if line.startswith(b"diff --git "):
            files += [b"\n".join(lines)] if lines else []
            lines, in_hunk = [line], False
        elif line.startswith(b"@@ "):
            in_hunk = True
            lines = [one for one in lines if not one.startswith(b"index ")]
        elif in_hunk or line.startswith((b"old ", b"new ", b"deleted ", b"index ")):
            lines.append(line.rstrip())
    return hashlib.sha256(b"\n".join(sorted(files))).hexdigest()


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
