"""A research loop as lines: who asks, what the agent saw and answered, runs, the list,
hypotheses, warnings, and what the agent does now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.render.outline import Outline
from autoexp_tui.cockpit.render.research_rows import (
    KINDS,
    Loop,
    describe_purpose,
    describe_triggers,
)
from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    fit,
    line,
    outside,
    render_bar,
    spread,
    wrap,
)
from autoexp_tui.model.wording import sentence, short
from autoexp_tui.research.budgets import (
    Use,
    find_refusal,
    measure_role_uses,
    measure_uses,
)
from autoexp_tui.research.consultations import DECISION
from autoexp_tui.research.decide import ResearchPolicy
from autoexp_tui.research.items import choose_now
from autoexp_tui.research.options import ROLES
from autoexp_tui.research.state import Consultation, Item, Research, Run
from autoexp_tui.text.spelling import clock_time, duration, format_metric, plural

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView, SessionView
    from autoexp_tui.model.states import Why

_NEW: Final = 3
"""Answered consultations that stand above; older ones are last."""
_KIND: Final = 6
_STATE: Final = 11
_NUMBER: Final = 7
_LABEL: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResearchOutline(Outline):
    """The keys of the rows are `kind:name`."""

    loop: Loop

    @property
    def research(self) -> Research:
        return self.loop.research

    def build_title(self) -> Line:
        research = self.research
        if not (research.directory or research.stopped):
            return line("it is being opened")
        parts = (
            [f"ended: {outside(short(research.stopped))}"] if research.stopped else []
        )
        ended, calls = len(research.runs) - len(research.live), research.total_calls
        numbers = ((len(research.live), "run"), (len(research.items), "listed"))
        for number, word in (*numbers, (ended, "ended")):
            parts += [f"{number} {word}"] if number else []
        return line(", ".join([*parts, *[plural(calls, "call")] * bool(calls)]))

    def build_head(self, cells: int) -> Sequence[Line]:
        """` best 2.31 run_5  loss, lower is better, target 2; 3 rounds without a gain`,
        and the titles."""
        research, target = self.research, self.research.options.objective.target
        best = f"{format_metric(research.best)} {outside(research.best_run, 40)}"
        about = f"  {outside(research.metric)}, "
        about += f"{'higher' if research.mode == 'max' else 'lower'} is better"
        about += f", target {format_metric(target)}" if target is not None else ""
        if rounds := research.rounds_since_improvement:
            about += f"; {plural(rounds, 'round')} without a gain"
        told = (Span(" best ", "muted"), Span(best, "strong"), Span(about, "muted"))
        name, what, why = _share(cells - 2)
        titles = (fit("STATE", _STATE), fit("ID", name), fit("WHAT", what))
        names = f"  {' ' * _KIND}{' '.join(titles)}  RESULT  {fit('WHY', why)}"
        return cut(told, cells), cut(line(Span(names, "muted")), cells)

    def build_row(self, place: int, cells: int) -> Line:
        """Of what is empty, the words before it have the room."""
        kind, _, of = self.keys[place].partition(":")
        label, build = KINDS[kind]
        is_first = place == 0 or not self.keys[place - 1].startswith(f"{kind}:")
        row = build(self.loop, of)
        glyph, word, role = row.state
        wide, what, why = _share(cells)
        what += 0 if row.value else _NUMBER + 1
        what += 0 if row.value or row.why else why + 2
        shown = line(
            Span(fit(label if is_first else "", _KIND), "title"),
            Span(fit(self.show(f"{glyph} {word}"), _STATE), role),
            Span(f" {fit(self.show(row.name), wide)} ", "muted"),
            Span(
                fit(self.show(row.what), what), "muted" if role == "skipped" else "text"
            ),
            Span(f" {fit(row.value, _NUMBER, right=True)}" * bool(row.value), "strong"),
            Span(
                f"  {fit(self.show(row.why), why)}" * bool(row.why),
                "muted" if role == "done" else role,
            ),
        )
        return cut(shown, cells)

    def build_below(self, cells: int, rows: int) -> Sequence[Line]:
        """What the agent is doing, or waits for."""
        role: Role = "warning" if self.research.agents_wait else "text"
        live, now, session = self.research.list_live(), self.session.now, self.session
        jobs = session.list_jobs(name for run in live for name in run.jobs)
        records = {job.name: job.record for job in jobs}
        uses = measure_uses(self.research, records, now, session.lived)
        told = line(Span(f" {self.show(self._describe_agent(uses))}", role))
        of_roles = (measure_role_uses(self.research, one) for one in ROLES)
        fullest = sorted(chain(uses, *of_roles), key=lambda use: use.left)
        if rows <= 1:
            right = _render_use(fullest[0], 0, 8) if fullest else ()
            return [spread(told, right, cells)]
        first = wrap(told, cells, " ")[: rows - 1]
        widest = max((len(_name_use(use)) for use in fullest), default=0)
        bars = (_render_use(use, max(9, widest), 24) for use in fullest)
        return [cut(one, cells) for one in [*first, *islice(bars, rows - len(first))]]

    def _describe_agent(self, uses: tuple[Use, ...]) -> str:
        """Whether an agent is called, and why not: until when, and what for."""
        research, now = self.research, self.session.now
        if research.stopped is not None:
            return f"ended: {sentence(research.stopped, now)}"
        if research.budget_reached is not None:
            return sentence(research.budget_reached, now)
        if research.agents_wait is not None:
            if research.wants_mending:
                problem = research.agents_wait.arg("problem")
                return f"no agent is called before you have one (C): {problem}"
            at = clock_time(research.resume_at, now)
            left = duration(research.resume_at - now)
            reason = sentence(research.agents_wait, now)
            return f"no agent is called before {at}, in {left}: {reason}"
        calls = [one for role in ROLES if (one := research.find_call(role)) is not None]
        if calls:
            told = (f"{one.id} ({describe_purpose(research, one)})" for one in calls)
            return f"an agent is called: {', '.join(told)}"
        refusal = find_refusal(research, "research", uses)
        if research.triggers and refusal is not None:
            return f"no agent is called: {sentence(refusal, now)}"
        if research.triggers:
            wanted = describe_triggers(research, research.triggers)
            return f"the next call is for {wanted}"
        if asks := self.session.find_asks(ResearchPolicy.asks):
            return f"waits for you: {plural(len(asks), 'question')}, which A answers"
        since = self.session.lived - research.last_call_lived
        left = duration(max(0.0, research.options.heartbeat_seconds - since))
        return f"no call is due; the heartbeat comes in {left}"

    def build_detail(self, key: str, records: object, cells: int) -> Sequence[Line]:
        """`records`: bytes of what its call saw."""
        kind, _, name = key.partition(":")
        size = records if isinstance(records, int) else None
        row = KINDS[kind][1](replace(self.loop, prompt_bytes=size), name)
        told = (row.name, row.why if row.explains else "")
        head = self.render_state(row.state, "  ".join(filter(None, told)))
        return [*self.render_facts(row.facts, _LABEL, cells, head)]

    def find_run(self, key: str) -> Run | None:
        """The run that a row is of."""
        kind, _, name = key.partition(":")
        return self.research.runs.get(name) if kind in ("run", "ended") else None

    def find_item(self, key: str) -> Item | None:
        """The item of the list that a row is of."""
        kind, _, name = key.partition(":")
        return self.research.find_item(name) if kind == "item" else None

    def find_call(self, key: str) -> Consultation | None:
        """The consultation that a row is of, or whose code or answer it shows."""
        name, run = key.partition(":")[2], self.find_run(key)
        item = run.item if run else self.find_item(key)
        if item is not None:
            name = item.code_ref or item.consultation
        return self.research.consultations.get(name.rpartition("/")[2])

    def find_ask(self, key: str) -> str:
        """The question that a row is, or is of; it may be answered already."""
        kind, _, name = key.partition(":")
        of = {"call": f"{DECISION}/{name}", "line": name.partition(":")[2]}
        return of.get(kind, name)

    def find_jobs(self, key: str) -> tuple[JobView, ...]:
        run, call = self.find_run(key), self.find_call(key)
        if run is not None:
            job = self.loop.find_main_job(run)
            return (job,) if job is not None else ()
        return self.session.list_jobs([call.job]) if call is not None else ()

    def find_files(self, key: str) -> str:
        run, call = self.find_run(key), self.find_call(key)
        if run is not None and (job := self.loop.find_main_job(run)) is not None:
            return job.record.spec.output_dir
        if call is not None and not key.startswith("item:"):
            return self.loop.find_place(call)
        return self.research.directory


def build_outline(research: Research, session: SessionView) -> ResearchOutline:
    """Costs what the research holds."""
    parts, waits = _list_parts(research, session), _find_waits(research, session)
    return ResearchOutline(
        session=session,
        keys=tuple(f"{kind}:{name}" for kind, names in parts for name in names),
        loop=Loop(research=research, session=session, waits=waits),
    )


def _list_parts(
    research: Research, session: SessionView
) -> Iterator[tuple[str, Sequence[str]]]:
    """Kinds of rows, what is new or under way first; and the names of each."""
    for name, ask in session.find_asks(ResearchPolicy.asks).items():
        yield "ask", (name,)
        yield "line", [f"{at}:{name}" for at in range(len(ask.lines))]
    calls = [*reversed(research.consultations)]
    newest = [one for at, one in enumerate(calls) if at < _NEW or one in research.open]
    yield "call", newest
    yield "goal", ("",)
    yield "run", research.live
    yield "item", [one.id for one in research.items] or ("",)
    yield "hypothesis", [*research.hypotheses]
    warned = [*reversed(research.warnings.values())]
    warned.sort(key=lambda one: bool(one.acknowledged_by))
    yield "warning", [one.key for one in warned]
    live = frozenset(research.live)
    yield "ended", [name for name in reversed(research.runs) if name not in live]
    shown = frozenset(newest)
    yield "earlier", [name for name in calls if name not in shown]


def _find_waits(research: Research, session: SessionView) -> Mapping[str, Why]:
    """By the rule by which items begin. All jobs that take slots are runs'."""
    if (paused := session.snapshot.paused) is not None:
        return {item.id: paused for item in research.items}
    plan, engine = session.snapshot.plan, session.snapshot.engine
    limits = (plan.executor.max_parallel if plan else None, engine.slots)
    slots = min(filter(None, limits), default=None)
    jobs = [job for run in research.list_live() for job in run.jobs]
    busy = len(jobs) - sum(job.record.ended for job in session.list_jobs(jobs))
    return choose_now(research, slots, busy).waits


def _share(cells: int) -> tuple[int, int, int]:
    """Cells of name, what and why, of a line without its gutter."""
    name = max(8, min(16, cells // 7))
    left = cells - _KIND - _STATE - name - _NUMBER - 5
    what = max(8, min(64, left // 2))
    return name, what, max(0, left - what)


def _name_use(use: Use) -> str:
    """`time`, `fixer calls`."""
    return " ".join(filter(None, (use.role, use.words["budget"])))


def _render_use(use: Use, widest: int, cells: int) -> Line:
    """A name in `widest` cells at least, a bar of `cells`, and the numbers."""
    words = use.words
    role: Role = "warning" if use.left < 0.25 else "muted"
    return line(
        Span(f" {_name_use(use):<{widest}} ", role),
        *render_bar(1 - use.left, cells),
        Span(f" {words['spent']} of {words['limit']}", role),
    )
