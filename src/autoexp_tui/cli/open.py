"""From the command line to a plan or a session, the same way for every command, and
the yes that a large submission needs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from autoexp_tui.cli.diagnostics import say
from autoexp_tui.cli.options import (
    DEFAULT_CONFIG,
    Options,
    find_state_dir,
    name_session,
)
from autoexp_tui.model.errors import (
    AutoexpError,
    JournalDamaged,
    NotConfirmed,
    SessionOwned,
    UsageError,
)

if TYPE_CHECKING:
    from autoexp_tui.config.planning import PlanningAnswer, PlanningRequest
    from autoexp_tui.engine.live import LiveHandle, ViewerHandle
    from autoexp_tui.engine.replay import ReplayHandle
    from autoexp_tui.engine.session_handle import SessionHandle
    from autoexp_tui.model.outputs import DoneWork
    from autoexp_tui.model.specs import Plan
    from autoexp_tui.storage.lease import LeaseWatch
    from autoexp_tui.storage.session_dir import SessionDir

_FIRST_RECORDS = 250
"""Of a replay's journal: they are read before the screen comes, the rest behind it."""
_LOCAL = "++slurm.client.class_name=LocalClient"
_BEYOND = 10**18
"""No journal has so many records."""


def build_request(options: Options) -> PlanningRequest:
    """What the planning process is asked for these options."""
    from autoexp_tui.config.planning import PlanningRequest

    return PlanningRequest(
        config_ref=options.config_ref or DEFAULT_CONFIG,
        config_dir=options.config_dir,
        overrides=(*options.overrides, *([_LOCAL] if options.local else [])),
        state_dir=options.state_dir,
        now=time.time(),
    )


def ask_plan(
    options: Options, *, points: bool = False, sweep: str = "", report: bool = False
) -> PlanningAnswer:
    """Ask the planning process, or read what is planned; findings are in the result.

    With `report`, a process that plans gives the plan as `autoexp-plan` writes it.
    """
    from autoexp_tui.config.planning import PlanningAnswer, run_planning

    if options.manifest or options.session:  # validated once more
        from autoexp_tui.planning.validate import validate_execution_plan
        from autoexp_tui.storage.manifests import read_manifest

        given = "--manifest" if options.manifest else "--session"
        refuse_overrides(options, given)
        if points:
            raise UsageError(
                f"--points and --sweep expand a config; {given} is a finished plan",
                hint=f"Leave {given} away, or the other.",
            )
        path = options.manifest or str(find_session(options).plan)
        plan = read_manifest(Path(path))
        errors = validate_execution_plan(plan).errors
        read = PlanningAnswer(plan=plan, errors=errors, warnings=plan.warnings)
        return replace(read, manifest=path, failed="plan" if errors else "")
    request = replace(
        build_request(options),
        want="points" if points else "plan",
        sweep_file=sweep,
        keep=not points,
        report=report,
    )
    return run_planning(request)


def make_plan(options: Options) -> tuple[Plan, Mapping[str, Any] | None]:
    """The plan of a manifest that nobody else has written, or of the config, made in
    the planning process, with what changed since the last one; raises AutoexpError
    where it cannot be read, composed or validated."""
    from autoexp_tui.config.planning import run_planning
    from autoexp_tui.storage.manifests import read_manifest

    if options.manifest:
        refuse_overrides(options, "--manifest")
        plan, changes = read_manifest(Path(options.manifest), run=True), None
    else:
        result = run_planning(replace(build_request(options), keep=True))
        result.raise_errors()
        assert result.plan is not None
        plan, changes = result.plan, result.changes
    _require_stages(plan, options)
    return plan, changes


def refuse_overrides(options: Options, given: str) -> None:
    """Overrides compose a new plan: beside one that is made they would do nothing;
    raises UsageError."""
    if options.overrides:
        raise UsageError(
            f"{given} takes no overrides: its plan is made already",
            where=options.overrides[0],
            hint="Plan anew with --config-ref; R in the cockpit retries one job "
            "with overrides.",
        )


def _require_stages(plan: Plan, options: Options) -> None:
    from autoexp_tui.model.policy import list_ask_names

    stages = sorted({job.stage for job in plan.jobs})
    unknown = options.approve - {"*"} - set(stages)
    asks = list_ask_names() if unknown else frozenset()
    if unknown := unknown - asks:
        questions = f"; questions: {', '.join(sorted(asks))}" if asks else ""
        raise UsageError(
            f"--approve: the plan has no stage {min(unknown)!r}",
            hint=f"stages: {', '.join(stages)}{questions}; or all, or none",
        )


