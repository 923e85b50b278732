"""Overlays that only tell: help, how jobs are made, errors of a plan; and the palette.

What the plan tells of a job is shown at once; records of megabytes are read off the
screen's thread."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from textual import events

from autoexp_tui.cockpit.context import KEEP, CockpitContext
from autoexp_tui.cockpit.dialogs.question import Overlay, build_keys
from autoexp_tui.cockpit.keymap import HELP_GROUPS, Command, Keymap, Pane, display_key
from autoexp_tui.cockpit.render.plan_findings import (
    Excerpt,
    find_excerpt,
    find_place,
    render_fault,
)
from autoexp_tui.cockpit.spans import (
    Line,
    Role,
    Span,
    cut,
    fit,
    line,
    outside,
    render_pairs,
    width,
    wrap,
)
from autoexp_tui.cockpit.state.parameters import Parameter, find_planned, format_value
from autoexp_tui.model.errors import AutoexpError, Problem
from autoexp_tui.model.masking import MaskRules, mask_override, mask_value
from autoexp_tui.planning.job_details import Entry, JobDetails, Origin
from autoexp_tui.sweep.points import STAGE_KEYS
from autoexp_tui.text.spelling import duration, plural

if TYPE_CHECKING:
    from textual.app import App

    from autoexp_tui.cockpit.state.session import JobView
    from autoexp_tui.model.specs import JobSpec, Plan

_ORIGINS: Final[dict[Origin, Role]] = {
    "changed": "warning",
    "swept": "accent",
    "override": "warning",
    "ours": "muted",
    "computed": "muted",
    "file": "muted",
    "given": "muted",
}
_ROLES: Final[dict[str, Role]] = {"+": "done", "-": "failed", "@": "accent"}
"""By the first character of a line of a unified diff."""


def render_diff(lines: Iterable[str]) -> Iterator[Line]:
    return (line(Span(text, _ROLES.get(text[:1], "text"))) for text in lines)


_SET: Final = frozenset({"changed", "swept", "override"})
"""Origins of values that somebody chose for this run."""
_WIDEST_KEY: Final = 48
_NAMES: Final = {one: "set by autoexp" if one == "ours" else one for one in _ORIGINS}
_WIDEST_ORIGIN: Final = max(map(len, _NAMES.values()))
_LONG: Final = 4000
"""Characters of one value, or line of a script."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a reader: what it is called, its lines."""

    title: str
    lines: tuple[Line, ...]


def build_pages(
    plan: Plan, jobs: Sequence[JobSpec], details: Sequence[JobDetails] = ()
) -> tuple[Page, ...]:
    """How one job is made, or what differs between two; without details what the plan
    tells, until they are read."""
    known = details or [JobDetails()] * len(jobs)
    if len(jobs) == 2:
        first, second = zip(jobs, known, strict=True)
        pages = _build_diff_pages(first, second, plan.mask)
    else:
        pages = (
            Page("Overrides", tuple(_render_overrides(plan, jobs[0]))),
            Page("Config", tuple(_render_config(known[0]))),
            Page(
                "Script",
                tuple((Span(outside(text, _LONG)),) for text in known[0].script),
            ),
        )
    if details:
        return pages
    reading = ((Span("It is being read.", "muted"),),)
    return (pages[0], Page("Config", reading), Page("Script", reading))


def _render_overrides(plan: Plan, job: JobSpec) -> Iterator[Line]:
    mask, swept = plan.mask, job.parameters
    if job.planned is not None:  # what the sweep says, whatever it runs with by now
        planned = (one.parameters for one in plan.jobs if one.name == job.name)
        swept = next(planned, {})
    values = {key: mask_value(key, value, mask) for key, value in swept.items()}
    pairs = [(key, format_value(value)) for key, value in values.items()]
    sections = [("Swept", "as written in the sweep", pairs)]
    if job.planned is not None:
        changed = []
        for key, value in job.own_values.items():
            before = mask_value(key, find_planned(job, Parameter(key, key)), mask)
            text = f"{format_value(mask_value(key, value, mask))}  (planned: {before})"
            changed.append((key, text))
        sections.append(("Changed", "it runs with these values", changed))
    for title, note, overrides in (
        ("Overrides", "as Hydra gets them", job.overrides),
        ("Of the command line", "for every job", plan.overrides),
    ):
        pairs = [(mask_override(one, mask), "") for one in overrides]
        sections.append((title, note, pairs))
    sections.append(("Asks for", "", list(_list_resources(job))))
    about = f"stage {job.stage or '-'}, family {job.family or '-'}, index {job.index}"
    yield (Span(outside(job.name, 2000), "strong"),)
    yield (Span(outside(about, 2000), "muted"),)
    for title, note, pairs in sections:
        yield ()
        yield line(Span(title, "title"), Span(f"  {note}" if note else "", "muted"))
        shown = [(outside(key, _LONG), outside(one, _LONG)) for key, one in pairs]
        yield from render_pairs(shown or [("nothing", "")], "  ", _WIDEST_KEY)


