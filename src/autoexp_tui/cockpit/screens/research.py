"""Mode 7: a research loop."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final

from autoexp_tui.actions.policy_commands import OrderRefused
from autoexp_tui.cockpit.keymap import Pane
from autoexp_tui.cockpit.render.questions import AnswerError, Choice, Question
from autoexp_tui.cockpit.render.research import ResearchOutline, build_outline
from autoexp_tui.cockpit.render.research_rows import PROMPT
from autoexp_tui.cockpit.screens.outline import Order, OutlineScreen
from autoexp_tui.cockpit.spans import Line, Span, line, outside
from autoexp_tui.model.commands import AnswerAsk, Command
from autoexp_tui.model.ids import digest_question
from autoexp_tui.model.masking import NO_RULES, MaskRules, mask_override, mask_text
from autoexp_tui.research.commands import (
    AcknowledgeCondition,
    Consult,
    EndCall,
    MoveItem,
    PutItem,
    RemoveItem,
    TellAgent,
    check_item,
)
from autoexp_tui.research.decide import ResearchPolicy
from autoexp_tui.research.effects import list_planned
from autoexp_tui.research.state import PART, Consultation, Item, Research, Warned
from autoexp_tui.text.spelling import duration, format_number, plural

if TYPE_CHECKING:
    from autoexp_tui.model.policy import Policy
    from autoexp_tui.model.state import Ask


class ResearchScreen(OutlineScreen):
    """What there is, what the agent does, and all of the row under the cursor."""

    first_pane: Pane = "research"
    policy: ClassVar[type[Policy]] = ResearchPolicy
    number: ClassVar[str] = "7"
    heading: ClassVar[str] = "Research"
    nothing: ClassVar[str] = "There is no research."
    lower: ClassVar[tuple[str, str]] = ("Agent and budgets", "")
    explained: ClassVar[Mapping[str, str]] = {
        "approve": "nothing asks",
        "reject": "this is no question, no item of the list and no new warning",
        "edit": "only an item of the list can be edited",
        "move": "only an item of the list can be moved, where there are others",
        "end": "no call is under way",
        **dict.fromkeys(("insert", "tell", "consult"), "the research has ended"),
    }
    outline: ResearchOutline | None = None

    def find_outline(self) -> ResearchOutline | None:
        session = self.model.session
        if self.outline is None or self.outline.session is not session:
            part = session.snapshot.parts.get(PART)
            self.outline = None
            if isinstance(part, Research):
                self.outline = build_outline(part, session)
        return self.outline

    def find_reader(self) -> tuple[object, Callable[[], object]]:
        """The size of what the row's call saw."""
        call = self._find_call()
        if call is None or not call.prompt_sha256:
            return None, int
        return call, partial(_measure, self._find_file(call, PROMPT))

    def _find_file(self, call: Consultation, name: str) -> str:
        assert self.outline is not None, "a call is of an outline"
        return os.path.join(self.outline.loop.find_place(call), name)

    def _find_call(self) -> Consultation | None:
        return self.outline.find_call(self.pane.key) if self.outline else None

    def _find_warning(self) -> Warned | None:
        """The warning under the cursor, where nobody acknowledged it."""
        kind, _, key = self.pane.key.partition(":")
        known = self.outline.research.warnings if self.outline else {}
        found = known.get(key) if kind == "warning" else None
        return None if found is None or found.acknowledged_by else found

    def list_asks(self) -> Mapping[str, Ask]:
        """The question under the cursor, else all of the research."""
        asks = super().list_asks()
        name = self.outline.find_ask(self.pane.key) if self.outline else ""
        return {name: asks[name]} if name in asks else asks

    def list_orders(self) -> Mapping[str, Callable[[], Order]]:
        if self.outline is None:
            return {}
        found: dict[str, Callable[[], Order]] = {}
        session, research = self.model.session, self.outline.research
        item, items = self.outline.find_item(self.pane.key), research.items
        asks, mask = [*self.list_asks().items()], session.mask
        if not self.is_over:
            place = items.index(item) if item else len(items)
            planned = list_planned(session.snapshot.pending)
            found["insert"] = partial(ask_insert, research, place, planned)
            found["tell"] = ask_note
            found["consult"] = partial(ask_consult, research)
        if item is not None:
            found["edit"] = partial(ask_edit, research, item, mask)
            found["reject"] = partial(ask_removal, research, item, mask)
            if len(items) > 1:
                found["move"] = partial(ask_move, research, item, mask)
        elif (warning := self._find_warning()) is not None:
            seen = AcknowledgeCondition(key=warning.key)
            found["reject"] = lambda: (seen, "warning acknowledged")
        elif len(asks) == 1:
            found["reject"] = partial(ask_refusal, *asks[0], mask)
        calls = (
            self._find_call(),
            research.find_call("research"),
            research.find_call("fixer"),
        )
        running = (one for one in calls if one and one.ended_lived is None)
        if (one := next(running, None)) is not None:
            found["end"] = partial(ask_end_call, one)
        return found

    # Looking

    async def action_research_diff(self) -> None:
        """The change of code that the row's call left."""
        call = self._find_call()
        if call is None or call.code is None:
            self.notify("it changes no code")
        else:
            self._show_file(call, "The change", "code.patch")

    async def action_research_transcript(self) -> None:
        if (call := self._find_call()) is not None:
            self._show_file(call, "Transcript", "transcript.log")
        else:
            self.notify("no agent was called for it")

    def _show_file(self, call: Consultation, what: str, name: str) -> None:
        files = {"": self._find_file(call, name)}
        self.run_worker(self.show_files(f"{what} of {call.id}", files))


