"""The palette: finds commands, jobs, stages, sessions and themes by some letters of
their names, the best match first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from textual import events
from textual.fuzzy import Matcher

from autoexp_tui.cockpit.context import CockpitContext
from autoexp_tui.cockpit.dialogs.question import Overlay
from autoexp_tui.cockpit.keymap import PARTS, Pane
from autoexp_tui.cockpit.spans import Line, Span, cut, fit, outside
from autoexp_tui.cockpit.state.parameters import describe_job
from autoexp_tui.cockpit.themes import list_themes
from autoexp_tui.cockpit.widgets.bars import Prompt
from autoexp_tui.model.policy import find_policy

if TYPE_CHECKING:
    from autoexp_tui.model.snapshot import SessionBrief

Kind: TypeAlias = Literal["command", "stage", "job", "policy", "session", "theme"]
_FEW: Final = ("stage", "policy", "theme")
_WEIGHTS: Final = {"command": 1.2, **dict.fromkeys(_FEW, 2.0)}
"""What there are few of stands before what there are many of, when they match alike."""


class Entry(NamedTuple):
    """Something that the palette finds."""

    kind: Kind
    id: str
    text: str
    """What is searched, and shown."""
    key: str = ""


class PaletteScreen(Overlay[Entry | None]):
    """Finds an entry by its letters; enter closes with it."""

    AUTO_FOCUS = "#field"
    edge_role = "accent"
    ROWS_SHOWN = 12

    def __init__(
        self, context: CockpitContext, pane: Pane, only: Kind | None = None
    ) -> None:
        """`only`: find nothing but that kind, and list all of it."""
        super().__init__(context)
        self._chosen, self._only = 0, only
        usual = "a command, job, stage, session or theme"
        self.field: Prompt = Prompt(id="field", placeholder=only or usual)
        keymap, parts = context.keymap, context.parts
        self._commands = [
            Entry("command", one.id, one.help, keymap.key(one.id))
            for one in keymap.at(pane, replay=context.is_replay, parts=parts)
        ]
        every = [*self._commands, *self._list_others()]
        self._entries = [one for one in every if only in (None, one.kind)]
        self._query, self._found = "", self._list_usual()
        self._matching: Sequence[Entry] = self._entries
        """All that match the query, of which a longer one matches some."""

    def show_sessions(self, sessions: Sequence[SessionBrief]) -> None:
        """Find these as well: they are listed only once the palette is open."""
        model = self.context.model
        self._entries += [
            Entry("session", one.id, f"{outside(f'{one.id} {one.name}')}{shown}")
            for one in sessions
            if one.id != model.session.id
            for shown in (", compared: take it away" * (one.id in model.others),)
        ]
        self._search("")
        self._search(self.field.value)
        self.layout_box()

    def _list_others(self) -> Iterator[Entry]:
        model = self.context.model
        for stage in model.stages:
            yield Entry("stage", stage.name, outside(stage.name))
        for name in sorted(self.context.parts - PARTS):
            policy = find_policy(name)
            title = policy.title if policy else ""
            yield Entry("policy", name, outside(title or name))
        for theme in list_themes():
            yield Entry("theme", theme, theme)
        for job in model.session.jobs:
            label = describe_job(job.record.spec, model.words.parameters)
            yield Entry("job", job.name, f"{outside(job.name)}  {label}")

    def _list_usual(self) -> Sequence[Entry]:
        if self._only is not None:
            return self._entries
        return [one for one in self._commands if not one.id.startswith("move.")]

    def _search(self, query: str) -> None:
        """Find what has the letters of `query`, in their order."""
        words = query.strip()
        known = self._matching if words.startswith(self._query) else self._entries
        matcher, scored = Matcher(words or " "), []
        for one in known if words else ():
            extra = f" {one.id}" if one.kind == "command" else ""
            if score := matcher.match(f"{one.text}{extra} {one.kind}"):
                score *= 2.0 if one.text.lower().startswith(words.lower()) else 1.0
                scored.append((score * _WEIGHTS.get(one.kind, 1.0), one))
        scored.sort(key=lambda pair: -pair[0])
        self._matching = [one for _, one in scored] if words else self._entries
        self._query = words
        self._found = self._matching if words else self._list_usual()

    def build_title(self) -> Line:
        number = len(self._found)
        some = f"{self.ROWS_SHOWN} of {number} " * (number > self.ROWS_SHOWN)
        return (Span(" Find ", "strong"), Span(some, "muted"))

    def build_fixed(self, cells: int) -> Sequence[Line]:
        found, most, first = self._found, self.ROWS_SHOWN, self._find_first()
        rows: list[Line] = []
        for place, one in enumerate(found[first : first + most], first):
            is_chosen = place == self._chosen
            mark = Span("> " if is_chosen else "  ", "accent")
            what = one.key if one.kind == "command" else one.kind
            key = Span(fit(what, 10), "key" if one.kind == "command" else "muted")
            label = Span(one.text, "strong" if is_chosen else "text")
            rows.append(cut((mark, key, label), cells))
        if not found:
            text = f"  Nothing fits {outside(self._query)}. esc closes."
            text = text if self._query else "  There is none, or it is looked for."
            rows.append(cut((Span(text, "muted"),), cells))
        return [(Span(":", "key"),), (), *rows, *([()] * (most - len(rows)))]

    def _find_first(self) -> int:
        """The place of the first that is shown."""
        most = self.ROWS_SHOWN
        return max(0, min(self._chosen - most + 1, len(self._found) - most))

    async def click_fixed(self, place: int, content: Line, cell: int) -> None:
        at = self._find_first() + place - 2  # behind the field and an empty line
        if place >= 2 and at < len(self._found):
            self.finish(self._found[at])

    def find_field_row(self) -> int | None:
        return 0

    def on_input_changed(self, event: Prompt.Changed) -> None:
        event.stop()
        self._chosen = 0
        self._search(event.value)
        self.layout_box()

    async def process_key(self, event: events.Key) -> None:
        step = {"down": 1, "up": -1}.get(event.key, 0)
        if event.key in ("escape", "ctrl+c", "ctrl+q"):
            self.finish(None)
        elif event.key == "enter":
            self._search(self.field.value)  # a change may not have been told yet
            chosen = self._found[self._chosen : self._chosen + 1]
            if chosen:
                self.finish(chosen[0])
        elif step:
            self._chosen = max(0, min(self._chosen + step, len(self._found) - 1))
            self.layout_box()
        else:
            await self.field.take(event)
