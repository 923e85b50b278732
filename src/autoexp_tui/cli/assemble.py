"""Builds an engine out of its adapters: a new session from a plan, or an old one.

The only place that knows every port's adapter. Everything slow is imported when it is
used, so that commands start fast.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from autoexp_tui import __version__
from autoexp_tui.cli.executors import (
    find_beside_parallel,
    find_offer,
    is_for_slurm,
    make_beside,
    make_evidence,
    make_executor,
    require_executor,
)
from autoexp_tui.cli.options import Options, find_state_dir
from autoexp_tui.config.planning import ChildPlanner
from autoexp_tui.engine.executor_port import Submission
from autoexp_tui.engine.loop import Engine
from autoexp_tui.engine.ports import (
    HEARTBEAT_SECONDS,
    FoundWork,
    Lease,
    Parts,
    Planner,
    Pool,
    PoolKey,
)
from autoexp_tui.events import events
from autoexp_tui.executors.local.start import (
    find_wrapper_problem,
    hash_wrapper,
    install_wrapper,
    read_wrapper_version,
)
from autoexp_tui.executors.local_actions import LocalErrands
from autoexp_tui.executors.routing import RoutingExecutor
from autoexp_tui.model.decision_context import SchedulingPolicy
from autoexp_tui.model.errors import AutoexpError, UsageError
from autoexp_tui.model.masking import Share, mask_text
from autoexp_tui.model.outputs import DoneWork
from autoexp_tui.model.resubmission import is_of_attempt
from autoexp_tui.model.snapshot import Live, Snapshot
from autoexp_tui.model.specs import JobSpec, Plan
from autoexp_tui.model.state import SessionState
from autoexp_tui.probes import file_watcher as files
from autoexp_tui.probes.clock import SystemClock
from autoexp_tui.probes.fact_source import OutsideFacts
from autoexp_tui.probes.file_watcher import has_record
from autoexp_tui.probes.log_reader import LogReader, note_lengths
from autoexp_tui.probes.pools import Mounts, ThreadPool
from autoexp_tui.storage import done_file, provenance
from autoexp_tui.storage import output_dir_lock as owners
from autoexp_tui.storage.atomic import MODES, SESSION_MODES, make_directory
from autoexp_tui.storage.checkpoint_files import CheckpointFiles
from autoexp_tui.storage.inbox import FileInbox
from autoexp_tui.storage.journal import StoredPlans
from autoexp_tui.storage.journal_writer import FileJournal
from autoexp_tui.storage.lease import FileLease, LeaseWatch, take_lease
from autoexp_tui.storage.live_sink import FileLiveSink
from autoexp_tui.storage.session_dir import SessionDir, require_ground
from autoexp_tui.storage.sessions import create_session
from autoexp_tui.storage.trust import find_session_user
from autoexp_tui.storage.user_files import note_place

if TYPE_CHECKING:
    from autoexp_tui.consultation.disk_laboratory import DiskLaboratory

T = TypeVar("T")
Listener = Callable[[Snapshot], None]
_PORTION = 200
"""Jobs in one record of the journal: a line need not hold 10,000."""


def start_session(plan: Plan, listener: Listener, options: Options) -> Engine:
    """Create a session for `plan` and an engine that has begun; raises SessionOwned
    where a living session writes one of the output directories, and AutoexpError where
    its policy cannot begin."""
    state_dir = find_state_dir(options, plan.state_dir)
    if plan.tree:
        from autoexp_tui.cli.tree_runs import prepare_search

        plan = prepare_search(plan, state_dir)
    if plan.research:
        _build_laboratory(SessionDir(state_dir / "new"), plan, ChildPlanner()).check()
    work = find_work(plan, owners.Living(), force=options.force)
    require_executor(plan)
    session = create_session(state_dir, share=plan.share)
    note_place(session.state_dir)
    own = plan.tree.get("lock_stale_seconds")
    told = isinstance(own, int | float) and own
    stale_seconds = float(told or plan.monitoring.lock_stale_seconds)
    lease = take_lease(session, SystemClock(), stale_seconds=stale_seconds)
    with _own(session, lease, listener, options) as owned:
        sha = owned.journal.add_plan(plan)
        plans = StoredPlans(session)
        plans[sha] = plan
        wrapper = install_wrapper(session.path)
        engine = owned.build_engine(SessionState(plans=plans), plan)
        started = events.SessionStarted(
            session=session.id,
            name=plan.name,
            engine_version=__version__,
            wrapper_version=read_wrapper_version(wrapper),
            plan_sha=sha,
        )
        begun = owned.build_engine_started(wrapper)
        engine.begin(
            [
                *(started, begun, events.PlanAdded(sha=sha)),
                *(events.DoneFound(works=some) for some in _portion(work.done)),
                *(
                    events.ForeignFilesFound(jobs=some)
                    for some in _portion(work.foreign)
                ),
                *list_first_policies(plan),
            ]
        )
        return engine


def find_work(
    plan: Plan,
    living: owners.Living,
    upstream: Sequence[JobSpec] = (),
    *,
    force: bool = False,
) -> FoundWork:
    """What lies in the directories of a plan's jobs; `upstream`: others that they build
    on. Raises SessionOwned where a living session writes one of them."""
    whole = replace(plan, jobs=(*upstream, *plan.jobs))
    found = {} if force else done_file.check_done(whole).done
    done = {job.name: found[job.name] for job in plan.jobs if job.name in found}
    foreign = []
    for spec in plan.jobs:  # those of which the directories hold other work
        if spec.name not in done:
            owner = owners.require_free(Path(spec.output_dir), living, plan.share)
            is_other = owner and owner.fingerprint not in ("", spec.fingerprint)
            if owner and (force or is_other):
                foreign.append(spec.name)
    return FoundWork(done=tuple(done.values()), foreign=tuple(foreign))


def resume_session(
    session: SessionDir,
    listener: Listener,
    options: Options,
    *,
    wait: float = 0.0,
    watch: LeaseWatch | None = None,
    force: bool = False,
) -> Engine:
    """Take over a session whose engine is gone, or lets go within `wait` seconds, or
    whatever it does by `force`; raises SessionOwned where another lives.

    `watch`: what has looked at its lease before, and seen who is still.
    """
    clock = SystemClock()
    lease = take_lease(session, clock, wait=wait, watch=watch, force=force)
    with _own(session, lease, listener, options) as owned:
        loaded = owned.journal.load()
        state = loaded.state
        if state.plan is None:
            raise UsageError(
                f"session {session.id} was never begun: it has no plan",
                hint=f"`autoexp-sessions clean {session.id}` removes it.",
            )
        changed = find_wrapper_problem(session.path, state.wrapper_sha256)
        wrapper = install_wrapper(session.path, state.wrapper_sha256)
        away = state.measure_seconds_until(SystemClock().utc())
        unrecorded = 0.0
        with suppress(OSError):  # else the record is all that is known of it
            # Both times are the file system's: its last sign of life, its last write.
            lived = os.stat(session.lease / f"{state.epoch}.json").st_mtime
            wrote = os.stat(session.path / owned.journal.seal.part).st_mtime
            unrecorded = min(max(0.0, lived - wrote), away)
        engine = owned.build_engine(state, state.plan, unrecorded)
        engine.note_recent(loaded.events)
        torn, part = owned.journal.torn, owned.journal.seal.part
        notices = [f"{session.path / part}: {torn}"] if torn else []
        if changed:
            notices.append(f"{wrapper} was replaced by the installed one: {changed}")
        started = owned.build_engine_started(wrapper, away - unrecorded)
        logged = [events.MessageLogged(text=text, level="warning") for text in notices]
        engine.begin([started, *logged])
        return engine


def _portion(values: Iterable[T]) -> Iterator[tuple[T, ...]]:
    rest = iter(values)
    return iter(lambda: tuple(islice(rest, _PORTION)), ())


@dataclass(frozen=True, slots=True)
class _Owned:
    """A session whose lease is ours, and what its engine is built from."""

    session: SessionDir
    lease: FileLease
    journal: FileJournal
    listener: Listener
    options: Options

    def build_engine_started(
        self, wrapper: Path, gap: float = 0.0
    ) -> events.EngineStarted:
        return events.EngineStarted(
            host=socket.gethostname(),
            pid=os.getpid(),
            engine_version=__version__,
            sealed_part=self.journal.seal.part,
            sealed_bytes=self.journal.seal.bytes,
            gap_seconds=gap,
            wrapper_sha256=hash_wrapper(wrapper),
        )

    def build_engine(
        self, state: SessionState, plan: Plan, unrecorded: float = 0.0
    ) -> Engine:
        """An engine that watches the session's files, and has not begun."""
        session, clock = self.session, SystemClock()
        main, beside = make_executor(plan, session), make_beside(plan, session)
        note = partial(log_fault, session.engine_log)
        pools: dict[PoolKey, Pool] = {n: ThreadPool(n, m) for n, m in _POOLS.items()}
        sink = FileLiveSink(session, clock)
        watchers = (
            files.FileWatcher(
                [str(session.attempts)],
                lambda paths: engine.nudge_executor() if has_record(paths) else None,
                debounce_ms=files.RECORD_DEBOUNCE_MS,
            ),
            files.FileWatcher(
                {os.path.dirname(spec.log_dir) for spec in plan.jobs},
                lambda paths: engine.nudge_files(paths),
                debounce_ms=files.LOG_DEBOUNCE_MS,
            ),
        )

        def close() -> None:
            for watcher in watchers:
                watcher.stop()
            sink.close()
            for pool in pools.values():
                pool.close()

        lease: Lease = self.lease
        beat = HEARTBEAT_SECONDS
        if plan.tree:
            from autoexp_tui.evaluation.disk_trees import ShownLease
            from autoexp_tui.tree.options import read_options

            beat = read_options(plan.tree).heartbeat_seconds
            lease = ShownLease(lease, session.path / "tree")
        seen: list[Snapshot] = []

        def listen(snapshot: Snapshot) -> None:
            seen[:] = [snapshot]
            self.listener(snapshot)

        def read_live() -> Mapping[str, Live]:
            pairs = (
                (job, live)
                for one in seen
                for job, live in zip(one.jobs, one.live, strict=False)
            )
            return {job.name: live for job, live in pairs if live is not None}

        planner = ChildPlanner(state_dir=str(session.state_dir))
        sweeps: Any = plan.tree.get("sweep_max_parallel")
        given = (plan.executor.max_parallel, main.slots, sweeps)
        limits = [n for n in given if n]
        parts = Parts(
            clock=clock,
            journal=self.journal,
            lease=lease,
            heartbeat_seconds=beat,
            inbox=FileInbox(
                session, lambda name, reason: note(f"inbox: {name}: {reason}")
            ),
            live_sink=sink,
            executor=RoutingExecutor(main, beside),
            beside=beside,
            facts=OutsideFacts(clock),
            logs=LogReader(),
            planner=planner,
            preparation=Ground(session, plan.share),
            checkpoints=CheckpointFiles(),
            errands=LocalErrands(MODES[plan.share]),
            adapters=build_adapters(session, plan, planner, read_live),
            pools=pools,
            attempt_dir=session.get_attempt,
            store_plan=session.save_plan,
            load_plan=session.load_plan,
            evidence=make_evidence(plan, session),
            place_of=Mounts(clock).find,
            policy=SchedulingPolicy(
                auto_approve=self.options.approve,
                slots=min(limits, default=0),
                beside_slots=find_beside_parallel(plan),
                place=main.name,
                has_nodes=is_for_slurm(plan),
                briefly=self.options.briefly,
            ),
            log_fault=note,
            close=close,
            directory=session.path,
            log_file=str(session.engine_log),
            gpus=find_offer(plan)[1],
        )
        engine = Engine(state, parts, listen, unrecorded=unrecorded)
        for watcher in watchers:
            watcher.start()
        return engine