def _measure(path: str) -> int | None:
    """The size of a file; None: it is not there."""
    try:
        return os.stat(path).st_size
    except OSError:
        return None


_FIELDS: Final[Mapping[str, tuple[str, str]]] = {
    "id": ("name", "a name that no item and no run has"),
    "overrides": ("overrides", "key=value key=value"),
    "note": ("note", "what it is for"),
    "hypothesis": ("hypothesis", "the id of one, or words"),
    "expects": ("expects", "loss < 2.5 after step 1000"),
    "kill_criteria": ("ends if", "loss > 4 after step 1000 or plateau 1% in 500 steps"),
    "depends_on": ("after", "items and runs that must have ended before"),
    "gpus": ("GPUs", "how many; empty: as its jobs say"),
    "config_ref": ("config", "of its own; empty: the session's"),
    "baseline_run": ("to beat", "a run, where nothing is expected"),
}
"""Fields of an item: what each is called, and how it is written."""


def ask_refusal(name: str, ask: Ask, mask: MaskRules) -> Question:
    """What X asks of a question that stands open."""
    digest = digest_question(name, ask.prompt, ask.lines)

    def build(_: Choice, text: str) -> Command:
        return AnswerAsk(ask=name, digest=digest, approved=False, reason=text.strip())

    rows: list[Line] = [
        line(Span(f"{at:>3} ", "muted"), outside(mask_text(text, mask), 2000))
        for at, text in enumerate(ask.lines, 1)
    ]
    return Question(
        title=f"Refuse {outside(name, 60)}?",
        lines=(line(Span(outside(mask_text(ask.prompt, mask), 4000), "strong")), *rows),
        stay="Decide later",
        confirm="refuse all of it",
        choices=(Choice("refuse", "refuse all of it", asks="reason"),),
        build=build,
    )


def ask_removal(research: Research, item: Item, mask: MaskRules) -> Question:
    """What X asks of an item."""
    behind = [one.id for one in research.items if item.id in one.depends_on]
    waits = f"{', '.join(behind)} waits for it, and can never begin." if behind else ""
    return Question(
        title=f"Take {outside(item.id)} out of the list?",
        lines=(_describe_item(item, mask), line(Span(outside(waits), "warning"))),
        stay="Leave it",
        confirm="take it out",
        choices=(Choice("remove", f"take {outside(item.id)} out"),),
        build=lambda *_: RemoveItem(item=item.id),
    )


def ask_move(research: Research, item: Item, mask: MaskRules) -> Question:
    """What M asks: to the front, a place up or down, or to a place by its number."""
    last = len(research.items) - 1
    at = next(at for at, one in enumerate(research.items) if one.id == item.id)
    ways = {
        "first": ("to the front: the first that may begin", 0),
        "up": ("up by one place", max(0, at - 1)),
        "down": ("down by one place", min(last, at + 1)),
        "last": ("to the end", last),
    }

    def build(choice: Choice, text: str) -> Command:
        if choice.id in ways:
            return MoveItem(item=item.id, place=ways[choice.id][1])
        if not text.strip().isdecimal() or not 1 <= int(text) <= last + 1:
            raise AnswerError(f"type a place from 1 to {last + 1}")
        return MoveItem(item=item.id, place=int(text) - 1)

    choices = [Choice(name, label) for name, (label, _) in ways.items()]
    place = Choice("place", "to a place", asks=f"place, from 1 to {last + 1}")
    told = f"It is at place {at + 1}. Answers of the agent leave it where you put it."
    return Question(
        title=f"Move {outside(item.id)}?",
        lines=(_describe_item(item, mask), line(told)),
        stay="Leave it there",
        confirm="move it",
        choices=(*choices, place),
        build=build,
    )


def ask_edit(research: Research, item: Item, mask: MaskRules) -> Question:
    """What E asks: what an item is to be."""
    item = replace(item, jobs=())

    def fill(texts: Mapping[str, str]) -> Command:
        made = _require_sound(research, _read_item(item, texts, mask), None)
        if made == item:
            raise AnswerError("nothing is changed")
        return PutItem(item=made)

    told = "It is planned anew; what does not plan is told, and changes nothing."
    return Question(
        title=f"Edit {outside(item.id)}?",
        lines=(line(told),),
        stay="Leave it",
        confirm="edit it",
        choices=tuple(_list_fields(item, mask, without="id")),
        fill=fill,
    )


