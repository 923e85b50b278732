"""What a simulated campaign is to do, from one seed: its plan, and each run's script.

Families of stages with every kind of wait, crashes that are restarted, and runs that
are requeued, killed or vanish. Nothing is run here.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from autoexp_tui.core.specs import (
    Approval,
    Cooldown,
    Edge,
    FileExists,
    JobSpec,
    JobStateIs,
    LogEvent,
    LogPattern,
    MaxAttempts,
    MetadataIs,
    Monitoring,
    Plan,
    Restart,
    StateEvent,
)
from autoexp_tui.testing.fake_script import RunScript, Write


def make_plan(rng: random.Random) -> Plan:
    """Families of stages with every kind of wait, and a fan-in at the end."""
    families = rng.randint(1, 4)
    specs: list[JobSpec] = []
    edges: list[Edge] = []
    for family in range(families):
        _add_family(specs, edges, family, rng)
    report = _job(
        "report",
        len(specs),
        "report",
        tuple(f"eval{f}" for f in range(families)),
        start_conditions=(
            JobStateIs(
                jobs=tuple(f"eval{f}" for f in range(families)), state="COMPLETED"
            ),
            Approval(prompt="go on?"),
        ),
    )
    specs.append(report)
    edges += [Edge(before=b, after="report", mode="waits") for b in report.depends_on]
    return Plan(
        plan_id="sim",
        name="sim",
        state_dir="/state",
        jobs=tuple(specs),
        edges=tuple(edges),
        monitoring=_rules(rng),
    )


def _rules(rng: random.Random) -> Monitoring:
    restart = Restart(
        reason="crashed",
        conditions=(
            MaxAttempts(max_attempts=rng.randint(2, 3)),
            Cooldown(cooldown_seconds=rng.choice([1.0, 20.0])),
        ),
    )
    return Monitoring(
        log_events=(
            LogEvent(
                name="saved",
                pattern=r"saved checkpoint (?P<n>\d+)",
                pattern_type="regex",
                extract_groups={"checkpoint_iteration": "n"},
            ),
        ),
        state_events=(StateEvent(name="crash", state="crash", actions=(restart,)),),
        doomed_grace_seconds=10.0,
    )


def _add_family(
    specs: list[JobSpec], edges: list[Edge], family: int, rng: random.Random
) -> None:
    stable, cool, last = f"stable{family}", f"cool{family}", f"eval{family}"
    index = len(specs)
    specs.append(_job(stable, index, "stable"))
    done = FileExists(path=f"/out/{stable}/iter_80/done.txt", writer=stable)
    logged = MetadataIs(key="checkpoint_iteration", job=stable, op=">=", value=80)
    failed = JobStateIs(jobs=(stable,), state="FAILED")
    fatal = LogPattern(
        log_path=f"/logs/{stable}/current.log", pattern="FATAL", writer=stable
    )
    waits: tuple[FileExists | MetadataIs, ...] = (done, logged)
    specs.append(
        _job(
            cool,
            index + 1,
            "cooldown",
            (stable,),
            start_conditions=waits if rng.random() < 0.8 else (done,),
            cancel_conditions=(failed, fatal),
        )
    )
    specs.append(
        _job(
            last,
            index + 2,
            "evaluate",
            (cool,),
            start_conditions=(
                JobStateIs(jobs=(cool,), state="COMPLETED", timeout_seconds=3000.0),
            ),
        )
    )
    edges.append(Edge(before=stable, after=cool, mode="waits"))
    edges.append(Edge(before=cool, after=last, mode="waits"))


def _job(
    name: str,
    index: int,
    stage: str,
    depends_on: tuple[str, ...] = (),
    **conditions: object,
) -> JobSpec:
    return JobSpec(
        name=name,
        index=index,
        stage=stage,
        depends_on=depends_on,
        command=("train", name),
        fingerprint=name,
        output_dir=f"/out/{name}",
        log_dir=f"/logs/{name}",
        **conditions,  # type: ignore[arg-type]
    )


def make_scripts(
    plan: Plan, rng: random.Random
) -> dict[str, Sequence[Sequence[RunScript]]]:
    """What each attempt at each job will do."""
    return {spec.name: [_attempt(spec, rng) for _ in range(4)] for spec in plan.jobs}


def _attempt(spec: JobSpec, rng: random.Random) -> Sequence[RunScript]:
    last = _run(spec, rng)
    if rng.random() < 0.1:
        first = replace(_run(spec, rng), ends="requeue")
        return (first, last)
    return (last,)


def _run(spec: JobSpec, rng: random.Random) -> RunScript:
    seconds = rng.uniform(1.0, 60.0)
    fate = rng.random()
    writes = [_line(f * seconds, n) for f, n in ((0.5, 50), (0.8, 80))]
    done = Write(
        at=0.8 * seconds, data=b"done", path=f"{spec.output_dir}/iter_80/done.txt"
    )
    usual = RunScript(
        begin_delay=rng.choice([0.0, 0.0, 5.0]),
        record_lag=rng.choice([0.0, 0.0, 3.0, 8.0]),
        ignores_term=rng.random() < 0.1,
        seconds=seconds,
        writes=(*writes, done),
    )
    if fate < 0.12:
        early = rng.random() * seconds
        fatal = Write(at=early * 0.9, data=b"FATAL something broke\n")
        return replace(usual, seconds=early, exit_code=1, writes=(writes[0], fatal))
    if fate < 0.15:
        return replace(usual, exit_code=None, signal=9, writes=())
    if fate < 0.18:
        return replace(usual, ends="vanish", writes=())
    return usual


def _line(at: float, n: int) -> Write:
    text = f"iteration {n}/100 | lm loss: {3.0 - n / 100:.3f}\nsaved checkpoint {n}\n"
    return Write(at=at, data=text.encode())