def build_adapters(
    session: SessionDir,
    plan: Plan,
    planner: Planner,
    read_live: Callable[[], Mapping[str, Live]],
) -> Mapping[str, Any]:
    """What the policies of a plan reach outside, by their names; `read_live`: what the
    runs have told by now. Logs lie in the policy's directory: colleagues who watch go
    through it, but not into what it keeps beside them."""
    mode = SESSION_MODES[plan.share].directory
    if plan.research:
        from autoexp_tui.research.ports import ADAPTER as RESEARCH

        laboratory = _build_laboratory(session, plan, planner, read_live)
        make_directory(laboratory.directory, mode)
        return {RESEARCH: laboratory}
    if not plan.tree:
        return {}
    from autoexp_tui.evaluation.disk_trees import DRY_RUN, DiskTrees, DryTrees
    from autoexp_tui.tree.ports import ADAPTER

    kind = DryTrees if plan.tree.get("repository") == DRY_RUN else DiskTrees
    directory = session.path / "tree"
    make_directory(directory, mode)  # by which another start knows that it is a search
    trees = kind(
        directory=directory, state_dir=session.state_dir, plan=plan, planner=planner
    )
    return {ADAPTER: trees}


def _build_laboratory(
    session: SessionDir,
    plan: Plan,
    planner: Planner,
    read_live: Callable[[], Mapping[str, Live]] = dict,
) -> DiskLaboratory:
    from autoexp_tui.consultation.disk_laboratory import DiskLaboratory

    return DiskLaboratory(
        directory=session.path / "research",
        state_dir=session.state_dir,
        session=session.id,
        plan=plan,
        planner=planner,
        read_live=read_live,
        count_gpus=lambda: find_offer(plan)[1] or 0,
    )