def ask_insert(research: Research, place: int, planned: Collection[str]) -> Question:
    """What I asks: another item, and the place (from 0) where it is put. `planned`:
    names of items that are being planned, and are in no list yet."""
    names = (f"hand_{at}" for at in count(1))
    free = (one for one in names if not (one in planned or research.is_known(one)))
    name = next(free)

    def fill(texts: Mapping[str, str]) -> Command:
        item = _read_item(Item(id=texts["id"].strip()), texts, NO_RULES)
        return PutItem(item=_require_sound(research, item, place), place=place)

    told = f"It is put at place {place + 1} of the list. Answers leave it there."
    return Question(
        title="Insert an item?",
        lines=(line(told),),
        stay="Insert none",
        confirm="insert it",
        choices=tuple(_list_fields(Item(id=name), NO_RULES)),
        fill=fill,
    )


def _list_fields(item: Item, mask: MaskRules, without: str = "") -> Sequence[Choice]:
    given = {
        "overrides": shlex.join(_show(one, mask) for one in item.overrides),
        "depends_on": " ".join(item.depends_on),
        "gpus": "" if item.gpus is None else str(item.gpus),
    }
    return [
        Choice(
            name,
            label,
            asks=f"{label}: {hint}",
            given=given[name] if name in given else _show(getattr(item, name), mask),
            optional=True,
        )
        for name, (label, hint) in _FIELDS.items()
        if name != without
    ]


def _show(text: str, mask: MaskRules) -> str:
    return outside(mask_override(text, mask), 4000)


def _read_item(item: Item, texts: Mapping[str, str], mask: MaskRules) -> Item:
    """The item with what was typed. What stands as it was shown is still what it was,
    secrets too. Raises AnswerError."""
    known = (*(getattr(item, name) for name in texts), *item.overrides)
    shown = {_show(one, mask): one for one in known if isinstance(one, str)}
    texts = {
        name: shown.get(text.strip(), text.strip()) for name, text in texts.items()
    }
    try:
        overrides = [shown.get(one, one) for one in shlex.split(texts["overrides"])]
    except ValueError as error:
        raise AnswerError(f"overrides: {error}") from error
    gpus = texts["gpus"]
    if gpus and not gpus.isdecimal():
        raise AnswerError("GPUs: type a number, or nothing")
    return replace(
        item,
        overrides=tuple(overrides),
        kill_criteria=texts["kill_criteria"],
        expects=texts["expects"],
        depends_on=tuple(texts["depends_on"].replace(",", " ").split()),
        gpus=int(gpus) if gpus else None,
        note=texts["note"],
        hypothesis=texts["hypothesis"],
        config_ref=texts["config_ref"],
        baseline_run=texts["baseline_run"],
    )


def _require_sound(research: Research, item: Item, place: int | None) -> Item:
    """The item as the engine takes it; raises AnswerError where it refuses it."""
    try:
        return check_item(research, item, place)
    except OrderRefused as refused:
        raise AnswerError(str(refused)) from None


def ask_note() -> Question:
    """What T asks."""
    return Question(
        title="Tell the agent?",
        lines=(line("Each context has it from now on, beside the goal."),),
        stay="Tell nothing",
        confirm="tell it",
        choices=(Choice("note", "a note", asks="note: what the agent should know"),),
        build=lambda _, text: TellAgent(text=text.strip()),
    )


def ask_consult(research: Research) -> Question:
    """What C asks: calls cost what those before them did."""
    told = ["The agent is called as soon as the least interval between calls is over."]
    if calls := research.calls.get("research", 0):
        mean = research.costs.get("research", 0.0) / calls
        cost = f", {format_number(mean)} each" if mean else ""
        told.append(f"So far {plural(calls, 'call')}{cost}.")
    if research.agents_wait is not None and not research.wants_mending:
        told.append("No agent is called before the present pause is over.")
    wait = research.options.min_interval_seconds
    return Question(
        title="Consult the agent now?",
        lines=tuple(line(one) for one in told),
        stay="Not now",
        confirm="consult it",
        choices=(Choice("consult", f"consult it, at least {duration(wait)} apart"),),
        build=lambda *_: Consult(),
    )


def ask_end_call(one: Consultation) -> Question:
    """What K asks. A countdown follows."""
    told = "Its processes are ended. What it has used is paid; its answer is not read."
    return Question(
        title=f"End the call {one.id}?",
        lines=(line(told),),
        stay="Let it answer",
        confirm="end it",
        danger=True,
        subject=f"the call {one.id}",
        choices=(Choice("end", f"end the call {one.id}"),),
        build=lambda *_: EndCall(consultation=one.id),
    )


def _describe_item(item: Item, mask: MaskRules) -> Line:
    told = _show(item.note, mask) or " ".join(
        _show(one, mask) for one in item.overrides
    )
    return line(Span(outside(told), "strong"))
