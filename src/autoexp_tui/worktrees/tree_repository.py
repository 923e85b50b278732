"""The repository that a search works on: where its parts lie, and how git is called.

Of the user's repository only the object store and the refs below `refs/tree/<run>/` (of
research below `refs/research-calls/<session>/`, and branches of approved changes) are
written. Worktrees are plain directories below a root of ours that git does not know of:
each call names the directory, the repository and an index of ours, which lies beside
the worktrees and not in them. In a worktree `.git` is a file that leads nowhere, so
that git called there by others finds neither the repository nor the one above it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from autoexp_tui.model.errors import EnvironmentFailed, UsageError
from autoexp_tui.storage.repository import GitFailed, Repository
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import join_some

Kind: TypeAlias = Literal["wt", "cand", "scorer", "call"]
"""A worktree of a node or of an approved change, a candidate's, the checkout from which
scores are made, and that of a research agent's call."""
Section: TypeAlias = Literal["tree", "research"]
"""Of the config, whose options a repository is opened by."""

DETACHED: Final = b"gitdir: /dev/null/no-repository\n"
"""What `.git` holds in a worktree: git ends there, and does not look further up."""
_LETTERS: Final[Mapping[Kind, str]] = {"wt": "n", "cand": "e", "call": "c"}
_REFS: Final[Mapping[Section, str]] = {"tree": "tree", "research": "research-calls"}
_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?![.]|$|lock$)){0,99}")
_SECONDS: Final = 600.0
_MOST: Final = 64 << 20
_SETTINGS: Final[Mapping[str, str]] = {
    "core.attributesFile": os.devnull,
    "core.checkStat": "default",
    # Milliseconds: others delete and pack refs at the same time.
    "core.filesRefLockTimeout": "2000",
    "core.packedRefsTimeout": "5000",
    "core.trustctime": "true",
    "core.sparseCheckout": "false",
    "core.splitIndex": "false",
    "core.untrackedCache": "false",
    "core.logAllRefUpdates": "false",
    "diff.suppressBlankEmpty": "false",
    "gc.auto": "0",
    "i18n.commitEncoding": "UTF-8",
    "maintenance.auto": "false",
}
_ENVIRONMENT: Final[Mapping[str, str]] = {
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "0",
    "GIT_CONFIG_PARAMETERS": "",
    "GIT_NAMESPACE": "",
    "GIT_NO_REPLACE_OBJECTS": "1",
}


@dataclass(frozen=True, slots=True)
class Place:
    """One worktree: `wt/3` of node 3, `cand/12` of evaluation 12."""

    kind: Kind
    id: str

    def __post_init__(self) -> None:
        require_name(self.id, "an id of the tree")

    def __str__(self) -> str:
        return f"{self.kind}/{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRepository:
    """Where the repository of a search or of research lies, and what we make of it."""

    git_dir: Path
    """The repository that all its worktrees share."""
    top: Path
    """The user's checkout; never written to."""
    run: str
    root: Path
    """Below which worktrees and their indexes lie; ours alone."""
    link_paths: tuple[str, ...] = ()
    """Untracked inputs of the checkout, linked into each worktree."""
    section: Section = "tree"

    @property
    def refs(self) -> str:
        """Below which the refs of the run lie: `n<id>` a node, `e<id>` an evaluation,
        `c<id>` a call. Being no branches, they are neither checked out nor pushed by
        accident, and stand in nobody's way."""
        return f"refs/{_REFS[self.section]}/{self.run}/"

    @property
    def root_option(self) -> str:
        """By which another root is chosen."""
        return "tree.worktree_root" if self.section == "tree" else "--state-dir"

    def get_worktree(self, place: Place) -> Path:
        return self.root / place.kind / place.id

    def list_links(self) -> tuple[Path, ...]:
        """What `link_paths` lead to."""
        return tuple(self.top / one for one in self.link_paths)

    def get_index(self, place: Place) -> Path:
        """It is there once the worktree is whole."""
        return self.root / "index" / f"{place.kind}-{place.id}"

    def get_ref(self, place: Place) -> str:
        return f"{self.refs}{_LETTERS[place.kind]}{place.id}"


def require_name(name: str, what: str) -> None:
    """Refuse what cannot be a part of a path and of a ref alike."""
    if not _NAME.fullmatch(name):
        problem = f"{clean_line(name, 100)!r} cannot be {what}"
        raise UsageError(problem, hint="Use letters, digits, '.', '_' and '-'.")