def list_first_policies(plan: Plan) -> Iterator[events.Event]:
    """What begins the policies that a plan asks for."""
    if plan.tree:
        from autoexp_tui.tree.events import TreeBegun

        yield TreeBegun(run=str(plan.tree.get("run") or plan.name))
    if plan.research:
        from autoexp_tui.research.events import ResearchBegun

        yield ResearchBegun()


@contextmanager
def _own(
    session: SessionDir, lease: FileLease, listener: Listener, options: Options
) -> Iterator[_Owned]:
    """The session with its journal open; the lease is released when what it is for
    fails."""
    try:
        note = partial(log_fault, session.engine_log)
        journal = FileJournal(session, lease, log_fault=note)
        yield _Owned(session, lease, journal, listener, options)
    except BaseException:
        with suppress(AutoexpError):
            lease.release()
        raise


_POOLS: dict[PoolKey, int] = {
    "poll": 2,
    "executor": 16,
    "files": 32,
    "logs": 32,
    "command": 16,
    "house": 1,
    "planner": 2,
    "errand": 2,
    "evidence": 4,
}
"""The most threads of each pool; they start when they are needed. Of files and logs
each file system has one at a time, and a few more when it hangs (see
`engine.poller`); of submissions a few (`engine.dispatcher`); of commands a few
run at a time, the rest is for those that hang."""