def open_chosen(
    options: Options, *, first_family: bool
) -> tuple[LiveHandle, tuple[str, ...]]:
    """A handle on a new plan, and which of its jobs go first; empty: all go."""
    plan, _ = make_plan(options)
    chosen = choose_jobs(plan, options, first_family=first_family)
    return open_plan(plan, options), chosen


def choose_jobs(plan: Plan, options: Options, *, first_family: bool) -> tuple[str, ...]:
    """Which jobs go first, once what they may cost is confirmed; empty: all go.

    With `first_family` those of the first one that has not done all its work. Raises
    NotConfirmed where nobody said yes to what is above the bounds.
    """
    from autoexp_tui.planning.dag import find_first_family

    chosen: tuple[str, ...] = ()
    if first_family:
        chosen = find_first_family(plan, frozenset(_find_done(plan, options)))
    confirm(plan, options, frozenset(chosen) if first_family else None)
    return chosen


def confirm(
    plan: Plan,
    options: Options,
    going: Container[str] | None = None,
    *,
    asks: bool = True,
) -> None:
    """Return once somebody has said yes, with --yes or at the terminal, to what is
    above the plan's bounds; raises NotConfirmed where nobody did.

    `going`: the jobs that go now; None: all. Without `asks` a screen has the terminal.
    """
    from autoexp_tui.planning.estimate import estimate, read_bounds
    from autoexp_tui.text.spelling import plural

    bounds = read_bounds(plan)
    jobs = [job for job in plan.jobs if going is None or job.name in going]
    if options.yes or not bounds.find_excess(estimate(jobs)):
        return
    done = _find_done(plan, options)
    found = estimate([job for job in jobs if job.name not in done])
    above = bounds.describe(found)
    if not above:
        return
    if found.without_limit and found.gpus:
        above.append(f"{plural(len(found.without_limit), 'job')} without a time limit")
    what = f"{'this' if asks else '--submit'} submits {'; '.join(above)}"
    if not (asks and sys.stdin.isatty() and sys.stderr.isatty()):
        hint = "Add --yes to do it; `slurm.confirm` in the config has the bounds."
        raise NotConfirmed(what, hint=hint)
    say(f"{what[:1].upper()}{what[1:]}.")
    print("Submit? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise NotConfirmed("not submitted", hint="Nothing was started.")


def _find_done(plan: Plan, options: Options) -> Mapping[str, DoneWork]:
    from autoexp_tui.storage.done_file import check_done

    return {} if options.force else check_done(plan).done


def open_plan(plan: Plan, options: Options) -> LiveHandle:
    """A handle on a plan that nobody has submitted."""
    from autoexp_tui.cli.assemble import start_session
    from autoexp_tui.cli.executors import find_offer
    from autoexp_tui.engine.live import LiveHandle

    slots, gpus = find_offer(plan)
    return LiveHandle(
        plan=plan,
        slots=slots,
        gpus=gpus,
        done=_find_done(plan, options),
        start=lambda plan, listener: start_session(plan, listener, options),
        **_build_reach(find_state_dir(options, plan.state_dir)),
    )


def begin_plan(plan: Plan, options: Options, by: str) -> LiveHandle:
    """A handle on a new session that a command has begun."""
    from autoexp_tui.model.commands import Submit

    handle = open_plan(plan, options)
    handle.send(Submit(), by=by)
    handle.wait_begun()
    return handle


def _build_reach(state_dir: Path) -> dict[str, Any]:
    """What handles on sessions of a state dir are given: a reader of older records, and
    who sends commands."""
    from autoexp_tui.storage.inbox import describe_sender
    from autoexp_tui.storage.journal import list_earlier

    return {"earlier": list_earlier, "identify": lambda: describe_sender(state_dir)}


def find_session(options: Options, session_id: str = "") -> SessionDir:
    """The session that `--session` names, or an id, or the beginning of one; raises
    UsageError where there is none or are several, EnvironmentFailed where it cannot be
    read."""
    from autoexp_tui.storage.sessions import find_session

    if not session_id:
        refuse_overrides(options, "--session")
    return find_session(list_places(options), session_id or options.session)


def list_places(options: Options) -> tuple[Path, ...]:
    """The state directories to look for sessions in: one that was chosen, alone."""
    from autoexp_tui.storage.user_files import list_places

    place = find_state_dir(options)
    return (place,) if options.state_dir else list_places(place)


def require_person(what: str, state_dir: Path) -> None:
    """This process is no job's; raises NotConfirmed."""
    from autoexp_tui.storage.inbox import describe_sender

    if job := describe_sender(state_dir).job:
        raise NotConfirmed(
            f"{what}: this process is a job's ({job}), and only a person may answer",
            hint="Answer from a cockpit or a shell of your own.",
        )


Begin: TypeAlias = Callable[["LiveHandle"], object]


def _begin_at_once(_engine: LiveHandle) -> None:
    """An engine that is told nothing first."""


class SessionOpener:
    """The ways into sessions. Implements `session_handle.SessionEntry`.

    The same eyes watch a lease throughout: a heartbeat elsewhere counts as still only
    for who has seen it stand.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._watches: dict[str, LeaseWatch] = {}

    def enter(
        self, directory: str, begin: Begin = _begin_at_once
    ) -> LiveHandle | ViewerHandle:
        """Run the session if it is free, as `own` does, else watch it."""
        try:
            return self.own(directory, begin=begin)
        except SessionOwned:
            return self.view(directory)

    def own(
        self,
        directory: str,
        wait: float = 0.0,
        begin: Begin = _begin_at_once,
        *,
        force: bool = False,
    ) -> LiveHandle:
        """Run the session in this process; another engine has `wait` seconds to let go,
        and by `force` is deposed. What `begin` sends comes before anything else is
        decided. Raises SessionOwned where another lives, NotConfirmed where a job
        approves."""
        from autoexp_tui.cli.assemble import resume_session
        from autoexp_tui.engine.live import LiveHandle

        session, watch = self._find(directory)
        if self._options.approve:
            require_person("--approve", session.state_dir)
        handle = LiveHandle(**_build_reach(session.state_dir))
        publish, options = handle.publish, self._options
        engine = resume_session(
            session, publish, options, wait=wait, watch=watch, force=force
        )
        handle.attach(engine, partial(begin, handle))
        try:
            if (plan := handle.snapshot().plan) is not None:
                _require_stages(plan, options)
        except UsageError:
            handle.close()
            raise
        return handle

    def view(self, directory: str, *, read_only: bool = False) -> ViewerHandle:
        """Watch the session; read-only when it is another user's."""
        from autoexp_tui.engine.live import ViewerHandle
        from autoexp_tui.probes.clock import SystemClock
        from autoexp_tui.storage.live_sink import FileSessionWatcher

        session, watch = self._find(directory)
        clock, user = SystemClock(), session.find_user()
        return ViewerHandle(
            FileSessionWatcher(session, clock, lease=watch),
            clock,
            read_only=read_only or bool(user),
            directory=directory,
            user=user,
            **_build_reach(session.state_dir),
        )

    def join(self, directory: str, begin: Begin = _begin_at_once) -> SessionHandle:
        """Run the session if it is free, as `own` does; else watch it, and go on once
        its engine has gone; raises AutoexpError where the session cannot be read."""
        from autoexp_tui.engine.session_handle import SessionHandle

        handle = SessionHandle(lambda: self.enter(directory, begin), self)
        handle.open_now()
        if self._options.approve and handle.role == "viewer":
            where = name_session(Path(directory))
            say("--approve counts once this process runs the session; now it watches.")
            say(f"Answer what asks now: `autoexp-sessions approve {where}`")
        return handle

    def _find(self, directory: str) -> tuple[SessionDir, LeaseWatch]:
        from autoexp_tui.storage.lease import LeaseWatch
        from autoexp_tui.storage.session_dir import SessionDir

        session = SessionDir(Path(directory))
        if directory not in self._watches:
            self._watches[directory] = LeaseWatch(session)
        return session, self._watches[directory]


def open_replay(session: SessionDir, *, speed: float) -> ReplayHandle:
    """A handle that plays a session's journal, as much of it as there is now; raises
    JournalDamaged or EnvironmentFailed."""
    from autoexp_tui.cli.assemble import log_fault
    from autoexp_tui.engine.replay import ReplayBuffer, ReplayHandle
    from autoexp_tui.probes.clock import SystemClock
    from autoexp_tui.storage.journal import (
        DOES_NOT_FOLLOW,
        StoredPlans,
        list_earlier,
        read_session,
    )

    buffer = ReplayBuffer(
        read_session(session), StoredPlans(session), user=session.find_user()
    )
    try:
        buffer.read(_FIRST_RECORDS)
    except DOES_NOT_FOLLOW as error:
        raise JournalDamaged(
            f"record {len(buffer) + 1} does not follow from those before it: {error}",
            str(session.path),
            f"`autoexp-sessions check {session.id}` says more.",
        ) from error
    with suppress(AutoexpError):  # met again, and told, where the reading comes to it
        for newest in list_earlier(str(session.path), _BEYOND, 1):
            buffer.expected = (newest.seq, newest.t)
    note = partial(log_fault, session.engine_log)
    return ReplayHandle(buffer, SystemClock(), speed=speed, log_fault=note)