def _list_resources(job: JobSpec) -> Iterator[tuple[str, str]]:
    needs = job.resources
    limit = needs.time_limit_seconds
    yield "time limit", "none" if limit is None else duration(limit)
    yield "gpus", str(needs.gpus)
    for key, option in sorted(needs.options.items()):
        yield f"--{key}", format_value(option)
    yield "output", job.output_dir


def _render_config(details: JobDetails) -> Iterator[Line]:
    if details.missing:
        yield (Span(details.missing, "warning"),)
        return
    counts = Counter(one.origin for one in details.entries)
    origins = ", ".join(
        f"{counts[one]} {_NAMES[one]}" for one in _ORIGINS if counts[one]
    )
    yield (Span(f"{plural(len(details.entries), 'key')}: {origins}", "muted"),)
    yield ()
    pairs = ((outside(one.key), _render_entry(one)) for one in details.entries)
    yield from render_pairs(pairs, "", _WIDEST_KEY)


def _render_entry(entry: Entry) -> Line:
    """Who set a key, to what, and how that is written."""
    role: Role = "strong" if entry.origin in _SET else "text"
    written = f"  {outside(entry.written, _LONG)}" if entry.written else ""
    return (
        Span(f"{_NAMES[entry.origin]:<{_WIDEST_ORIGIN}}  ", _ORIGINS[entry.origin]),
        Span(outside(entry.value, _LONG), role),
        Span(written, "muted"),
    )


def _build_diff_pages(
    first: tuple[JobSpec, JobDetails],
    second: tuple[JobSpec, JobDetails],
    rules: MaskRules,
) -> tuple[Page, ...]:
    """Each page says so when nothing differs."""
    (one, mine), (other, yours) = first, second
    names = (outside(one.name), outside(other.name))
    missing = mine.missing or yours.missing
    config = Page("Config", ((Span(missing, "warning"),),))
    if not missing:
        sides = [
            [f"{entry.key}: {entry.value}" for entry in details.entries]
            for details in (mine, yours)
        ]
        # Keys are whole paths: lines around a change would say nothing more.
        config = _build_diff("Config", names, *sides, around=0)
    swept = (_describe_sweep(job, rules) for job in (one, other))
    script = _build_diff("Script", names, mine.script, yours.script)
    return (_build_diff("Overrides", names, *swept), config, script)


def _describe_sweep(job: JobSpec, rules: MaskRules) -> Sequence[str]:
    """What the sweep says of a job, and what it asks for, by lines."""
    parameters = [
        f"{key}: {format_value(mask_value(key, value, rules))}"
        for key, value in job.parameters.items()
        if key not in STAGE_KEYS
    ]
    return [
        f"stage: {job.stage}",
        *parameters,
        *(f"override {mask_override(text, rules)}" for text in job.overrides),
        *(f"{key}: {value}" for key, value in _list_resources(job)),
    ]


def _build_diff(
    title: str, names: tuple[str, str], *sides: Sequence[str], around: int = 2
) -> Page:
    before, after = ([outside(text, _LONG) for text in side] for side in sides)
    lines = difflib.unified_diff(before, after, *names, lineterm="", n=around)
    shown = [text for text in lines if around or not text.startswith("@@")]
    if not shown:
        return Page(f"{title} (alike)", ((Span("Nothing differs here.", "muted"),),))
    changed = sum(text[:1] in "+-" for text in shown) - 2
    return Page(f"{title} ({plural(changed, 'line')})", tuple(render_diff(shown)))


