"""What a candidate left in its worktree becomes one commit, made by us, or is refused.

The record gives author, date and message, so that the same files make the same commit
whenever it is made. What is judged is the tree that the commit would hold: a protected
path that became a link, or got another mode, has changed like one that was edited."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from autoexp_tui.model.errors import Problem, ValidationFailed
from autoexp_tui.storage.atomic import explaining
from autoexp_tui.storage.repository import GitFailed
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import join_some, size
from autoexp_tui.worktrees.checkouts import describe_intrusion
from autoexp_tui.worktrees.diffs import (
    LINK,
    NO_FILE,
    SUBMODULE,
    Diff,
    FileChange,
    read_diff,
)
from autoexp_tui.worktrees.tree_repository import Git, Place, match_path

_REASONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tampered": "the worktree is not as we left it",
        "git_files": "files of git are not a candidate's to make or change",
        "special_file": "it is neither a file nor a link",
        "too_large": "it is larger than max_file_bytes",
        "too_many": "it changed or made too many files",
        "artifact": "it is a result or a log, not code",
        "protected": "a protected path changed",
        "not_editable": "only what the option `editable` names may change",
        "link_outside": "the link leads out of the worktree",
        "submodule": "a submodule, or a repository in the repository",
        "unreadable": "it cannot be read",
        "empty": "nothing changed",
    }
)
ARTIFACTS: Final = ("*.csv", "*.log", "*.pyc", "__pycache__/*", "*.ckpt", "*.pt")
"""New files that are results, and no code."""
_SHOWN: Final = 5
_MOST_NAMES: Final = 8 << 20
MOST_FILES: Final = 10_000
"""Of one candidate: an idea is no data set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """What a commit says beside its files."""

    parent: str
    message: str
    epoch: int
    """Seconds since 1970, UTC: the date of author and committer."""
    name: str = "autoexp-tree"
    email: str = "autoexp-tree@localhost"


