"""Whether a search can begin in a repository: refused, with every reason at once, is
what would make a node something else than a commit; what merely differs in a worktree
is told."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from autoexp_tui.model.errors import EnvironmentFailed, Problem, ValidationFailed
from autoexp_tui.storage.atomic import make_directory, write_atomic
from autoexp_tui.storage.repository import Repository
from autoexp_tui.text.sanitize import clean_line
from autoexp_tui.text.spelling import join_some
from autoexp_tui.worktrees.checkouts import is_worktree
from autoexp_tui.worktrees.diffs import SUBMODULE
from autoexp_tui.worktrees.tree_repository import Section, TreeRepository, require_name

_SHOWN = 5
_MOST = 64 << 20
_SECONDS = 120.0
_IN_GIT = "Use a checkout that git knows: git init, git clone or git worktree add."


def open_repository(
    directory: Path,
    run: str,
    root: Path,
    link_paths: Sequence[str] = (),
    section: Section = "tree",
) -> TreeRepository:
    """The repository around `directory`, for a run whose worktrees lie below `root`.
    Raises UsageError or EnvironmentFailed, and changes nothing."""
    require_name(run, "the name of a run")
    if not directory.is_dir():
        hint = f"Name a checkout as {section}.repository."
        raise EnvironmentFailed("there is no such directory", str(directory), hint)
    try:
        git = Repository(directory)
    except EnvironmentFailed as error:
        error.hint = error.hint or "Is git installed, and on PATH?"
        raise

    def ask(*words: str) -> str:
        found, _ = git.read("rev-parse", *words, most=1 << 16)
        return os.fsdecode(found.removesuffix(b"\n"))

    if ask("--is-bare-repository") == "true":
        problem = "it is a bare repository, without files"
        raise EnvironmentFailed(problem, str(directory), _IN_GIT)
    top = ask("--show-toplevel")
    if not top:
        problem = "it is not in a git checkout"
        raise EnvironmentFailed(problem, str(directory), _IN_GIT)
    shared = ask("--path-format=absolute", "--git-common-dir")
    if not shared:
        problem = "git is too old: worktrees need 2.31"
        raise EnvironmentFailed(problem, hint="Put a newer one on PATH.")
    return TreeRepository(
        git_dir=Path(shared),
        top=Path(top),
        run=run,
        root=Path(os.path.realpath(root)),
        link_paths=tuple(os.path.normpath(path) for path in link_paths),
        section=section,
    )


def check_repository(tree: TreeRepository, state_dir: Path) -> Sequence[str]:
    """Whether the checkout is clean and our places may lie where they are; notes on
    what of it worktrees hold in another form. Places that lie in it get a `.gitignore`
    of their own. Raises ValidationFailed with all that is wrong, or
    EnvironmentFailed."""
    problems = [*_find_nested(tree)]
    if not problems:
        state = Path(os.path.realpath(state_dir))
        for place in (state, *((tree.root,) if state not in tree.root.parents else ())):
            if tree.top in place.parents:
                ignore_directory(place)
    git = Repository(tree.top)
    files = _list_files(git)
    filtered = _list_filtered(git)
    submodules = [path for path, mode in files.items() if mode == SUBMODULE]
    problems += _check_links(tree, files)
    problems += _check_clean(git, tree, frozenset(filtered))
    if problems:
        what = "a search" if tree.section == "tree" else "research"
        head = f"{what} cannot begin in this repository"
        raise ValidationFailed(head, str(tree.top), problems=tuple(problems))
    return (
        # Worktrees hold what git stores of them, and empty directories.
        *_note(tree, filtered, "under a filter (such as LFS)", "is a pointer"),
        *_note(tree, submodules, "a submodule", "is empty"),
    )


def _note(
    tree: TreeRepository, paths: Sequence[str], what: str, becomes: str
) -> Iterator[str]:
    if paths:
        names = join_some([clean_line(path, 200) for path in paths], _SHOWN)
        yield (
            f"{what}, and {becomes} in worktrees: {names}. Code that needs it finds it "
            f"through an untracked path of {tree.section}.link_paths."
        )


def ignore_directory(directory: Path) -> None:
    """Make git pass over a directory of ours in somebody's checkout, at any time;
    raises EnvironmentFailed."""
    make_directory(directory)
    if not (directory / ".gitignore").exists():
        write_atomic(directory / ".gitignore", b"*\n")


def _find_nested(tree: TreeRepository) -> Iterator[Problem]:
    for place in (tree.top, tree.root):
        for above in (place, *place.parents):
            if is_worktree(above):
                problem = f"it lies in {above}, a worktree of a search"
                where = tree.root_option
                hint = f"Start from your own checkout, or choose {where}."
                yield Problem(problem, str(place), hint=hint)
    if tree.git_dir in (tree.root, *tree.root.parents):
        hint = f"Choose another {tree.root_option}."
        yield Problem("it lies in the repository itself", str(tree.root), hint=hint)


def _list_files(git: Repository) -> dict[str, str]:
    """Each tracked file with its mode."""
    lines = _list_names(git, "ls-files", "-s", "-z", "--full-name")
    parts = (line.partition("\t") for line in lines)
    return {path: head[:6] for head, _, path in parts}


def _list_filtered(git: Repository) -> tuple[str, ...]:
    outside = (":(exclude,attr:!filter)", ":(exclude,attr:-filter)")
    return tuple(_list_names(git, "ls-files", "-z", "--full-name", "--", *outside))


def _check_links(tree: TreeRepository, files: dict[str, str]) -> Iterator[Problem]:
    for path in tree.link_paths:
        parts = path.split("/")
        where = f"{tree.section}.link_paths: {clean_line(path, 200)}"
        if os.path.isabs(path) or os.pardir in parts or ".git" in parts or path == ".":
            yield Problem("it is no path below the checkout", where)
        elif not os.path.lexists(tree.top / path):
            yield Problem("it is not there", where, hint="Make it, or name another.")
        elif path in files or any(file.startswith(f"{path}/") for file in files):
            hint = "Leave it out: worktrees have it from the commit."
            yield Problem("git tracks it, or what is in it", where, hint=hint)


def _check_clean(
    git: Repository, tree: TreeRepository, filtered: frozenset[str]
) -> Iterator[Problem]:
    """Files under a filter look changed where the filter is off: they do not count."""
    words = ("status", "--porcelain=v1", "-z", "-uall", "--no-renames")
    lines = _list_names(git, *words, "--ignore-submodules=dirty")
    new = [line[3:] for line in lines if line.startswith("??")]
    new = [path for path in new if not _lies_in(path, tree.link_paths)]
    changed = [line[3:] for line in lines if not line.startswith("??")]
    changed = [path for path in changed if path not in filtered]
    hint = "Commit or stash it: git stash."
    yield from _tell(changed, "there are uncommitted changes", hint)
    hint = (
        "Commit it, have git ignore it (.gitignore, .git/info/exclude), or name it in "
        f"{tree.section}.link_paths when the code needs it."
    )
    yield from _tell(new, "there are files that git neither tracks nor ignores", hint)


def _lies_in(path: str, places: Iterable[str]) -> bool:
    return any(path.rstrip("/") == one or path.startswith(f"{one}/") for one in places)


def _tell(paths: Sequence[str], what: str, hint: str) -> Iterator[Problem]:
    if paths:
        names = join_some([clean_line(path, 200) for path in paths], _SHOWN)
        yield Problem(f"{what}: {names}", hint=hint)


def _list_names(git: Repository, *words: str) -> list[str]:
    """What git names, each ended by a zero; raises EnvironmentFailed."""
    data, _ = git.run(words, most=_MOST, seconds=_SECONDS)
    return [os.fsdecode(name) for name in data.split(b"\0")[:-1]]