class ReaderScreen(Overlay[str | None]):
    """Pages, which `turn` and `p` turn; any of `passes` closes it and is handed on."""

    edge_role = "accent"

    def __init__(
        self,
        context: CockpitContext,
        title: str,
        pages: Sequence[Page],
        passes: Mapping[str, str] | None = None,
        turn: str = "n",
    ) -> None:
        super().__init__(context)
        self._turn = turn
        self.pages = pages
        """What is to be read, as far as it is known."""
        self.most_cells = 170 if len(pages) > 1 else 100
        self._heading = title
        self._passes = passes or {}
        self._at = 0

    def build_title(self) -> Line:
        heading = Span(f" {self._heading} ", "strong")
        if len(self.pages) == 1:
            return (heading,)
        place = f"{self._at + 1} of {len(self.pages)}"
        return (heading, Span(f" {self.pages[self._at].title}, {place} ", "accent"))

    def build_body(self, cells: int) -> Sequence[Line]:
        return _wrap_page(self.pages[self._at], cells)

    def build_fixed(self, cells: int) -> Sequence[Line]:
        keys = [(display_key(key), words) for key, words in self._passes.items()]
        if len(self.pages) > 1:
            after = self.pages[(self._at + 1) % len(self.pages)]
            keys += [(self._turn, after.title)]
        if len(self.pages) > 2:
            keys += [("p", self.pages[self._at - 1].title)]
        return [(), cut((Span("[Close]", "button"), *build_keys(keys)), cells)]

    async def process_key(self, event: events.Key) -> None:
        step = {self._turn: 1, "p": -1, "right": 1, "left": -1}.get(event.key, 0)
        if event.key in self._passes:
            self.finish(event.key)
        elif step and len(self.pages) > 1:
            self._at = (self._at + step) % len(self.pages)
            self.frame.top = 0
            self.layout_box()
        elif event.key in ("enter", "escape", "q", "question_mark", "ctrl+c", "ctrl+q"):
            self.finish(None)
        else:
            self.handle_scroll(event.key)


@lru_cache(maxsize=4)
def _wrap_page(page: Page, cells: int) -> Sequence[Line]:
    found: list[Line] = [()]
    for one in page.lines:
        is_key = bool(one) and one[0].role == "key"  # what it does stays behind it
        found += wrap(one, cells, " " * width(one[:1]) if is_key else "  ")
    return found


async def show_job_details(
    context: CockpitContext, app: App[Any], jobs: Sequence[JobView]
) -> None:
    """Show how a job was made, or what differs between two; a fault closes nothing."""
    plan, read = context.model.session.snapshot.plan, context.options.details
    if plan is None:
        return
    specs = [job.record.spec for job in jobs]
    title = "What differs" if len(specs) == 2 else "How it is made"
    screen = ReaderScreen(context, title, build_pages(plan, specs))
    await app.push_screen(screen)

    def work() -> Sequence[Page]:
        none = "Nothing but the plan is at hand here: the config was not read."
        found = [
            read(plan, one) if read else JobDetails(script=one.command, missing=none)
            for one in specs
        ]
        return build_pages(plan, specs, found)

    try:
        pages = await context.background.fetch("details", work)
    except (AutoexpError, OSError) as problem:
        message = outside(problem, 2000)
        app.notify(message, severity="error", timeout=KEEP)
        lacking = [JobDetails(missing=message, script=(message,)) for _ in specs]
        pages = build_pages(plan, specs, lacking)
    screen.pages = pages
    screen.layout_box()


def list_keys(
    keymap: Keymap, pane: Pane, *, replay: bool = False, parts: Collection[str] = ()
) -> Sequence[Line]:
    """The command table, as a person reads it: what not all panes have of `pane`, then
    the rest; in a replay its own keys come first. `parts`: of the session."""
    groups: dict[str, list[Command]] = {"Replay": []} if replay else {}
    own = [one for one in keymap.at(pane, replay=replay) if one.is_special]
    own.sort(key=lambda one: len(one.where))  # those that it alone has come first
    groups |= {f"Here, in {pane}": own}
    groups |= {group: [] for group in HELP_GROUPS if group not in groups}
    for one in keymap:
        if one not in own and one.fits({pane, *parts}):
            groups.setdefault(one.group, []).append(one)
    lines: list[Line] = []
    for group, listed in groups.items():
        title = (
            "Act (upper case; all but P and U ask first)" if group == "Act" else group
        )
        lines += [(), (Span(title, "title"),)] if listed else []
        for one in listed:
            keys = " ".join(display_key(key) for key in keymap.keys(one.id))
            key = Span(f"  {fit(keys, 16)} ", "key")
            lines.append((key, Span(one.help), Span(f"   {one.id}", "muted")))
    return lines[1:]


