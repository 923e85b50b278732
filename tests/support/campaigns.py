"""Made-up sessions that look like real ones, of any size, the same every time.

Three stages a family (stable, cooldown, evaluate) and one report, in every state that
a job can be in. For screens and benchmarks: nothing here was decided by an engine, so
nothing here proves anything about deciding.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from autoexp_tui.conditions import kinds as condition_kinds
from autoexp_tui.model.rules import Monitoring
from autoexp_tui.model.snapshot import Curve, EngineView, Live, Role, Snapshot
from autoexp_tui.model.specs import Edge, JobSpec, Plan, Resources
from autoexp_tui.model.state import Ask, Attempt, ConditionStatus, JobRecord, Warned
from autoexp_tui.model.states import Cause, JobState, Outcome, Result, why

T0: Final = 1773477660.0
"""14 March 2026, 08:41 UTC: the present of every made-up session."""
STEPS: Final = 60_000
HOUR: Final = 3600.0

RATES: Final = (1e-3, 3e-4, 2e-4, 1e-4, 5e-4, 7e-4, 2e-3, 5e-5)
SIZES: Final = (256, 512, 1024, 2048, 4096)


@dataclass(frozen=True, slots=True)
class Fate:
    """How one job of the story stands."""

    state: JobState
    cause: Cause | None = None
    evidence: str = ""
    exit_code: int | None = None
    stalled: bool = False
    doomed: bool = False


_DONE: Final = Fate(JobState.COMPLETED)
_RUNS: Final = Fate(JobState.RUNNING)
_WAITS: Final = Fate(JobState.WAITING)
_QUEUED: Final = Fate(JobState.QUEUED)
_OOM: Final = Fate(
    JobState.FAILED,
    Cause.OUT_OF_MEMORY,
    "slurmstepd: error: Detected 1 oom_kill event in StepId=48213.17",
    137,
)
_NODE: Final = Fate(JobState.FAILED, Cause.NODE_FAIL)
_ERROR: Final = Fate(JobState.FAILED, Cause.EXIT_CODE, 'KeyError: "rope"', 1)
_STALLS: Final = Fate(JobState.RUNNING, stalled=True)
_DOOMED: Final = Fate(JobState.WAITING, doomed=True)
_SKIPPED: Final = Fate(JobState.SKIPPED, Cause.UPSTREAM)

STORIES: Final[tuple[tuple[int, tuple[Fate, Fate, Fate]], ...]] = (
    (15, (_DONE, _DONE, _DONE)),
    (1, (_DONE, _DONE, _RUNS)),
    (2, (_DONE, _DONE, _WAITS)),
    (6, (_DONE, _RUNS, _WAITS)),
    (3, (_DONE, _QUEUED, _WAITS)),
    (1, (_DONE, _ERROR, _SKIPPED)),
    (2, (_DONE, _NODE, _SKIPPED)),
    (4, (_RUNS, _WAITS, _WAITS)),
    (2, (_STALLS, _WAITS, _WAITS)),
    (2, (_QUEUED, _WAITS, _WAITS)),
)
"""How many families of 38 have which fates: stable, cooldown, evaluate."""
_LARGE: Final = (_OOM, _DOOMED, _WAITS)
"""The fate of every second family with the middle batch size."""


def campaign(
    jobs: int = 124,
    *,
    now: float = T0,
    role: Role = "live",
    names: Sequence[str] = (),
    log_dir: str = "/scratch/dense300m/logs",
) -> Snapshot:
    """A session of about `jobs` jobs, three a family and one report, amid its run;
    `names` are put before the job names, round robin: for hostile ones."""
    maker = _Maker(random.Random(7), now, names, log_dir)
    families = max(1, (jobs - 1) // 3)
    records: list[JobRecord] = []
    for family, story in zip(range(families), _stories(families), strict=False):
        large = SIZES[family // len(RATES) % len(SIZES)] == 1024 and family % 2 == 0
        records += maker.family(family, _LARGE if large else story)
    records.append(maker.report([record.spec for record in records]))
    return _snapshot(records, maker, now, role)


def planned(jobs: int = 10, *, now: float = T0) -> Snapshot:
    """A plan that was opened: nothing was submitted."""
    base = campaign(jobs, now=now, role="plan")
    records = tuple(
        JobRecord(
            spec=record.spec,
            start=(None,) * len(record.spec.start_conditions),
            since=0.0,
        )
        for record in base.jobs
    )
    return replace(
        base,
        seq=0,
        session="",
        jobs=records,
        live=(None,) * len(records),
        warnings=(),
    )


def plan_of(snapshot: Snapshot) -> Plan:
    """The plan of a snapshot that has one."""
    assert snapshot.plan is not None
    return snapshot.plan


def all_done(jobs: int = 10, *, now: float = T0) -> Snapshot:
    """A session whose jobs all completed."""
    base = campaign(jobs, now=now)
    maker = _Maker(random.Random(3), now, (), "/scratch/logs")
    records = tuple(maker.record(record.spec, _DONE, 5 * HOUR) for record in base.jobs)
    live = tuple(maker.live(record, _DONE) for record in records)
    return replace(base, jobs=records, live=live, warnings=(), open=False)


def all_running(jobs: int = 24, *, now: float = T0) -> Snapshot:
    """A session whose jobs all run and go on."""
    base = campaign(jobs, now=now)
    maker = _Maker(random.Random(5), now, (), "/scratch/logs")
    records = tuple(
        maker.record(replace(record.spec, progress_total=STEPS), _RUNS, 2 * HOUR)
        for record in base.jobs
    )
    live = tuple(maker.live(record, _RUNS) for record in records)
    return replace(base, jobs=records, live=live, warnings=())


def _stories(families: int) -> Iterator[tuple[Fate, Fate, Fate]]:
    """The stories in the right proportion, spread evenly."""
    total = sum(weight for weight, _ in STORIES)
    for place in range(families):
        point = (place * 17 % families) * total / families
        for weight, story in STORIES:
            point -= weight
            if point < 0:
                yield story
                break


class _Maker:
    """Makes the records of one session."""

    def __init__(
        self, rng: random.Random, now: float, names: Sequence[str], log_dir: str
    ) -> None:
        self.rng = rng
        self.now = now
        self.names = names
        self.log_dir = log_dir
        self.lives: list[Live | None] = []
        self.edges: list[Edge] = []
        self.warnings: list[Warned] = []
        self.count = 0

    def spec(
        self,
        stage: str,
        family: int,
        conditions: tuple[condition_kinds.Condition, ...],
        upstream: Sequence[JobSpec],
    ) -> JobSpec:
        rate = RATES[family % len(RATES)]
        size = SIZES[family // len(RATES) % len(SIZES)]
        prefix = self.names[self.count % len(self.names)] if self.names else ""
        unique = f"_s{family // 40}" if family >= 40 else ""
        name = f"{prefix}dense300m_lr{rate:g}_bsz{size}{unique}_{stage}"
        parameters: dict[str, object] = {"stage": stage}
        if stage != "report":
            seed = {"train.seed": family // 40} if unique else {}
            parameters = {"optim.lr": rate, "data.bsz": size, **seed, **parameters}
        index = self.count
        self.count += 1
        self.edges += [
            Edge(before=one.name, after=name, mode="waits") for one in upstream
        ]
        return JobSpec(
            name=name,
            index=index,
            stage=stage,
            family=f"f{family}" if stage != "report" else "",
            parameters=parameters,
            overrides=(f"optim.lr={rate:g}", f"data.bsz={size}", f"stage={stage}"),
            command=("python", "-m", "trainer", "train", f"--lr={rate:g}"),
            output_dir=f"/scratch/dense300m/{name}",
            log_dir=f"{self.log_dir}/{name.replace('/', '_')}",
            start_conditions=conditions,
            depends_on=tuple(one.name for one in upstream),
            resources=Resources(gpus=8, time_limit_seconds=8 * HOUR),
            progress_total=None if stage in ("evaluate", "report") else STEPS,
        )

    def family(self, family: int, story: tuple[Fate, Fate, Fate]) -> list[JobRecord]:
        stable = self.spec("stable", family, (), ())
        path = f"{stable.output_dir}/iter_48000/done.txt"
        checkpoint = condition_kinds.FileExists(path=path, writer=stable.name)
        cooldown = self.spec("cooldown", family, (checkpoint,), (stable,))
        ended = condition_kinds.JobStateIs(jobs=(cooldown.name,), state="COMPLETED")
        evaluate = self.spec("evaluate", family, (ended,), (cooldown,))
        records = []
        for spec, fate in zip((stable, cooldown, evaluate), story, strict=True):
            record = self.record(spec, fate, self.rng.uniform(0.6, 5.9) * HOUR)
            self.lives.append(self.live(record, fate))
            records.append(record)
        return records

    def report(self, before: Sequence[JobSpec]) -> JobRecord:
        wanted = [spec for spec in before if spec.stage == "evaluate"]
        prompt, since = "Publish the comparison of all runs?", self.now - 300
        approval = condition_kinds.Approval(prompt=prompt)
        spec = self.spec("report", 0, (approval,), wanted)
        ask = Ask(digest="d1", prompt=prompt, asked_at=since, asked_lived=0.0)
        told = why("asks_you", prompt=prompt)
        status = ConditionStatus(result=Result.WAIT, why=told, since=since)
        self.lives.append(None)
        state = JobState.WAITING
        return JobRecord(spec=spec, state=state, since=since, start=(status,), ask=ask)

    def record(self, spec: JobSpec, fate: Fate, ran: float) -> JobRecord:
        """A record that stands as its fate says, its run `ran` seconds long."""
        started = fate.state not in (JobState.WAITING, JobState.SKIPPED)
        attempts = (self._attempt(spec, fate, ran),) if started else ()
        saved = (
            {"checkpoint_path": f"{spec.output_dir}/iter_30000"} if ran > HOUR else {}
        )
        since = self.now - self.rng.uniform(0.2, 6) * HOUR
        if attempts:
            since = attempts[0].ended_at or attempts[0].began_at or since
        reason, before = None, spec.depends_on[0] if spec.depends_on else ""
        if fate is _QUEUED:
            reason = why("queued", reason="lower priority than 41 jobs in gpu")
        elif fate is _SKIPPED:
            reason = why("upstream", job=before, state="FAILED")
        return JobRecord(
            spec=spec,
            state=fate.state,
            since=since,
            cause=fate.cause,
            why=reason,
            attempts=attempts,
            start=tuple(
                self._status(one, fate, before) for one in spec.start_conditions
            ),
            metadata=saved if attempts else {},
        )

    def _attempt(self, spec: JobSpec, fate: Fate, ran: float) -> Attempt:
        ended = fate.state in (JobState.COMPLETED, JobState.FAILED)
        ended_at = self.now - self.rng.uniform(0.1, 4) * HOUR if ended else None
        began = None if fate.state is JobState.QUEUED else (ended_at or self.now) - ran
        node = "nid002117" if fate is _NODE else f"nid{self.rng.randint(1000, 2400):06}"
        return Attempt(
            number=1,
            token="t7f2",
            ordered_at=self.now - 7 * HOUR,
            executor_id=f"48213_{spec.index}",
            submitted_at=self.now - 7 * HOUR,
            run=0 if began is not None else -1,
            began_at=began,
            node=node if began is not None else "",
            log_path=f"{spec.log_dir}/slurm-48213_{spec.index}.out" if began else "",
            outcome=Outcome(fate.state.value) if ended else None,
            cause=fate.cause,
            exit_code=fate.exit_code if fate.exit_code is not None else 0,
            ended_at=ended_at,
            evidence=fate.evidence,
        )

    def _status(
        self, spec: condition_kinds.Condition, fate: Fate, before: str
    ) -> ConditionStatus:
        since = self.now - HOUR
        if fate.state not in (JobState.WAITING, JobState.SKIPPED):
            return ConditionStatus(result=Result.PASS, why=why("ok"), since=since)
        if fate.doomed and isinstance(spec, condition_kinds.FileExists):
            told = why(
                "doomed_file", path=spec.path, writer=before, state="FAILED", step=31200
            )
            return ConditionStatus(result=Result.FAIL, why=told, since=since)
        if isinstance(spec, condition_kinds.FileExists):
            more: dict[str, Any] = {"newest": "iter_7200", "age": 40}
            told = why("file_missing", path=spec.path, writer=before, **more)
        else:
            told = why("job_waits", job=before, wanted="COMPLETED", state="RUNNING")
        return ConditionStatus(result=Result.WAIT, why=told, since=since)

    def live(self, record: JobRecord, fate: Fate) -> Live | None:
        """What the log of a job with an attempt said last."""
        attempt = record.attempt
        if attempt is None or attempt.began_at is None:
            return None
        done = fate.state is JobState.COMPLETED
        step = STEPS if done else self.rng.randint(300, 590) * 100
        step = 31_200 if fate is _OOM else step
        curve = loss_curve(step, self.rng)
        last = self.now - (52 * 60 if fate.stalled else self.rng.uniform(1, 20))
        running, told = fate.state is JobState.RUNNING, {"loss": curve.values[-1]}
        return Live(
            step=step,
            total=STEPS,
            rate=2.6 if running and not fate.stalled else None,
            metrics={**told, "lr": 1e-3, "tokens_per_second": 40020.0},
            curves={"loss": curve, "lr": _schedule(step)},
            trend=curve.values[-8:],
            last_step_at=last,
        )


def loss_curve(step: int, rng: random.Random) -> Curve:
    """A loss that falls as losses do, with noise."""
    at = [max(1, step * (place + 1) // 64) for place in range(64)]
    values = [2.4 + 6.0 / math.sqrt(1 + one / 60) + rng.gauss(0, 0.015) for one in at]
    return Curve(tuple(at), tuple(values))


def _schedule(step: int) -> Curve:
    at = tuple(step * place // 16 for place in range(17))
    return Curve(at, tuple(1e-3 * min(1.0, one / 2000) for one in at))


def _snapshot(
    records: Sequence[JobRecord], maker: _Maker, now: float, role: Role
) -> Snapshot:
    plan = Plan(
        plan_id="p1",
        name="dense300m",
        config_ref="exp",
        state_dir="/scratch/state",
        jobs=tuple(record.spec for record in records),
        edges=tuple(maker.edges),
        monitoring=Monitoring(doomed="hold"),
    )
    return Snapshot(
        seq=4211,
        t=now,
        session="k7f2",
        name="dense300m",
        plan=plan,
        started_at=now - 9 * HOUR,
        paused=None,
        engine=EngineView(
            role=role,
            epoch=1,
            host="login1",
            pid=4242,
            committed_at=now,
            executor="slurm",
            executor_answered_at=now - 14,
            slots=16,
        ),
        jobs=tuple(records),
        live=tuple(maker.lives),
        warnings=tuple(maker.warnings),
    )
