"""Which session a search goes on with: one of its name, else an unfinished one of the
same config and root commit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from autoexp_tui.cli.options import name_session
from autoexp_tui.evaluation.disk_trees import OWN
from autoexp_tui.model.errors import AutoexpError, UsageError
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.atomic import make_directory
from autoexp_tui.storage.journal import load_state
from autoexp_tui.storage.lease import take_lease
from autoexp_tui.storage.manifests import make_state_dir
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import find_sessions
from autoexp_tui.tree.decide import TreePolicy
from autoexp_tui.tree.options import TreeOptions, read_options
from autoexp_tui.tree.state import Tree, find_tree
from autoexp_tui.tree.views import OF_THE_RUN
from autoexp_tui.worktrees.readiness import open_repository
from autoexp_tui.worktrees.refs import list_refs, require_unused_run
from autoexp_tui.worktrees.tree_repository import Git, TreeRepository

if TYPE_CHECKING:
    from autoexp_tui.model.masking import Share
    from autoexp_tui.model.specs import Plan

_START_SECONDS: Final = 120.0
"""For which another start is waited for."""


class Run(NamedTuple):
    """A search that is there."""

    session: SessionDir
    tree: Tree
    plan: Plan
    parts: Mapping[str, Any]
    """Of the session's state, by their policies."""

    @property
    def is_finished(self) -> bool:
        return not TreePolicy().is_open(self.tree)


@contextmanager
def hold_starts(state_dir: Path, share: Share) -> Iterator[None]:
    """Keep this user's other processes from looking for a search, or beginning one,
    until this one has begun; raises SessionOwned where one of them takes too long."""
    make_state_dir(state_dir, share)
    place = SessionDir(state_dir / f".starts-{os.geteuid()}")
    make_directory(place.path)
    lease = take_lease(place, SystemClock(), wait=_START_SECONDS)
    try:
        for path in place.lease.glob("[0-9]*"):
            if int(path.name.partition(".")[0]) < lease.epoch:
                path.unlink(missing_ok=True)
        yield
    finally:
        lease.release()


def find_run(plan: Plan, state_dir: Path, name: str, *, resume: bool) -> Run | None:
    """The search to go on with; one that is finished only by its `name`. None: a new
    one begins. Raises UsageError where the name is another search's, or is not to be
    gone on with."""
    found = [*_list_runs(state_dir)]
    if not name:
        fits = (
            one
            for one in found
            if resume and not one.is_finished and not _list_differences(one, plan)
        )
        return next(fits, None)
    named = [one for one in found if one.tree.run == name]
    if not named:
        return None
    named.sort(key=lambda one: one.is_finished)
    where, hint = str(named[0].session.path), "Choose another name with --run."
    if not resume:
        raise UsageError(f"there is a search {name} already", where, hint)
    if differences := _list_differences(named[0], plan):
        told = ", ".join(differences)
        problem = f"there is a search {name} with other settings: {told}"
        again = name_session(named[0].session.path)
        hint += f" `autoexp-tree --session {again}` goes on with it."
        raise UsageError(problem, where, hint)
    return named[0]


def _list_runs(state_dir: Path) -> Iterator[Run]:
    for session in find_sessions(state_dir):
        if not (session.path / "tree").is_dir():
            continue
        try:
            state = load_state(session).state
        except AutoexpError:  # the list of sessions tells of it
            continue
        tree = find_tree(state)
        if tree is not None and state.plan is not None:
            yield Run(session, tree, state.plan, state.parts)


def _list_differences(run: Run, plan: Plan) -> list[str]:
    """What the search decides by, and is not the same in a plan."""
    asked = read_options(plan.tree)
    old, new = (_list_deciding(one) for one in (run.tree.options, asked))
    found = [f"tree.{key}" for key in old if old[key] != new[key]]
    if run.plan.config_ref != plan.config_ref:
        found.append("the config")
    repository, root = _open_repository(plan, asked, run.tree.run), run.tree.root_commit
    if repository and root and Git(repository).resolve(asked.root) != root:
        found.append("the root commit")
    return found


def _list_deciding(options: TreeOptions) -> dict[str, Any]:
    return {
        key: value
        for key, value in asdict(options).items()
        if key not in OF_THE_RUN and key != "run"
    }


def _open_repository(
    plan: Plan, options: TreeOptions, name: str
) -> TreeRepository | None:
    """None: the search makes its own."""
    if options.repository in OWN:
        return None
    where = Path(plan.cwd, options.repository or ".")
    return open_repository(where, name, where)


def name_run(plan: Plan, name: str, state_dir: Path) -> Plan:
    """The plan of a new search, under a name that no search has and without refs: a
    person's own is refused where it has some, the config's gets a number. Raises
    EnvironmentFailed."""
    options = read_options(plan.tree)
    wanted = name or options.run or plan.name
    repository = _open_repository(plan, options, wanted)
    if repository is None:
        return plan
    if name:
        require_unused_run(repository)
        return plan
    tries = (wanted if at == 1 else f"{wanted}-{at}" for at in count(1))
    taken = {one.tree.run for one in _list_runs(state_dir)}
    free = (
        one
        for one in tries
        if one not in taken and not list_refs(replace(repository, run=one))
    )
    return replace(plan, tree={**plan.tree, "run": next(free)})
