"""What a simulated research reaches outside: planning, and agents that are scripted.

What a call comes to follows from the seed, its name and what it was told; its words are
read as any agent's are. Agents answer late, wrongly, twice, or never; their services
are away; their nodes are lost. Runs tell losses, crash, run out of memory, hang.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.engine.ports import Clock
from autoexp_tui.model.agents import Outcome, Usage
from autoexp_tui.model.errors import EnvironmentFailed
from autoexp_tui.model.specs import JobSpec, Resources
from autoexp_tui.model.states import Cause
from autoexp_tui.research.answer import AnswerRefused, read_answer, read_fix, take_plans
from autoexp_tui.research.fixer import build_fixed_item
from autoexp_tui.research.ports import CallResult, PlannedItems, PlanRequest, View
from autoexp_tui.research.state import Answer, CodeChange, Consultation, Item, Research
from tests.research.fake_laboratory import FakeLaboratory
from tests.support.fake_script import (
    AGENT,
    FOREVER,
    SOUND,
    RunScript,
    Write,
    script_call,
)

GPUS: Final = 8
TOKENS: Final = 100
"""That each call uses."""
_FATES: Final = (
    *("garbled", "half", "silent", "never", "late", "lost", "lost_always", "twice"),
    *("limited", "away", "refused_login"),
)
"""What may become of a call, each for a fortieth of them."""
_RUN_FATES: Final = (
    *("memory", "memory", "crash", "nan", "unclaimed", "mute", "hangs", "worse"),
    *("lost", "lost", "lost", "lost", "lost"),
)
"""What may become of a run, each for a thirtieth of them."""
_WORDS: Final = {
    "garbled": '{"experiment_list": [}',
    "half": '{"reflection": "I thin',
    "silent": "",
}
_OUTCOMES: Final = {
    "limited": Outcome.RATE_LIMIT,
    "away": Outcome.UNAVAILABLE,
    "refused_login": Outcome.AUTH_ERROR,
}
_DIES: Final = {
    "memory": b"torch.cuda.OutOfMemoryError: CUDA out of memory\n",
    "crash": b"it went wrong in a way that no table knows\n",
}
"""The last words of runs that end with 1."""


@dataclass(frozen=True, slots=True)
class Left:
    """What a call left on the disk."""

    words: str = ""
    outcome: Outcome = Outcome.OK
    resume_at: float | None = None
    code: CodeChange | None = None


@dataclass(kw_only=True)
class SimLaboratory(FakeLaboratory):
    """Implements `research.ports.Laboratory`, and acts for agents and runs."""

    clock: Clock
    seed: int
    most_calls: int = 8
    """Afterwards agents have no idea any more."""
    is_calm: bool = False
    """Agents and runs do well from now on, and have no more ideas."""
    disk: random.Random | None = None
    """By which the disk fails now and then; None: it does not."""
    told: dict[str, Research] = field(default_factory=dict)
    """A call's job -> what its context has shown."""
    left: dict[str, Left] = field(default_factory=dict)
    """A call's job -> what it left."""
    begun: Counter[str] = field(default_factory=Counter)
    """A call's job -> how often an agent was called."""
    losses: dict[str, float] = field(default_factory=dict)
    """An item's job -> the last loss that its newest attempt has told."""

    def __post_init__(self) -> None:
        self.gpus = GPUS

    # ---------------------------------------------------------------- agents and runs
    def find_fate(self, job: str) -> str:
        """What becomes of the attempts at a job, in a word."""
        draw = random.Random(f"{self.seed} fate {job}").random()
        fates, share = (_FATES, 40) if _is_call(job) else (_RUN_FATES, 30)
        at = int(draw * share)
        return fates[at] if at < len(fates) else SOUND

    def script(self, task: Task) -> Sequence[RunScript]:
        """What an attempt at a job does."""
        script = self._script_call if _is_call(task.job) else self._script_run
        run = script(task, random.Random(f"{self.seed} {task.id}"))
        delay = 0.0 if task.attempt % 2 else 8.0
        return (replace(run, begin_delay=delay),)

    def _script_call(self, task: Task, rng: random.Random) -> RunScript:
        fate = self.find_fate(task.job)
        seconds = rng.choice([0.2, 5.0, 20.0, 90.0]) * rng.uniform(0.5, 1.5)
        seconds = seconds * 10 if fate == "late" else seconds
        if self._list_shaky(task.job):  # that they are lost meanwhile
            seconds = max(seconds, 60.0)
        cause = rng.choice([Cause.NODE_FAIL, Cause.PREEMPTED])
        return script_call(task, SOUND if self.is_calm else fate, seconds, cause)

    def _script_run(self, task: Task, rng: random.Random) -> RunScript:
        fate = self.find_fate(task.job) if not self.is_calm else SOUND
        seconds = rng.choice([3.0, 10.0, 30.0, 90.0, 300.0]) * rng.uniform(0.5, 1.5)
        first = rng.uniform(1.0, 5.0)
        losses = [first, first * 0.9, first * rng.choice([0.3, 0.6, 0.8])]
        losses = losses if fate != "worse" else losses[::-1]
        shares = (0.3, 0.6, 0.9)
        writes = [
            _tell(share * seconds, f"step: {round(share * 100)} loss: {loss:.4f}")
            for share, loss in zip(shares, losses, strict=True)
        ]
        self.losses[task.job] = round(losses[-1], 4)
        run = RunScript(seconds=seconds, writes=tuple(writes))
        match fate:
            case "memory" | "crash":
                last = Write(at=0.95 * seconds, data=_DIES[fate])
                return replace(run, exit_code=1, writes=(writes[0], last))
            case "nan":
                return replace(run, writes=(writes[0], _tell(1.0, "step: 9 loss: nan")))
            case "lost" if task.attempt < 3:
                return replace(run, cause=Cause.NODE_FAIL, signal=9)
            case "unclaimed" if task.attempt == 1:
                return replace(run, ends="vanish")
            case "mute":
                return replace(run, writes=())
            case "hangs":
                return replace(run, seconds=FOREVER, ignores_term=rng.random() < 0.5)
        return run

    def act(self, path: str, data: bytes) -> None:
        """A call writes that it begins, or what it comes to."""
        job, fate = path.removeprefix(AGENT), data.decode()
        if fate == "begins":
            self.begun[job] += 1
            return
        rng = random.Random(f"{self.seed} answer {job}")
        if self.is_calm:
            fate = SOUND
        if outcome := _OUTCOMES.get(fate):
            later = self.clock.utc() + rng.choice([20.0, 300.0])
            self.left[job] = Left("", outcome, rng.choice([None, later]))
            return
        words = _WORDS.get(fate)
        if words is None:
            words = json.dumps(self._answer(job, rng))
        has_code = not _is_fixer(job) and rng.random() < 0.3
        change = CodeChange(commit=f"of {job}", base="b", sha256=job, files=1)
        self.left[job] = Left(words, code=change if has_code else None)

    def _answer(self, job: str, rng: random.Random) -> dict[str, Any]:
        told, name = self.told[job], job.partition("_")[0]
        if _is_fixer(job):
            key = rng.choice(["batch_size", "batch_size", "model.width"])
            fix = {"fix_applied": f"less {key}", "overrides": [f"{key}=8"]}
            return fix if rng.random() < 0.8 else {}
        if self.is_calm or int(name[1:]) > self.most_calls:
            return {"list_unchanged": True}
        given = _Imagined(told, name, rng, self._list_shaky(job))
        answer = {"kill_runs": given.choose_kills(), "hypotheses": given.state_some()}
        answer |= {"reflection": f"of {name}", "reasoning": "so it seems"}
        if rng.random() < 0.08:
            return answer | {"list_unchanged": True}
        return answer | {"experiment_list": given.make_list()}

    def _list_shaky(self, job: str) -> Sequence[str]:
        """Runs that a call's context has shown live, and that are lost before long."""
        live = self.told[job].list_live()
        fates = {run.id: {*map(self.find_fate, run.jobs)} for run in live}
        return [name for name, found in fates.items() if "lost" in found]

    # --------------------------------------------------------------- the loop's port
    def _may_fail(self) -> None:
        if self.disk is not None and self.disk.random() < 0.02:
            raise EnvironmentFailed("no space left on device", "/research")

    def write_call(self, consultation: Consultation, view: View) -> str:
        self._may_fail()
        self.told[consultation.job] = view.research
        return f"sha of {consultation.id}"

    def read_call(self, consultation: Consultation, view: View) -> CallResult:
        self._may_fail()
        job, usage = consultation.job, Usage(input_tokens=TOKENS)
        is_sent = job in self.begun
        if (left := self.left.get(job)) is None:
            lost = Outcome.AGENT_ERROR if is_sent else Outcome.NOT_FOUND
            problem = "the call has left nothing"
            return CallResult(outcome=lost, problem=problem, is_sent=is_sent)
        sent: dict[str, Any] = {"usage": usage, "cost": 0.5}
        if left.outcome is not Outcome.OK or not left.words:
            outcome = left.outcome if left.outcome is not Outcome.OK else _NOTHING
            return CallResult(outcome=outcome, resume_at=left.resume_at, **sent)
        try:
            if consultation.role == "fixer":
                return self._read_fix(consultation, view, left.words, sent)
            answer = read_answer(left.words.encode(), view.research, consultation.id)
        except AnswerRefused as refused:
            bad = Outcome.BAD_OUTPUT
            return CallResult(outcome=bad, problem=refused.line, **sent)
        taken = self._list_taken(view)
        if answer.order is not None:
            stated = {one.id: self._plan(one, taken) for one in answer.items or ()}
            kept = tuple(one for one in stated.values() if one is not None)
            problems = {name: "no" for name, one in stated.items() if one is None}
            planned = PlannedItems(kept, problems)
            answer = take_plans(answer, view.research, planned)
        return CallResult(outcome=Outcome.OK, answer=answer, code=left.code, **sent)

    def _read_fix(
        self, one: Consultation, view: View, words: str, sent: dict[str, Any]
    ) -> CallResult:
        fix, research = read_fix(words.encode(), one.run), view.research
        known = {*research.runs, *(item.id for item in research.items)}
        fixed = build_fixed_item(research.runs[one.run], fix, known)
        planned = self._plan(replace(fixed, consultation=one.id), frozenset())
        answer = Answer(items=(planned,)) if planned and fix.overrides else None
        return CallResult(outcome=Outcome.OK, fix=fix, answer=answer, **sent)

    def _list_taken(self, view: View) -> frozenset[str]:
        listed = (job.name for one in view.research.items for job in one.jobs)
        return frozenset({*listed, *view.jobs})

    def _plan(  # type: ignore[override]
        self, item: Item, taken: frozenset[str] = frozenset()
    ) -> Item | None:
        """An item with one job or two, who share its GPUs; None: it does not plan."""
        rng = random.Random(f"{self.seed} plan {item.id} {item.overrides}")
        if item.jobs:
            return item
        number = 2 if rng.random() < 0.15 else 1
        names = [f"{item.id}_{at}" for at in range(number)]
        if taken.intersection(names) or rng.random() < 0.04:
            return None
        gpus = rng.choice([1, 2, 8]) if item.gpus is None else item.gpus
        shares = [gpus - gpus // 2 * (number - 1), gpus // 2][:number]
        jobs = (
            JobSpec(
                name=name,
                index=0,
                command=("train", item.id),
                output_dir=f"/out/{name}",
                log_dir=f"/logs/{name}",
                resources=Resources(gpus=share),
            )
            for name, share in zip(names, shares, strict=True)
        )
        return replace(item, jobs=tuple(jobs))

    def plan_items(self, request: PlanRequest) -> PlannedItems:
        self._may_fail()
        (item,) = request.items
        planned = self._plan(item, request.taken)
        problems = {} if planned else {item.id: "it does not plan"}
        return PlannedItems((planned,) if planned else (), problems)

    def keep_code(self, consultation: Consultation) -> None:
        self._may_fail()

    def write_state(self, view: View) -> None:
        self._may_fail()
        if not self.views or view.t >= self.views[-1].t:  # else of a deposed engine
            self.views[:] = [view]


_NOTHING: Final = Outcome.NO_OUTPUT


def _is_call(job: str) -> bool:
    return "_research" in job or _is_fixer(job)


def _is_fixer(job: str) -> bool:
    return "_fixer" in job


def _tell(at: float, text: str) -> Write:
    return Write(at=at, data=f"{text}\n".encode())


@dataclass(frozen=True, slots=True)
class _Imagined:
    """What an agent comes up with: some of it makes no sense."""

    told: Research
    call: str
    rng: random.Random
    shaky: Sequence[str]
    """Live runs that are lost before long."""

    def make_list(self) -> list[dict[str, Any]]:
        """Some of the list, in some order, and new items."""
        rng = self.rng
        kept: list[dict[str, Any]] = [
            self._change(one) for one in self.told.items if rng.random() < 0.8
        ]
        new = [self._invent(at) for at in range(rng.choice([0, 1, 3, 5, 8]))]
        if len(new) > 1 and rng.random() < 0.1:  # they wait for each other
            new[0]["depends_on"], new[1]["depends_on"] = [new[1]["id"]], [new[0]["id"]]
        made = [*kept, *new]
        if rng.random() < 0.5:
            rng.shuffle(made)
        if made and rng.random() < 0.1:
            made.append(rng.choice(made))  # one that stands there twice
        return made

    def _change(self, item: Item) -> dict[str, Any]:
        draw = self.rng.random()
        if draw < 0.1:
            return {"id": item.id, "note": f"noted by {self.call}"}
        if draw < 0.15:
            return {"id": item.id, "overrides": [f"lr={self.rng.random():.3f}"]}
        return {"id": item.id}

    def _invent(self, at: int) -> dict[str, Any]:
        rng = self.rng
        item: dict[str, Any] = {
            "id": f"t{self.call[1:]}n{at}",
            "gpu_requirement": rng.choice([1, 1, 2, 2, 8, None]),
            "hypothesis": rng.choice(["h1", "h2", "bigger is better", None]),
            "overrides": [f"lr={rng.random():.3f}"],
        }
        if rng.random() < 0.06:
            item["id"] = rng.choice([*self.told.runs, "p1", "p2", "bad name", "c1_x"])
        if rng.random() < 0.06:
            item["gpu_requirement"] = 9
        others = [*self.told.runs, *(one.id for one in self.told.items)]
        if rng.random() < 0.25 and others:
            item["depends_on"] = [rng.choice([*others, *others, "nobody"])]
        if rng.random() < 0.3:
            limit = rng.choice(["loss > 2 after step 50", "time > 100s", "loss >"])
            item["kill_criteria"] = limit
        if rng.random() < 0.4:
            item["expects"] = rng.choice(["loss < 1", "loss < 2 after step 60"])
        elif rng.random() < 0.3 and self.told.runs:
            item["baseline_run"] = rng.choice([*self.told.runs])
        if rng.random() < 0.2:
            item["code_ref"] = rng.choice(["this", *self.told.code_approved])
        return item

    def choose_kills(self) -> list[str]:
        """Mostly of what is lost before long: it begins anew, and is not meant then."""
        rng, live, others = self.rng, self.told.live, [*self.told.runs, "nobody"]
        if self.shaky and rng.random() < 0.9:
            return [rng.choice(self.shaky)]
        number = rng.choice([0, 0, 1, 1, 2])
        is_good = [bool(live) and rng.random() < 0.8 for _ in range(number)]
        return [rng.choice(live if one else others) for one in is_good]

    def state_some(self) -> list[dict[str, Any]]:
        rng = self.rng
        return [
            {
                "id": name,
                "description": f"{name} of {self.call}",
                "status": rng.choice(["open", "open", "confirmed", "rejected"]),
                "expects": rng.choice([None, "loss < 1.5"]),
            }
            for name in ("h1", "h2")
            if rng.random() < 0.5
        ]