@dataclass(slots=True)
class Ground:
    """What must be on disk before jobs are sent. Implements `ports.Preparation`."""

    session: SessionDir
    share: Share = "private"
    _living: owners.Living = field(default_factory=owners.Living)
    _records: dict[str, provenance.ProvenanceRecord | None] = field(
        default_factory=dict
    )
    """By plan id, as they were first asked for."""

    def prepare(
        self,
        submission: Submission,
        specs: Sequence[JobSpec],
        plans: Sequence[Plan | None],
    ) -> None:
        """Own the output directories and keep how each job came to be; raises
        AutoexpError."""
        for task, spec, plan in zip(submission.tasks, specs, plans, strict=True):
            directory = Path(spec.output_dir)
            share: Share = plan.share if plan is not None else "private"
            require_ground(spec, plan.base_output_dir if plan else "", share)
            mode = MODES[share].directory
            make_directory(directory / ".autoexp", mode, place="output")
            make_directory(Path(spec.log_dir), mode, place="logs")
            owner = self._build_owner(spec)
            owners.take_ownership(directory, owner, self._living, share)
            left = done_file.read_done(directory, share)
            if left is None or not is_of_attempt(
                left, submission.session, task.attempt
            ):
                done_file.forget_done(directory)
            if plan is not None:
                provenance.write_provenance(plan, spec, self._find_record(plan, spec))
        for task in submission.tasks:
            note_lengths(Path(task.attempt_dir), task.metric_places)

    def find_work(
        self, plan: Plan, upstream: Sequence[JobSpec], *, force: bool
    ) -> FoundWork:
        """What there is of a plan that is to join; raises SessionOwned."""
        return find_work(plan, self._living, upstream, force=force)

    def _find_record(
        self, plan: Plan, spec: JobSpec
    ) -> provenance.ProvenanceRecord | None:
        if spec.trial:
            from autoexp_tui.evaluation.origin import find_origin

            if (made := find_origin(spec)) is not None:
                return made
        is_of_one = spec.planned is not None or not plan.config_ref
        if spec.config_record and is_of_one:  # not worth holding
            return provenance.load_record(Path(spec.config_record))
        if plan.plan_id not in self._records:
            found = provenance.record_of(plan, self.session.state_dir)
            self._records[plan.plan_id] = found
        return self._records[plan.plan_id]

    def note_done(self, spec: JobSpec, work: DoneWork) -> None:
        """Leave word that the job's work is done, while the directory is ours; raises
        AutoexpError where the disk refused."""
        directory = Path(spec.output_dir)
        owner = owners.read_owner(directory, self.share)
        if owner is not None and owner.same_session(self._build_owner(spec)):
            done_file.write_done(directory, work, MODES[self.share].file)

    def _build_owner(self, spec: JobSpec) -> owners.Owner:
        return owners.Owner(
            session=self.session.id,
            state_dir=str(self.session.state_dir),
            job=spec.name,
            fingerprint=spec.fingerprint,
        )


def log_fault(path: Path, text: str) -> None:
    """Append a traceback to a session's log; a disk that refuses is no further fault.

    Nothing is written into the session of somebody else.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        if find_session_user(path.parent):
            return
        handle = os.open(path, flags, 0o600)
    except OSError:
        return
    with os.fdopen(handle, "a", encoding="utf-8", errors="replace") as file:
        file.write(mask_text(text).rstrip() + "\n\n")
