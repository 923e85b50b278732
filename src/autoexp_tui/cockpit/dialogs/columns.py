"""Which columns the table of jobs has, and in what order; kept for each config."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from textual import events

from autoexp_tui.cockpit.context import CockpitContext
from autoexp_tui.cockpit.dialogs.question import Overlay, build_keys
from autoexp_tui.cockpit.spans import Line, Span, cut, outside
from autoexp_tui.cockpit.widgets.bars import Prompt
from autoexp_tui.cockpit.widgets.job_panes import list_choosable, list_usual
from autoexp_tui.text.spelling import plural

if TYPE_CHECKING:
    from textual.app import App

    from autoexp_tui.model.specs import Plan

_LABELS: Final = {
    "stage": "stage",
    "name": "name of the job",
    "progress": "progress",
    "loss": "result",
    "trend": "trend of the loss",
    "time": "time that it ran",
    "id": "id that the executor gave it",
    "node": "node",
    "attempt": "number of its attempt",
}


def find_config(plan: Plan | None) -> str:
    """What a choice of columns belongs to: the config of a plan, or else its name."""
    if plan is None:
        return ""
    return f"{plan.config_dir} {plan.config_ref or plan.name}".strip()


class ColumnsScreen(Overlay[tuple[str, ...] | None]):
    """Switches columns on and off and moves them; closes with the ids of those that are
    on, none for the usual ones."""

    edge_role = "accent"
    most_cells: int = 76

    def __init__(self, context: CockpitContext) -> None:
        super().__init__(context)
        session, words = context.model.session, context.model.words
        self._usual = list_usual(session, words)
        self._all = list_choosable(session, words)
        self._take(context.model.columns or self._usual)
        self._here = self._ids[0]
        """The column under the cursor."""
        self._is_searching = False
        self.field: Prompt = Prompt(id="field", placeholder="words of a column")

    def _take(self, chosen: Sequence[str]) -> None:
        self._on = set(chosen)
        self._ids = [*dict.fromkeys((*chosen, *self._all))]

    def _list_found(self) -> Sequence[str]:
        """The columns that have all the words that are looked for."""
        words = self.field.value.lower().split()
        return [
            one
            for one in self._ids
            if all(word in self._describe(one).lower() for word in words)
        ]

    def _find_place(self, found: Sequence[str]) -> int:
        """The place of the cursor's column, else the first."""
        return found.index(self._here) if self._here in found else 0

    def _describe(self, name: str) -> str:
        kind, _, key = name.partition(":")
        return outside(f"{kind} {key}") if key else _LABELS.get(kind, outside(kind))

    def build_title(self) -> Line:
        return (
            Span(f" {plural(len(self._on), 'column')} of {len(self._ids)} ", "strong"),
        )

    def build_body(self, cells: int) -> Sequence[Line]:
        lines: list[Line] = []
        for place, name in enumerate(self._list_found()):
            is_here, is_on = name == self._here, name in self._on
            number = f"{place + 1}" if place < 9 else " "
            mark = Span("[x] " if is_on else "[ ] ", "accent" if is_on else "muted")
            words = Span(self._describe(name), "strong" if is_here else "text")
            pointer = Span("> " if is_here else "  ", "accent")
            lines.append(cut((pointer, Span(f"{number} ", "key"), mark, words), cells))
        return lines or [(Span("  No column has these words.", "muted"),)]

    def build_fixed(self, cells: int) -> Sequence[Line]:
        keys = (("space 1-9", "on or off"), ("< >", "move"), ("/", "find"))
        more = (("r", "the usual ones"), ("esc", "as it was"))
        search: Line = ()
        if self._is_searching:
            search = (Span("/", "key"),)
        elif self.field.value:
            search = (Span(f"/{outside(self.field.value)}", "accent"),)
        return [
            search,
            cut((Span("[Take]", "button"), *build_keys(keys)), cells),
            cut((Span("      "), *build_keys(more)), cells),
        ]

    def find_field_row(self) -> int | None:
        return 0 if self._is_searching else None

    def on_input_changed(self, event: Prompt.Changed) -> None:
        event.stop()
        found = self._list_found()
        if found and self._here not in found:
            self._here = found[0]
        self._show_cursor()

    async def process_key(self, event: events.Key) -> None:
        found, key = self._list_found(), event.key
        at = self._find_place(found)
        step = {"down": 1, "up": -1, "j": 1, "k": -1}.get(key, 0)
        if self._is_searching and key not in ("down", "up"):
            await self._search(event)
        elif step:
            self._search_on(on=False)
            if 0 <= at + step < len(found):
                self._here = found[at + step]
        elif key == "space" or (key.isdecimal() and key != "0"):
            place = at if key == "space" else int(key) - 1
            self._on ^= {*found[place : place + 1]}
        elif key in ("less_than_sign", "greater_than_sign"):
            place = at + (1 if key == "greater_than_sign" else -1)
            if 0 <= place < len(found):
                one, other = (self._ids.index(found[it]) for it in (at, place))
                self._ids[one], self._ids[other] = self._ids[other], self._ids[one]
        elif key == "slash":
            self._search_on(on=True)
        elif key == "r":
            self._take(self._usual)
        elif key == "enter":
            chosen = tuple(one for one in self._ids if one in self._on)
            self.finish(() if chosen == self._usual else chosen or ("stage",))
        elif key == "escape" and self.field.value:
            self.field.value = ""
        elif key in ("escape", "q", "ctrl+c", "ctrl+q"):
            self.finish(None)
        else:
            self.handle_scroll(key)
            return
        self._show_cursor()

    def click_body(self, place: int) -> None:
        """Switch a column on or off."""
        if place < len(found := self._list_found()):
            self._here = found[place]
            self._on ^= {self._here}
            self._show_cursor()

    async def _search(self, event: events.Key) -> None:
        if event.key in ("enter", "escape", "tab"):
            self._search_on(on=False)
        else:
            await self.field.take(event)

    def _search_on(self, *, on: bool) -> None:
        self._is_searching = on
        self.layout_box()  # a field that is not shown takes no focus
        self.set_focus(self.field if on else self.frame, scroll_visible=False)

    def _show_cursor(self) -> None:
        self.layout_box()
        at = self._find_place(self._list_found())
        self.frame.show_rows(at, at + 1)


async def load_columns(context: CockpitContext, app: App[Any]) -> None:
    """Give the table the columns that were kept for the config of its plan."""
    config = find_config(context.model.session.snapshot.plan)
    read = context.options.read_columns
    if read is None:
        return
    told, work = "the usual columns are shown", partial(read, config)
    found = await context.fetch_or_tell(app, "columns", work, told)
    context.model.columns = tuple(found or ())


async def choose_columns(context: CockpitContext, app: App[Any]) -> bool:
    """Let a person choose, and keep what was chosen; whether anything was."""
    chosen = await app.push_screen_wait(ColumnsScreen(context))
    if chosen is None:
        return False
    context.model.columns = chosen
    config = find_config(context.model.session.snapshot.plan)
    keep = context.options.keep_columns
    if keep is not None and config:
        told, work = "the columns are not kept", partial(keep, config, chosen)
        await context.fetch_or_tell(app, "keep columns", work, told)
    return True