class Git:
    """Calls git on the shared repository; made anew once foreign code may have run,
    since its configuration may have come to name a program."""

    def __init__(self, tree: TreeRepository) -> None:
        self.tree = tree
        options = (f"--git-dir={tree.git_dir}", "--literal-pathspecs")
        self._repository = Repository(tree.git_dir, *options, settings=_SETTINGS)
        self._environment = {
            **_ENVIRONMENT,
            "GIT_COMMON_DIR": str(tree.git_dir),
            "GIT_INDEX_FILE": str(tree.root / "index" / "none"),
            "GIT_OBJECT_DIRECTORY": str(tree.git_dir / "objects"),
        }

    def run(
        self,
        *words: str,
        place: Place | None = None,
        data: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> bytes:
        """What one command says; with a place, on its worktree and index. Raises
        GitFailed."""
        data, more = self.read(
            words, place=place, data=data, environment=environment, most=_MOST
        )
        if more:
            raise GitFailed(f"git {words[0]} says more than {_MOST >> 20} MiB")
        return data

    def read(
        self,
        words: Sequence[str],
        *,
        most: int,
        place: Place | None = None,
        data: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> tuple[bytes, bool]:
        """As `run`, at most `most` bytes, and whether there was more."""
        options, more = ["--bare"], dict(environment or {})
        if place is not None:
            worktree = str(self.tree.get_worktree(place))
            more["GIT_INDEX_FILE"] = str(self.tree.get_index(place))
            # `-C` comes after the repository's own, and the last one holds.
            options = [f"--work-tree={worktree}", "-C", worktree]
        return self._repository.run(
            words,
            most=most,
            seconds=_SECONDS,
            data=data,
            options=options,
            environment={**self._environment, **more},
        )

    def resolve(self, revision: str) -> str:
        """The id of a commit; raises UsageError when there is none."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options")
        try:
            data = self.run(*words, f"{revision}^{{commit}}")
        except GitFailed as error:
            problem = f"{clean_line(revision, 100)!r} is no commit of the repository"
            hint = "Commit something first, or name another commit as tree.root."
            raise UsageError(problem, str(self.tree.top), hint) from error
        return data.decode().strip()


def match_path(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path, or a directory above it, is one of the patterns, in which `*`
    stands for any characters, `/` too."""
    from fnmatch import fnmatchcase

    parts = path.split("/")
    heads = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    cut = [pattern.strip("/") for pattern in patterns]
    return any(fnmatchcase(head, pattern) for pattern in cut for head in heads)


_SHOWN = 5


class RefMoved(EnvironmentFailed):
    """A ref holds another commit than the one that we left there."""


def list_refs(git: Git, name: str = "") -> dict[str, str]:
    """Each ref of the run, or the one of this name alone, with its commit."""
    words = ("for-each-ref", "--format=%(refname) %(objectname)")
    said = git.run(*words, name or git.tree.refs)
    return dict(line.split(" ") for line in said.decode().splitlines())


def require_unused_run(git: Git) -> None:
    """Refuse the name of a run that has refs; raises EnvironmentFailed."""
    tree = git.tree
    if found := [*list_refs(git)]:
        problem = f"there are refs of a run {tree.run} already: "
        hint = (
            "Choose another name with --run, or remove them: git for-each-ref "
            f"--format='delete %(refname)' {tree.refs} | "
            "git update-ref --stdin"
        )
        names = join_some(found, _SHOWN)
        raise EnvironmentFailed(problem + names, str(tree.top), hint)


def update_ref(git: Git, ref: str, *, new: str = "", old: str = "") -> None:
    """Move `ref` from `old` to `new`: no `old`, and it must be new; no `new`, and it is
    deleted. What is so already is left. Raises RefMoved when it holds another commit,
    else GitFailed."""
    verb = "delete" if not new else "update" if old else "create"
    line = " ".join(filter(None, (verb, ref, new, old)))
    try:
        git.run("update-ref", "--no-deref", "--stdin", data=f"{line}\n".encode())
    except GitFailed:
        found = list_refs(git, ref).get(ref, "")
        if found == new:
            return
        if found == old:
            raise  # locked, unwritable, or a ref of that name stands in the way
        now = f"is at {found[:12]}" if found else "is gone"
        before = f"was left at {old[:12]}" if old else "was not there before"
        problem = f"it {now} and {before}: somebody else moved it"
        hint = "Look at what it holds (git log); the search does not touch it."
        raise RefMoved(problem, ref, hint) from None
