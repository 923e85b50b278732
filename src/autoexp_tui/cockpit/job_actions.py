"""What upper-case keys do: ask, then send a command. Nothing is sent unasked.

A kill is sent only after its countdown; while that runs nothing has left the screen,
so stopping it, or losing the terminal, leaves everything as it was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

from textual.timer import Timer

from autoexp_tui.cockpit.dialogs.question import Answered, QuestionScreen
from autoexp_tui.cockpit.logfile import open_regular
from autoexp_tui.cockpit.render.job_questions import (
    ask_kill,
    ask_resubmit,
    ask_skip,
    render_overrides,
    render_place,
)
from autoexp_tui.cockpit.render.questions import (
    COUNTDOWN,
    Choice,
    Question,
    ask_approval,
    ask_submit,
    select_asking,
)
from autoexp_tui.cockpit.spans import Line, outside
from autoexp_tui.cockpit.state import answers
from autoexp_tui.cockpit.state.kill_cost import (
    list_checkpoint_places,
    mark_unlooked,
    select_killable,
)
from autoexp_tui.conditions.kinds import Approval
from autoexp_tui.effects.effects import ComposeJob
from autoexp_tui.events.events import CommandRefused, EffectOrdered
from autoexp_tui.model.commands import (
    Acknowledge,
    Answer,
    Command,
    Kill,
    Pause,
    Resume,
)
from autoexp_tui.model.event import Event
from autoexp_tui.model.wording import plural, sentence
from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    from autoexp_tui.cockpit.app import CockpitApp
    from autoexp_tui.cockpit.state.causes import CauseGroup
    from autoexp_tui.cockpit.state.session import JobView, Scope, SessionView
    from autoexp_tui.model.snapshot import Snapshot

MOST_SHOWN = 1 << 16
"""Bytes of each file that an approval shows."""


Files: TypeAlias = Sequence[tuple[str, str]]
"""Path and text of each file that belongs to an approval."""


@dataclass(frozen=True, slots=True)
class Countdown:
    """A command that will be sent unless it is stopped."""

    command: Command
    expected: Mapping[str, int]
    words: str
    due: float
    """Monotonic seconds."""


class Acts:
    """Asks and sends, for one app."""

    def __init__(self, app: CockpitApp) -> None:
        self._app = app
        self.countdown: Countdown | None = None
        self._timer: Timer | None = None
        self._unanswered: set[str] = set()
        """Ids of the commands of which no event has told yet."""

    # --------------------------------------------------------------------- sending
    def send(self, command: Command, expected: Mapping[str, int] | None = None) -> None:
        """Hand a command to the engine; what came of it is in later events."""
        self._app.bridge_hurry()
        sent = self._app.handle.send(command, by="cockpit", expected=expected)
        self._unanswered.add(sent)

    def hear(self, snapshot: Snapshot) -> None:
        """Say which of the commands sent here were refused, and why."""
        if not self._unanswered:
            return
        told = [one for one in snapshot.events if one.command_id in self._unanswered]
        self._unanswered.difference_update(
            one.command_id for one in told if not _is_composed(one.event)
        )
        for record in told:
            if isinstance(record.event, CommandRefused):
                reason = outside(sentence(record.event.why, snapshot.now))
                self._app.say(f"refused: {reason}", "failed", keep=True)

    def _sent(self, jobs: Sequence[JobView], command: Command, words: str) -> None:
        self.send(command, answers.count_attempts(jobs))
        self._app.say(words)
        self._app.desk.marks.difference_update(job.name for job in jobs)

    def _ask(
        self,
        question: Question | None,
        nothing: str,
        answered: Callable[[Answered], None],
        **options: Any,
    ) -> QuestionScreen | None:
        if question is None:
            self._app.say(nothing, "warning")
            return None

        def done(answer: Answered | None) -> None:
            if answer is not None:
                answered(answer)

        screen = QuestionScreen(self._app.skin, question, **options)
        self._app.push_screen(screen, done)
        return screen

    def _has_changed(self, shown: Sequence[JobView]) -> bool:
        """Whether jobs moved while a question showed them; if so, say that."""
        now = self._app.desk.session.list_jobs([job.name for job in shown])
        changed = answers.has_changed(shown, now)
        if changed:
            self._app.say("changed while you read: look again", "warning")
        return changed

    def _renewed(self, scope: Scope) -> Scope:
        """The scope of a question that is asked again, its jobs as they are now."""
        names = [job.name for job in scope.jobs]
        return replace(scope, jobs=self._app.desk.session.list_jobs(names))

    # ------------------------------------------------------------------------ kill
    def kill(self, scope: Scope) -> None:
        """Ask about a kill; after `y` the countdown begins."""
        if self.countdown is not None:
            self._app.say("another countdown runs: U stops it", "warning")
            return
        session, look = self._app.desk.session, self._app.options.checkpoints
        shown = select_killable(scope.jobs)
        places = list_checkpoint_places(shown, session) if look else ()
        question = ask_kill(scope, session, mark_unlooked(places))

        def answered(answer: Answered) -> None:
            self._begin_kill(scope, shown)

        screen = self._ask(question, _none_of(scope, "can be ended"), answered)

        def looked(found: Any, problem: BaseException | None) -> None:
            if problem is not None:
                raise problem
            known = ask_kill(scope, session, found)
            if screen is not None and known is not None:
                screen.turn_into(known)

        if look and places:
            work = partial(look, places)
            self._app.background.call("checkpoints", work, looked)

    def _begin_kill(self, scope: Scope, shown: Sequence[JobView]) -> None:
        session = self._app.desk.session
        now = session.list_jobs([job.name for job in shown])
        still = select_killable(now)
        if answers.count_attempts(still) != answers.count_attempts(shown):
            self._app.say("changed while you read: look again", "warning")
            self.kill(replace(scope, jobs=now))
            return
        names = tuple(job.name for job in still)
        self.countdown = Countdown(
            command=Kill(jobs=names, reason="killed in the cockpit"),
            expected=answers.count_attempts(still),
            words=plural(len(names), "job"),
            due=self._app.clock.monotonic() + COUNTDOWN,
        )
        self._timer = self._app.set_interval(0.25, self.tick)
        self.tick()

    def tick(self) -> None:
        """Show what is left of a countdown; send when nothing is."""
        pending = self.countdown
        if pending is None:
            return
        left = pending.due - self._app.clock.monotonic()
        if left <= 0:
            self.drop()
            self.send(pending.command, pending.expected)
            self._app.desk.marks.difference_update(pending.expected)
            self._app.say(f"ordered to end: {pending.words}")
        else:
            text = f"{pending.words} will be killed in {ceil(left)} s   U stops it"
            self._app.say(text, "failed")

    def undo(self) -> None:
        """Stop a countdown: nothing was sent."""
        if self.countdown is None:
            self._app.say("no countdown runs")
            return
        self.drop()
        self._app.say("stopped: nothing was sent, everything goes on")

    def drop(self) -> None:
        """No countdown any more: it was sent, stopped, or the screen goes."""
        self.countdown = None
        if self._timer is not None:
            self._timer.stop()
            self._timer = None

    # ---------------------------------------------------------------------- submit
    def submit(self, scope: Scope) -> None:
        """Ask what to submit: of the plan that is shown, and of no other."""
        desk = self._app.desk
        session = desk.session
        shown = _plan_id(session)

        def answered(answer: Answered) -> None:
            if _plan_id(desk.session) != shown:
                self._app.say("planned again while you read: look again", "warning")
                self.submit(self._renewed(scope))
            elif answer.choice is not None:
                jobs = session.list_jobs(answer.choice.jobs)
                words = f"submitting {plural(len(jobs), 'job')}"
                self._sent(jobs, answers.build_submit(answer.choice, shown), words)

        families = desk.words.of_families
        question = ask_submit(scope, session, desk.rates, families)
        self._ask(question, desk.opening or "nothing is planned or held", answered)

    # -------------------------------------------------------------------- resubmit
    def resubmit(self, scope: Scope) -> None:
        """Ask how to bring jobs back."""
        session = self._app.desk.session
        jobs = [job for job in scope.jobs if answers.can_resubmit(job)]
        names = [job.name for job in jobs]

        def check(choice: Choice | None, text: str) -> object:
            return answers.build_resubmit(names, choice, text) if choice else None

        def preview(choice: Choice, text: str) -> Sequence[Line]:
            if choice.id != "overrides":
                return ()
            return (*render_overrides(jobs, text.split()), render_place(jobs))

        def answered(answer: Answered) -> None:
            if self._has_changed(jobs):
                self.resubmit(self._renewed(scope))
            elif answer.choice is not None:
                command = answers.build_resubmit(names, answer.choice, answer.text)
                self._sent(jobs, command, f"resubmitting {plural(len(jobs), 'job')}")

        question = ask_resubmit(scope, session)
        nothing = _none_of(scope, "ended in a way that R mends")
        self._ask(question, nothing, answered, check=check, preview=preview)

    # ---------------------------------------------------------------- skip or waive
    def skip(self, scope: Scope) -> None:
        """Ask whether to skip jobs, or to waive a condition of one."""
        session = self._app.desk.session
        jobs = [job for job in scope.jobs if answers.can_skip(job)]
        names = [job.name for job in jobs]

        def check(choice: Choice | None, text: str) -> object:
            return answers.build_skip(names, choice, text) if choice else None

        def answered(answer: Answered) -> None:
            if self._has_changed(jobs):
                self.skip(self._renewed(scope))
            elif answer.choice is not None:
                command = answers.build_skip(names, answer.choice, answer.text)
                word = "skipping" if answer.choice.id == "skip" else "waiving for"
                self._sent(jobs, command, f"{word} {plural(len(jobs), 'job')}")

        question = ask_skip(scope, session)
        self._ask(question, _none_of(scope, "waits"), answered, check=check)

    def acknowledge(self, group: CauseGroup) -> None:
        """Say that the warnings of a cause were seen."""
        warnings = tuple(one.warning_id for one in group.warnings)
        self.send(Acknowledge(warnings=warnings, limits=group.limits))
        self._app.say(f"{plural(group.acknowledgeable, 'warning')} acknowledged")

    # -------------------------------------------------------------------- approval
    def answer(self, scope: Scope) -> None:
        """Show what asks, one after the other: of the scope, else all that ask."""
        session = self._app.desk.session
        jobs = select_asking(scope.jobs) or select_asking(session.jobs)
        if not jobs:
            self._app.say("nothing asks", "warning")
            return
        self._ask_next([job.name for job in jobs], 0)

    def _ask_next(self, names: Sequence[str], place: int) -> None:
        """Ask about the next that still asks; all but that is as it is now."""
        if place >= len(names):
            return
        jobs = select_asking(self._app.desk.session.list_jobs(names[place : place + 1]))
        if not jobs:
            self._ask_next(names, place + 1)
            return
        job = jobs[0]
        many = f"{place + 1} of {len(names)}" if len(names) > 1 else ""

        def asked(files: Files) -> None:
            self._show_approval(job, files, many, then)

        def then() -> None:
            self._ask_next(names, place + 1)

        self._read_shown(job, asked)

    def _read_shown(self, job: JobView, then: Callable[[Files], None]) -> None:
        """Read what belongs to an approval."""
        paths = [
            path
            for spec in job.record.spec.start_conditions
            if isinstance(spec, Approval)
            for path in spec.show_files
        ]

        def shown(files: Any, problem: BaseException | None) -> None:
            if problem is not None:
                raise problem
            then(files)

        key = f"approval {job.name}"
        self._app.background.call(key, lambda: read_files(paths), shown)

    def _show_approval(
        self, job: JobView, files: Files, many: str, then: Callable[[], None]
    ) -> None:
        ask = job.record.ask
        if ask is None:
            return
        session = self._app.desk.session

        def sent(*, approved: bool) -> None:
            command = Answer(job=job.name, digest=ask.digest, approved=approved)
            word = "approved" if approved else "refused"
            self._sent([job], command, f"{word}: sent with what you saw")
            then()

        def read_again(now: Files) -> None:
            if now == files:
                sent(approved=True)
                return
            self._app.say("its files changed while you read: look again", "warning")
            self._show_approval(job, now, many, then)

        def answered(answer: Answered) -> None:
            if answer.key == "y":
                self._read_shown(job, read_again)
            else:
                sent(approved=False)

        question = ask_approval(job, ask, files, many, session)
        self._ask(question, "", answered)

    # ----------------------------------------------------------------------- pause
    def pause_or_resume(self) -> None:
        """Pause submission, or resume it; what runs goes on either way."""
        if self._app.desk.session.snapshot.paused is not None:
            self.send(Resume())
            self._app.say("submission resumes")
        else:
            self.send(Pause())
            self._app.say("submission pauses; what runs goes on. P resumes")


def _plan_id(session: SessionView) -> str:
    plan = session.snapshot.plan
    return plan.plan_id if plan is not None else ""


def _is_composed(event: Event) -> bool:
    """Whether a job is planned anew first: that may still be refused."""
    return isinstance(event, EffectOrdered) and isinstance(event.effect, ComposeJob)


def _none_of(scope: Scope, what: str) -> str:
    """Why a verb has nothing to do; marks are named, they may be out of sight."""
    if not scope.by_marks:
        return f"nothing here {what}"
    which = "the marked job" if len(scope.jobs) == 1 else f"the {scope.words}"
    none = "it" if len(scope.jobs) == 1 else "none of them"
    return f"{which}: {none} {what}   esc clears marks"


def read_files(paths: Sequence[str]) -> Files:
    """The beginning of each file as clean text; one that cannot be read says why."""
    return [(path, _read_file(path)) for path in paths]


def _read_file(path: str) -> str:
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            data = file.read(MOST_SHOWN + 1)
    except FileNotFoundError:
        return "(not there yet)"
    except OSError as error:
        return f"(cannot be read: {error.strerror or error})"
    text = clean(data[:MOST_SHOWN].decode("utf-8", "replace"), keep_newlines=True)
    more = os.path.getsize(path) - MOST_SHOWN if len(data) > MOST_SHOWN else 0
    return f"{text}\n({more} further bytes are not shown)" if more > 0 else text