_MOST_BYTES: Final = 1 << 20
"""Of a config file; a larger one is not shown."""
_ROOMY: Final = 64
"""From so many cells on every key is told in full."""
_render_fault = lru_cache(maxsize=4096)(render_fault)
"""There may be thousands of findings, and every key shows some of them."""


class FaultsScreen(Overlay[bool]):
    """Moves from finding to finding; closes with whether a person closed it."""

    edge_role = "failed"
    most_cells: int = 140
    _at: int = 0
    _notice: str = ""

    def __init__(
        self,
        context: CockpitContext,
        faults: Sequence[Problem],
        plan_again: Callable[[], None],
    ) -> None:
        super().__init__(context)
        self.faults = faults
        self._plan_again = plan_again
        self._excerpts: dict[int, Excerpt] = {}
        """What is open of the findings' files, by place of the finding."""

    def take(self, faults: Sequence[Problem]) -> None:
        kept = self.faults[self._at].where if self.faults else ""
        self.faults = faults
        self._excerpts.clear()
        self._at = next((at for at, one in enumerate(faults) if one.where == kept), 0)
        self._show_notice("planned again; this is left")

    def _show_notice(self, notice: str) -> None:
        self._notice = notice
        self._show_cursor()

    def build_title(self) -> Line:
        number = plural(len(self.faults), "error")
        return (Span(f" The plan has {number}. Nothing was submitted. ", "strong"),)

    def _list_blocks(self, cells: int) -> Sequence[Sequence[Line]]:
        return [
            _render_fault(fault, self._excerpts.get(at, ()), cells)
            for at, fault in enumerate(self.faults)
        ]

    def build_body(self, cells: int) -> Sequence[Line]:
        lines: list[Line] = [()]
        for at, (head, *rest) in enumerate(self._list_blocks(cells)):
            here = (Span("> ", "accent"), *head[1:]) if at == self._at else head
            lines += (here, *rest)
        return lines

    def build_fixed(self, cells: int) -> Sequence[Line]:
        once = ", once it is saved" if cells >= _ROOMY else ""
        keys = build_keys((("enter", "its place"), ("ctrl+r", f"plan again{once}")))
        notice = (Span(self._notice, "warning"),) if self._notice else ()
        return [cut(notice, cells), cut((Span("[Close]", "button"), *keys), cells)]

    async def process_key(self, event: events.Key) -> None:
        step = {"j": 1, "down": 1, "k": -1, "up": -1}.get(event.key, 0)
        if step:
            self._at = max(0, min(self._at + step, len(self.faults) - 1))
            self._show_cursor()
        elif event.key == "enter":
            await self._toggle_excerpt(self.faults[self._at])
        elif event.key == "ctrl+r":
            self._show_notice("planning again ...")
            self._plan_again()
        elif event.key == "y":
            one = self.faults[self._at]
            parts = (one.place, one.where, one.message, one.hint)
            text = " ".join(dict.fromkeys(part for part in parts if part))
            await self.app.run_action(("app", "copy", (outside(text, 4000),)))
        elif event.key in ("escape", "q", "ctrl+c", "ctrl+q"):
            self.finish(result=True)
        else:
            self.handle_scroll(event.key)

    def on_resize(self) -> None:
        self._show_cursor()

    def _show_cursor(self) -> None:
        """Scroll to the finding, all of it where it fits."""
        self.layout_box()
        sizes = [len(block) for block in self._list_blocks(self.box_size.width - 4)]
        start = 1 + sum(sizes[: self._at])
        self.frame.show_rows(start, start + sizes[self._at])

    async def _toggle_excerpt(self, fault: Problem) -> None:
        """Open the place in its file, or close it again."""
        path, line = find_place(fault)
        if self._excerpts.pop(self._at, None) is not None:
            self._show_cursor()
        elif path:
            self.run_worker(self._open_excerpt(self._at, self.faults, path, line))
        else:
            self._show_notice("no file is known for this one")

    async def _open_excerpt(
        self, at: int, faults: Sequence[Problem], path: str, line: int
    ) -> None:
        def read() -> str:
            with Path(path).expanduser().open("rb") as file:
                return file.read(_MOST_BYTES).decode("utf-8", "replace")

        notice = ""
        try:
            text = await self.context.background.fetch("excerpt", read)
        except OSError as error:
            notice = f"{path} cannot be read: {error.strerror}"
        if faults is self.faults:
            if not notice:
                self._excerpts[at] = tuple(find_excerpt(text, line))
            self._show_notice(notice)
