"""Which session a search goes on with: one of its name, else an unfinished one of the
same config and root commit; and the name of a new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from autoexp_tui.cli.options import name_session
from autoexp_tui.evaluation.disk_trees import OWN
from autoexp_tui.evaluation.read_back import read_results
from autoexp_tui.events.session import PlanAdded
from autoexp_tui.model.errors import AutoexpError, Problem, UsageError, ValidationFailed
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.storage.atomic import make_directory
from autoexp_tui.storage.journal import StoredPlans, read_session
from autoexp_tui.storage.lease import take_lease
from autoexp_tui.storage.manifests import make_state_dir
from autoexp_tui.storage.session_dir import SessionDir
from autoexp_tui.storage.sessions import describe, find_sessions
from autoexp_tui.tree.events import TreeBegun, TreeOpened
from autoexp_tui.tree.options import TreeOptions, read_options
from autoexp_tui.tree.views import OF_THE_RUN
from autoexp_tui.worktrees.checkouts import add_worktree
from autoexp_tui.worktrees.readiness import check_repository, open_repository
from autoexp_tui.worktrees.tree_repository import (
    Git,
    Place,
    TreeRepository,
    list_refs,
    require_unused_run,
)

if TYPE_CHECKING:
    from autoexp_tui.model.masking import Share
    from autoexp_tui.model.specs import Plan

_START_SECONDS: Final = 120.0
"""For which another start is waited for."""


@dataclass(frozen=True, slots=True)
class Run:
    """A search that is there, as its journal begins."""

    session: SessionDir
    name: str
    plan: Plan
    root_commit: str = ""
    """Empty: its repository was not opened yet."""

    def is_finished(self) -> bool:
        """Costs a look at what the list of sessions keeps of it."""
        return not describe(self.session).open


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
    found = _list_runs(state_dir)
    root = _find_root(plan)
    if not name:
        fits = (
            one for one in found if resume and not _list_differences(one, plan, root)
        )
        return next((one for one in fits if not one.is_finished()), None)
    named = [one for one in found if one.name == name]
    if not named:
        return None
    run = next((one for one in named if not one.is_finished()), named[0])
    where, hint = str(run.session.path), "Choose another name with --run."
    if not resume:
        raise UsageError(f"there is a search {name} already", where, hint)
    if differences := _list_differences(run, plan, root):
        told = ", ".join(differences)
        problem = f"there is a search {name} with other settings: {told}"
        hint += f" `autoexp-tree --session {name_session(run.session.path)}`"
        raise UsageError(problem, where, f"{hint} goes on with it.")
    return run


def _list_runs(state_dir: Path) -> Iterator[Run]:
    for session in find_sessions(state_dir):
        if (session.path / "tree").is_dir() and (run := _read_run(session)):
            yield run


def _read_run(session: SessionDir) -> Run | None:
    """Of the beginning of its journal; None: it is no search, or cannot be read, which
    the list of sessions tells."""
    plan, run = None, None
    try:
        for record in read_session(session):
            match record.event:
                case PlanAdded(sha=sha) if plan is None:
                    plan = StoredPlans(session)[sha]
                case TreeBegun(run=name) if plan is not None:
                    run = Run(session, name, plan)
                case TreeOpened(root_commit=commit) if run is not None:
                    return replace(run, root_commit=commit)
    except AutoexpError:
        return None
    return run


def _list_differences(run: Run, plan: Plan, root: str) -> list[str]:
    """What the search decides by, and is not the same in a plan of that root commit."""
    old, new = (asdict(read_options(one.tree)) for one in (run.plan, plan))
    keys = old.keys() - OF_THE_RUN - {"run"}
    found = [f"tree.{key}" for key in keys if old[key] != new[key]]
    if run.plan.config_ref != plan.config_ref:
        found.append("the config")
    if root and run.root_commit not in ("", root):
        found.append("the root commit")
    return found


def _open_repository(plan: Plan, options: TreeOptions) -> TreeRepository | None:
    """None: the search makes its own. Raises UsageError, EnvironmentFailed."""
    if options.repository in OWN:
        return None
    where = Path(plan.cwd, options.repository or ".")
    name = options.run or plan.name
    return open_repository(where, name, where, options.link_paths)


def _find_root(plan: Plan) -> str:
    """The commit where it starts; empty: it makes its own repository."""
    options = read_options(plan.tree)
    repository = _open_repository(plan, options)
    return Git(repository).resolve(options.root) if repository else ""


def prepare_search(plan: Plan, state_dir: Path) -> Plan:
    """The plan of a new search, whose repository is ready for it, under a name that no
    search has and without refs: one of the command line is refused where it has some,
    the config's gets a number. Raises ValidationFailed, UsageError, EnvironmentFailed.
    """
    options = read_options(plan.tree)
    _require_parts(options)
    _require_baseline(plan, options)
    repository = _open_repository(plan, options)
    if repository is None:
        return plan
    check_repository(repository, state_dir)
    _require_sweep(plan, options, repository)
    if options.ideas.dir and not Path(repository.top, options.ideas.dir).is_dir():
        hint = "It is looked for from the top of the repository."
        raise UsageError(
            "there is no such directory", f"tree.ideas.dir: {options.ideas.dir}", hint
        )
    if any(one.lstrip("+").startswith("tree.run=") for one in plan.overrides):
        require_unused_run(Git(repository))
        return plan
    wanted = repository.run
    tries = (wanted if at == 1 else f"{wanted}-{at}" for at in count(1))
    taken = {one.name for one in _list_runs(state_dir)}
    free = (
        one
        for one in tries
        if one not in taken and not list_refs(Git(replace(repository, run=one)))
    )
    return replace(plan, tree={**plan.tree, "run": next(free)})


def _require_parts(options: TreeOptions) -> None:
    """Refuse a search of which a part has nobody who does it."""
    ideas, measured = options.ideas, options.evaluate
    parts = (
        ("ideas", ideas.agent or ideas.command or ideas.dir, "agent, command or dir"),
        ("implement", options.implement.agent, "agent"),
        ("evaluate", measured.command or measured.config_ref, "command or config_ref"),
    )
    problems = [
        Problem("says nobody who does it", f"tree.{name}", hint=f"give it {words}")
        for name, given, words in parts
        if not given
    ]
    if problems:
        raise ValidationFailed("the search cannot begin", problems=tuple(problems))


def _require_baseline(plan: Plan, options: TreeOptions) -> None:
    if options.root_baseline_csv:
        try:
            read_results(Path(plan.cwd, options.root_baseline_csv), options)
        except AutoexpError as error:
            error.where = f"tree.root_baseline_csv: {error.where}"
            raise


def _require_sweep(
    plan: Plan, options: TreeOptions, repository: TreeRepository
) -> None:
    """The plan that measures can be made, from the root commit."""
    if not options.evaluate.config_ref:
        return
    from autoexp_tui.config.planning import ChildPlanner
    from autoexp_tui.evaluation.config_sweep import plan_sweep

    with TemporaryDirectory() as name:
        root, place = repository.top, Path(os.path.realpath(name))
        git = Git(replace(repository, root=place))
        commit = git.resolve(options.root)
        if commit != git.resolve("HEAD"):
            root = add_worktree(git, Place("wt", "0"), commit)
        plan_sweep(
            ChildPlanner(),
            plan,
            options.evaluate,
            top=repository.top,
            root=root,
            directory=place,
        )
