"""What upper-case keys do: ask, then send a command. Nothing is sent unasked. And a
plan that nobody has submitted: planned again, its errors, what is new in it.

A kill is sent only after its countdown; while that runs nothing has left the screen, so
stopping it, or losing the terminal, leaves everything as it was."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from textual.message import Message

from autoexp_tui.cockpit.context import KEEP, CockpitContext
from autoexp_tui.cockpit.dialogs.question import Answer as Reply
from autoexp_tui.cockpit.dialogs.question import QuestionScreen
from autoexp_tui.cockpit.dialogs.reader import FaultsScreen, Page, ReaderScreen
from autoexp_tui.cockpit.logfile import read_clean
from autoexp_tui.cockpit.render.growth_questions import ask_growth, ask_ways
from autoexp_tui.cockpit.render.plan_findings import PlanChanges, render_fault
from autoexp_tui.cockpit.render.questions import (
    COUNTDOWN,
    Question,
    ask_about_lines,
    ask_approval,
    ask_kill,
    ask_skip,
    ask_submit,
    select_asking,
)
from autoexp_tui.cockpit.render.resubmit_questions import ask_resubmit
from autoexp_tui.cockpit.screens.base import BoxScreen, Request
from autoexp_tui.cockpit.spans import outside
from autoexp_tui.cockpit.state.forecast import (
    NOT_YET,
    Looks,
    list_checkpoint_places,
    select_killable,
)
from autoexp_tui.conditions.jobs import Approval
from autoexp_tui.effects.effects import ComposeJob, JoinJobs
from autoexp_tui.events.runs import EffectOrdered
from autoexp_tui.events.session import CommandRefused
from autoexp_tui.model.commands import (
    Acknowledge,
    Answer,
    AnswerAsk,
    Command,
    Kill,
    Pause,
    Resubmit,
    Resume,
    Skip,
    Submit,
    Waive,
)
from autoexp_tui.model.errors import AutoexpError, Problem
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.wording import sentence
from autoexp_tui.planning.growth import Choices, Growth, list_swept
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from textual.app import App
    from textual.timer import Timer

    from autoexp_tui.cockpit.state.reasons import CauseGroup
    from autoexp_tui.cockpit.state.session import JobView, Scope, SessionView
    from autoexp_tui.model.snapshot import Snapshot
    from autoexp_tui.model.specs import Plan


_DOING: Final[Mapping[type[Command], str]] = {
    Submit: "submitting",
    Resubmit: "resubmitting",
    Skip: "skipping",
    Waive: "waiving for",
}
"""What is said of a command that was sent for jobs."""
_CHANGED: Final = "changed while you read: look again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Countdown:
    """What is sent unless it is stopped."""

    command: Command
    words: str
    """What is ended: `3 jobs`."""
    doing: str
    """What becomes of it: `killed`."""
    due: float
    """In monotonic seconds."""
    expected: Mapping[str, int] | None = None
    """The jobs, by the attempts that were seen."""


class CommandSent(Message):
    """Something was ordered: what the engine publishes next is shown at once."""


class Actions:
    """Asks and sends, for one app; the methods of verbs bear their names."""

    def __init__(
        self, context: CockpitContext, app: App[Any], on_change: Callable[[], None]
    ) -> None:
        """`on_change` is called when what the engine is doing is told otherwise."""
        self._on_change = on_change
        self._context = context
        self._model = context.model
        self._app = app
        self.countdown: Countdown | None = None
        self._timer: Timer | None = None
        self._unanswered: set[str] = set()
        """Ids of the commands of which no event has told yet."""
        self._overrides = ""
        """What was typed to plan again, until it has been sent."""
        self._faults: FaultsScreen | None = None
        self._compared: Plan | None = None
        """The plan of which was told how it differs from the one before it."""
        self.changes: PlanChanges | None = None
        """What is new since the last plan; None: no such plan is known."""

    def send(self, command: Command, expected: Mapping[str, int] | None = None) -> None:
        """Hand a command to the engine; what came of it is in later events."""
        self._app.post_message(CommandSent())
        sent = self._context.handle.send(command, by="cockpit", expected=expected)
        self._unanswered.add(sent)

    def take(self, snapshot: Snapshot, before: Plan | None) -> None:
        """Say what a newer snapshot means for the plan (`before`: the one shown), and
        which of the commands sent here were refused, and why."""
        self._take_plan(snapshot, before)
        if not self._unanswered:
            return
        answers = [one for one in snapshot.events if one.command_id in self._unanswered]
        for record in answers:
            event = record.event
            # A job is planned anew, a plan read first: that may still be refused.
            ordered = event.effect if isinstance(event, EffectOrdered) else None
            if not isinstance(ordered, ComposeJob | JoinJobs):
                self._unanswered.discard(record.command_id)
            if isinstance(event, CommandRefused):
                reason = outside(sentence(event.why, snapshot.now))
                self._app.notify(f"refused: {reason}", severity="error", timeout=KEEP)

    def _take_plan(self, snapshot: Snapshot, before: Plan | None) -> None:
        plan, look = snapshot.plan, self._context.options.changes
        if self._faults is not None and plan is not None:
            self._faults.finish(result=False)  # the plan is sound now
        if plan is None or snapshot.engine.role != "plan":
            return
        if before is not None and plan is not before:
            self._app.notify(f"planned again: {plural(len(snapshot.jobs), 'job')}")
        if look and plan is not self._compared:
            self._compared, self.changes = plan, look()  # told once for each plan
            if self.changes is not None and self.changes.differs:
                key = self._context.keymap.key("plan.changes")
                summary = self.changes.describe(self._context.find_utc())
                self._app.notify(f"{summary}   ({key} reads it)", timeout=KEEP)

    def _send_for(self, jobs: Sequence[JobView], command: Command, words: str) -> None:
        self.send(command, count_attempts(jobs))
        self._app.notify(words)
        self._model.marks.difference_update(job.name for job in jobs)

    async def _ask(self, question: Question) -> Reply | None:
        """What a person answers; None where they stay."""
        return await self._app.push_screen_wait(QuestionScreen(self._context, question))

    def _is_counting(self) -> bool:
        """Whether a countdown runs, beside which is no other; then that is said."""
        if self.countdown is not None:
            self._app.notify("another countdown runs: U stops it", severity="warning")
        return self.countdown is not None

    async def ask(self, question: Question) -> None:
        """Ask for a screen of its own, and send what the answer orders."""
        if question.danger and self._is_counting():
            return
        reply = await self._ask(question)
        if reply is None or reply.command is None:
            return
        if question.danger:
            self._begin(reply.command, question.subject, "ended")
        else:
            self.send(reply.command)
            self._app.notify(f"sent: {question.confirm}")

    async def _ask_for(
        self,
        scope: Scope,
        find_question: Callable[[Scope, SessionView], Question | None],
        explain: Callable[[Scope], str],
    ) -> None:
        """Ask about jobs, and send what was answered; where they moved, ask again."""
        while True:
            session, plan_id = self._model.session, self._find_plan_id()
            question = find_question(scope, session)
            if question is None:
                self._app.notify(explain(scope), severity="warning")
                return
            reply = await self._ask(question)
            if reply is None or reply.command is None:
                return
            command, jobs = reply.command, question.jobs
            if isinstance(command, Submit):
                jobs = session.list_jobs(command.jobs or ())
            is_other_plan = self._find_plan_id() != plan_id
            if not is_other_plan and _is_same(jobs, self._find_now(jobs)):
                break
            text = "planned again while you read: look again"
            self._app.notify(text if is_other_plan else _CHANGED, severity="warning")
            scope = replace(scope, jobs=self._find_now(scope.jobs))
        what = plural(len(jobs), "job") if jobs else "it"
        self._send_for(jobs, command, f"{_DOING[type(command)]} {what}")

    def _find_now(self, jobs: Sequence[JobView]) -> tuple[JobView, ...]:
        """Jobs that a question showed, as they are now."""
        return self._model.session.list_jobs([job.name for job in jobs])

    def _find_plan_id(self) -> str:
        plan = self._model.session.snapshot.plan
        return plan.plan_id if plan is not None else ""

    async def kill(self, scope: Scope) -> None:
        """Ask about a kill; after `y` the countdown begins."""
        if self._is_counting():
            return
        session, look = self._model.session, self._context.options.checkpoints
        shown = select_killable(scope.jobs)
        places = list_checkpoint_places(shown, session) if look else ()
        question = ask_kill(scope, session, {one.job: NOT_YET for one in places})
        if question is None:
            self._app.notify(
                _explain_nothing("can be ended", scope), severity="warning"
            )
            return
        screen = QuestionScreen(self._context, question)

        async def look_for_checkpoints(look: Callable[..., Looks]) -> None:
            background = self._context.background
            found = await background.fetch("checkpoints", partial(look, places))
            if known := ask_kill(scope, session, found):
                screen.question = known
                screen.layout_box()

        if look and places:
            self._app.run_worker(look_for_checkpoints(look))
        if await self._app.push_screen_wait(screen) is not None:
            await self._start_countdown(scope, shown)

    async def _start_countdown(self, scope: Scope, shown: Sequence[JobView]) -> None:
        now = self._find_now(shown)
        expected = count_attempts(select_killable(now))
        if expected != count_attempts(shown):
            self._app.notify(_CHANGED, severity="warning")
            await self.kill(replace(scope, jobs=now))
            return
        command = Kill(jobs=tuple(expected), reason="killed in the cockpit")
        self._begin(command, plural(len(expected), "job"), "killed", expected)

    def _begin(
        self,
        command: Command,
        words: str,
        doing: str,
        expected: Mapping[str, int] | None = None,
    ) -> None:
        """Begin a countdown, behind which a command is sent."""
        due = self._context.clock.monotonic() + COUNTDOWN
        self.countdown = Countdown(
            command=command, words=words, doing=doing, due=due, expected=expected
        )
        self._timer = self._app.set_interval(0.25, self.update_countdown)
        self.update_countdown()

    def update_countdown(self) -> None:
        """Show what is left of a countdown; send when nothing is."""
        if self.countdown is None:
            return
        one = self.countdown
        left = one.due - self._context.clock.monotonic()
        if left > 0:
            text = f"{one.words} will be {one.doing} in {ceil(left)} s   U stops it"
            self._app.notify(text, severity="error")
            return
        self.drop_countdown()
        self.send(one.command, one.expected)
        self._model.marks.difference_update(one.expected or ())
        self._app.notify(f"ordered to end: {one.words}")

    async def undo(self, _: Scope) -> None:
        if self.countdown is None:
            self._app.notify("no countdown runs")
            return
        self.drop_countdown()
        self._app.notify("stopped: nothing was sent, everything goes on")

    def drop_countdown(self) -> None:
        """No countdown any more: it was sent, stopped, or the screen goes."""
        self.countdown = None
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    async def submit(self, scope: Scope) -> None:
        """Ask what to submit: of the plan that is shown, and of no other."""

        def find_question(scope: Scope, session: SessionView) -> Question | None:
            families = self._model.words.of_families
            return ask_submit(scope, session, self._model.rates, families)

        none = self._model.describe_opening() or "nothing is planned or held"
        await self._ask_for(scope, find_question, lambda _: none)

    async def resubmit(self, scope: Scope) -> None:
        explain = partial(_explain_nothing, "ended in a way that R mends")
        await self._ask_for(scope, ask_resubmit, explain)

    async def skip(self, scope: Scope) -> None:
        explain = partial(_explain_nothing, "waits")
        await self._ask_for(scope, ask_skip, explain)

    def dismiss_warnings(self, group: CauseGroup) -> None:
        warnings = tuple(one.warning_id for one in group.warnings)
        self.send(Acknowledge(warnings=warnings, limits=group.limits))
        self._app.notify(f"{plural(group.acknowledgeable, 'warning')} acknowledged")

    async def answer(self, scope: Scope) -> None:
        """Show what asks, one after the other: of the scope, else all that ask; jobs
        before questions that are no job's."""
        jobs, asks = select_asking(scope.jobs), scope.asks
        if not (jobs or asks):
            session = self._model.session
            jobs, asks = select_asking(session.jobs), tuple(session.asks)
        things: Sequence[JobView | str] = (*jobs, *asks)
        number = len(things)
        if not things:
            self._app.notify("nothing asks", severity="warning")
        for place, one in enumerate(things, 1):
            many = f"{place} of {number}" if number > 1 else ""
            if isinstance(one, str):
                is_answered = await self._ask_about_lines(one, many)
            else:
                now = select_asking(self._find_now([one]))
                is_answered = not now or await self._ask_approval(now[0], many)
            if not is_answered:
                return

    async def _ask_about_lines(self, name: str, many: str) -> bool:
        """Ask a question of a policy, anew where it changes; False: decided later."""
        mask = self._model.session.mask
        while (ask := self._model.session.asks.get(name)) is not None:
            reply = await self._ask(ask_about_lines(name, ask, many, mask))
            if reply is None:
                return False
            if self._model.session.snapshot.asks.get(name) == ask:
                approved, dropped = reply.key == "y", reply.dropped
                seal = digest_question(name, ask.prompt, ask.list_kept(dropped))
                self.send(
                    AnswerAsk(ask=name, digest=seal, approved=approved, dropped=dropped)
                )
                word = "approved" if approved else "refused"
                self._app.notify(f"{word}: sent with what you saw")
                return True
            self._app.notify(f"the question {_CHANGED}", severity="warning")
        return True

    async def _ask_approval(self, job: JobView, many: str) -> bool:
        """Ask with the job's files, anew where they change; False: decided later."""
        ask = job.record.ask
        files = await self._read_shown(job)
        while ask is not None:
            reply = await self._ask(ask_approval(job, ask, files, many))
            if reply is None:
                return False
            approved = reply.key == "y"
            now = await self._read_shown(job) if approved else files
            if now == files:
                command = Answer(job=job.name, digest=ask.digest, approved=approved)
                word = "approved" if approved else "refused"
                self._send_for([job], command, f"{word}: sent with what you saw")
                return True
            files = now
            self._app.notify(f"its files {_CHANGED}", severity="warning")
        return True

    async def _read_shown(self, job: JobView) -> Sequence[tuple[str, str]]:
        """Path and text of each file that belongs to an approval."""
        approvals = job.record.spec.start_conditions
        shown = [one.show_files for one in approvals if isinstance(one, Approval)]

        def read() -> Sequence[tuple[str, str]]:
            return [(path, read_clean(path)) for paths in shown for path in paths]

        return await self._context.background.fetch(f"approval {job.name}", read)

    async def pause(self, _: Scope) -> None:
        """Pause submission, or resume it; what runs goes on either way."""
        if self._model.session.snapshot.paused is not None:
            self.send(Resume())
            self._app.notify("submission resumes")
        else:
            self.send(Pause())
            self._app.notify("submission pauses; what runs goes on. P resumes")

    def plan_again(self) -> None:
        """Plan from what was saved: over a plan that nobody has submitted, or for more
        to join the session."""
        replan, context = self._context.options.replan, self._context
        if context.model.session.snapshot.session and context.options.plan_growth:
            if self._app.check_action("act", ("grow",)):
                self._ask_overrides()
            return
        if replan is None or context.handle.role != "plan":
            text = self._model.describe_opening() or "there is no config to plan again"
            self._app.notify(text)
            return
        self._app.notify("planning again ...", timeout=KEEP)
        replan()

    def _ask_overrides(self) -> None:
        """Ask for overrides; the sweep's own values stand there to be added to."""
        snapshot = self._model.session.snapshot
        swept = list_swept(snapshot.jobs)

        def answer(text: str) -> str:
            try:
                given = shlex.split(text) if text not in swept else []
            except ValueError as error:
                return str(error)
            self._overrides = text if given else ""
            self._app.run_worker(self.grow(given))
            return ""

        texts = [*filter(None, (self._overrides,)), *swept, ""]
        request = Request(
            label="plan again with",
            hint="key=value ..., or nothing: the config as it is now",
            answer=answer,
            text=texts[0],
            behind=1 if texts[0].endswith("]") else 0,
            others=texts[1:],
        )
        if isinstance(self._app.screen, BoxScreen):
            self._app.screen.ask_line(request)

    async def grow(self, overrides: Sequence[str]) -> None:
        """Plan anew, ask, and let what is new join the session."""
        options, background = self._context.options, self._context.background
        plan, store = options.plan_growth, options.store_growth
        snapshot = self._model.session.snapshot
        if plan is None or store is None:
            return
        self._app.notify("planning again ...", timeout=KEEP)
        try:
            growth = await background.fetch(
                "growth", partial(plan, snapshot, overrides)
            )
            self._app.notify("")
            if growth.is_empty:
                self._app.notify(f"nothing joins: it {growth.describe()}", timeout=KEEP)
                return
            choices = await self._ask_choices(growth)
            if choices is None:
                return
            command, expected = await background.fetch(
                "growth", partial(store, snapshot, growth, choices)
            )
        except AutoexpError as error:
            self._app.notify("")
            own = Problem(error.problem, where=error.where, hint=error.hint)
            faults = getattr(error, "problems", ()) or (own,)
            rows = (render_fault(one, (), 96) for one in faults)
            page = Page("", tuple(row for fault in rows for row in fault))
            title = "Nothing joins, and nothing was changed"
            self._app.push_screen(ReaderScreen(self._context, title, [page]))
            return
        self._overrides = ""
        self.send(command, expected)
        self._app.notify(f"sent: it {growth.describe()}")

    async def _ask_choices(self, growth: Growth) -> Choices | None:
        """What a person wants of a growth; None: to leave all as it is."""
        given: dict[str, Any] = {}
        for group, question in ask_ways(growth):
            reply = await self._ask(question)
            if reply is None:
                return None
            given[group] = reply.choice
        reply = await self._ask(ask_growth(growth, Choices(**given)))
        if reply is None:
            return None
        given["run"] = reply.choice or "all"
        return Choices(**given)

    def show_faults(
        self, faults: Sequence[Problem], on_close: Callable[[], None]
    ) -> None:
        """Show why there is no plan; `on_close` is called when there is none left."""
        self._app.notify("")
        self._model.failed = True  # below the errors stands what was done
        self._on_change()
        if self._faults is not None:
            self._faults.take(faults)
            return

        def done(is_closed: bool | None) -> None:  # noqa: FBT001 - Textual's
            self._faults = None
            if is_closed and self._context.model.session.snapshot.plan is None:
                on_close()
            elif is_closed:
                text = "the plan of before stands; ctrl+r plans again"
                self._app.notify(text, timeout=KEEP)

        def plan_again() -> None:
            if self._context.options.replan is not None:
                self._model.failed = False
                self._on_change()
                self._context.options.replan()

        self._faults = FaultsScreen(self._context, faults, plan_again)
        self._app.push_screen(self._faults, done)

    def show_changes(self) -> None:
        if self.changes is None:
            self._app.notify("no earlier plan of this config is known")
            return
        page = Page("", self.changes.render(self._context.find_utc()))
        reader = ReaderScreen(self._context, "Since the last plan", [page])
        self._app.push_screen(reader)


def count_attempts(jobs: Sequence[JobView]) -> Mapping[str, int]:
    """How many attempts each job had when the person looked."""
    return {job.name: len(job.record.attempts) for job in jobs}


def _is_same(shown: Sequence[JobView], now: Sequence[JobView]) -> bool:
    """Whether what a question is about is as it was shown."""
    before, after = (
        [(job.name, job.record.state, len(job.record.attempts)) for job in jobs]
        for jobs in (shown, now)
    )
    return before == after


def _explain_nothing(what: str, scope: Scope) -> str:
    """Why a verb has nothing to do; marks are named, they may be out of sight."""
    if not scope.by_marks:
        return f"nothing here {what}"
    which = "the marked job" if len(scope.jobs) == 1 else f"the {scope.words}"
    none = "it" if len(scope.jobs) == 1 else "none of them"
    return f"{which}: {none} {what}   esc clears marks"