class CommitRules(Protocol):
    """What a candidate may change, as options of searches and of research say."""

    @property
    def editable(self) -> Sequence[str]:
        """Patterns of what may change; empty: all that no other rule names."""

    @property
    def protected_paths(self) -> Sequence[str]: ...
    @property
    def max_file_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason why a candidate is not committed."""

    code: str
    """One of the reasons above."""
    paths: tuple[str, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        names = join_some([clean_line(path, 200) for path in self.paths], _SHOWN)
        parts = (_REASONS[self.code], clean_line(self.detail), names)
        return ": ".join(filter(None, parts))


@dataclass(eq=False)
class CandidateRefused(ValidationFailed):
    """A result of the evaluation: the candidate cannot be committed as it is."""

    refusals: tuple[Refusal, ...] = ()

    @property
    def reasons(self) -> str:
        return "; ".join(map(str, self.refusals))


@dataclass(frozen=True, slots=True)
class CandidateCommit:
    """The commit that was made of it, and what it changed."""

    commit: str
    diff: Diff


def commit_candidate(
    git: Git, place: Place, record: CommitRecord, rules: CommitRules
) -> CandidateCommit:
    """Commit what differs from the parent. Files that git ignores stay out. Raises
    CandidateRefused with every reason, or EnvironmentFailed."""
    tree = git.tree
    if intrusion := describe_intrusion(tree, place):
        raise _refuse([Refusal("tampered", detail=intrusion)])
    _prepare_index(git, place, record.parent)
    paths = _list_touched(git, place)
    if refusals := [*_judge_files(tree.get_worktree(place), paths, rules)]:
        raise _refuse(refusals)
    files = _write_tree(git, place, tree.get_worktree(place), paths)
    diff = read_diff(git, record.parent, files)
    if not diff.changes:
        ignored = _list_ignored(git, place)
        detail = f"git ignores {join_some(ignored, _SHOWN)}" if ignored else ""
        raise _refuse([Refusal("empty", detail=detail)])
    if refusals := [*_judge_changes(git, diff.changes, rules)]:
        raise _refuse(refusals)
    return CandidateCommit(write_commit(git, files, record), diff)


def write_commit(git: Git, files: str, record: CommitRecord) -> str:
    """Make the commit of a tree, or find it made; raises GitFailed."""
    date = f"@{record.epoch} +0000"
    own = {"NAME": record.name, "EMAIL": record.email, "DATE": date}
    whose = ("AUTHOR", "COMMITTER")
    environment = {f"GIT_{who}_{k}": text for who in whose for k, text in own.items()}
    message = record.message.replace("\0", "").encode("utf-8", "replace")
    words = ("commit-tree", files, *(("-p", record.parent) if record.parent else ()))
    return git.run(*words, data=message, environment=environment).decode().strip()


def _refuse(refusals: Sequence[Refusal]) -> CandidateRefused:
    problems = tuple(Problem(str(refusal)) for refusal in refusals)
    head = "the candidate cannot be committed"
    return CandidateRefused(head, problems=problems, refusals=tuple(refusals))


def _prepare_index(git: Git, place: Place, parent: str) -> None:
    """An index is there, and nobody holds it: one worktree has one worker."""
    index = git.tree.get_index(place)
    with explaining(index, "take the index"):
        Path(f"{index}.lock").unlink(missing_ok=True)
    if not index.exists():
        git.run("read-tree", parent, place=place)


def _list_touched(git: Git, place: Place) -> tuple[str, ...]:
    """What was changed, removed and made, our links apart."""
    words = ("ls-files", "-z", "-m", "-d", "-o", "--exclude-standard")
    data, more = git.read(words, place=place, most=_MOST_NAMES)
    names = {*data.split(b"\0")[:-1]}
    if more or len(names) > MOST_FILES:
        raise _refuse([Refusal("too_many", detail=f"the limit is {MOST_FILES:,}")])
    links = set(git.tree.link_paths)
    return tuple(p for p in sorted(map(os.fsdecode, names)) if p not in links)


def _list_ignored(git: Git, place: Place) -> list[str]:
    words = ("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory")
    data, _ = git.read(words, place=place, most=1 << 20)
    names = map(os.fsdecode, data.split(b"\0")[:-1])
    return [path for path in names if path not in git.tree.link_paths]


def _judge_files(
    worktree: Path, paths: Sequence[str], rules: CommitRules
) -> Iterator[Refusal]:
    """What is refused before git reads it: a file of 2 GB is not copied first."""
    found = {path: _stat(worktree / path) for path in paths}
    there = [(path, one) for path, one in found.items() if one]
    yield from _list_refusals("submodule", (p for p in paths if p.endswith("/")))
    odd = (path for path, one in there if stat.S_IFMT(one.st_mode) not in _TAKEN)
    yield from _list_refusals("special_file", odd)
    files = (both for both in there if stat.S_ISREG(both[1].st_mode))
    large = (path for path, one in files if one.st_size > rules.max_file_bytes)
    yield from _list_refusals("too_large", large, size(rules.max_file_bytes))


_TAKEN: Final = (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _write_tree(git: Git, place: Place, worktree: Path, paths: Sequence[str]) -> str:
    """The tree of the worktree. What lay below a directory that is now a link or a file
    goes with the directory."""
    ends = {path for path in paths if not _is_directory(worktree / path)}
    taken = (p for p in paths if not any(a in ends for a in _list_above(p)))
    data = b"".join(os.fsencode(path) + b"\0" for path in taken)
    words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
    try:
        git.run(*words, place=place, data=data)
    except GitFailed:
        closed = [path for path in paths if not _is_readable(worktree / path)]
        if refusals := [*_list_refusals("unreadable", closed)]:
            raise _refuse(refusals) from None
        raise
    return git.run("write-tree", place=place).decode().strip()


def _judge_changes(
    git: Git, changes: Sequence[FileChange], rules: CommitRules
) -> Iterator[Refusal]:
    paths = [change.path for change in changes]
    new = [one.path for one in changes if one.old_mode == NO_FILE]
    subs = (c.path for c in changes if SUBMODULE in (c.old_mode, c.new_mode))
    protected = (p for p in paths if match_path(p, rules.protected_paths))
    artifacts = (p for p in new if match_path(p, ARTIFACTS))
    yield from _list_refusals("git_files", filter(_is_gits, paths))
    yield from _list_refusals("submodule", subs)
    yield from _list_refusals("protected", protected)
    yield from _list_refusals("artifact", artifacts)
    if rules.editable:
        free = (path for path in paths if not _is_gits(path))
        other = (p for p in free if not match_path(p, rules.editable))
        yield from _list_refusals("not_editable", other)
    yield from _list_refusals("link_outside", _find_links_outside(git, changes))


def _is_gits(path: str) -> bool:
    return any(part.lower().startswith(".git") for part in path.split("/"))


def _find_links_outside(git: Git, changes: Sequence[FileChange]) -> Iterator[str]:
    for change in changes:
        if change.new_mode == LINK:
            data, _ = git.read(("cat-file", "blob", change.new_id), most=4096)
            if _leads_outside(os.fsdecode(data), change.path.count("/")):
                yield change.path


def _leads_outside(target: str, depth: int) -> bool:
    """Whether a link `depth` directories down may lead out. A `..` behind a name is
    not taken: the name may be a link to further up."""
    parts = [part for part in target.split("/") if part not in ("", ".")]
    ups = len(parts) - len([*dropwhile(os.pardir.__eq__, parts)])
    return target.startswith("/") or ups > depth or os.pardir in parts[ups:]


def _is_directory(path: Path) -> bool:
    found = _stat(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def _is_readable(path: Path) -> bool:
    found = _stat(path)
    is_file = found is not None and stat.S_ISREG(found.st_mode)
    return not is_file or os.access(path, os.R_OK)


def _list_above(path: str) -> Iterator[str]:
    while path := os.path.dirname(path):
        yield path


def _list_refusals(
    code: str, paths: Iterable[str], detail: str = ""
) -> Iterator[Refusal]:
    if found := tuple(paths):
        yield Refusal(code, found, detail)
