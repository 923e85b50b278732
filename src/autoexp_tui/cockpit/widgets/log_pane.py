"""Pane 0: a job's log, from its end, however large it is.

A background thread reads; this widget holds what is visible. A log that is not yet
there is waited for; one that was replaced begins anew, and says so."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from autoexp_tui.cockpit.logfile import (
    Change,
    LogFile,
    LogLine,
    Source,
    compile_errors,
    compile_search,
    open_regular,
)
from autoexp_tui.cockpit.spans import Line, Span, join, outside, shorten, wrap
from autoexp_tui.cockpit.widgets.pane import Painted, Pane, Tone, count_lines_moved
from autoexp_tui.text.patterns import Pattern, compile_literal_pattern
from autoexp_tui.text.spelling import size as spell_size

if TYPE_CHECKING:
    from autoexp_tui.cockpit.keymap import Pane as PaneName

_TIME = re.compile(r"^\s*\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?\]?\s*")
_COPIED_AT_A_TIME = 1 << 20
MOST_SAVED = 100_000_000
"""Bytes of a log: copying a larger one is left to a shell."""
_TITLE_REST = 44
"""Cells of the title besides names: number, size, place in the file, gaps."""
_WORDS_SOUGHT = 400
"""Characters of a line that are looked for where the line is to be found again."""
_SAME_FILE = (Change.NONE, Change.GREW)


@dataclass(frozen=True, slots=True)
class Page:
    """What the background found: visible lines and where they stand in the file."""

    change: Change
    size: int
    lines: tuple[LogLine, ...]
    match: int | None = None
    problem: str = ""
    """Why the file cannot be read."""

    @property
    def top(self) -> int:
        """Where its first line begins."""
        return self.lines[0].offset if self.lines else 0


NO_PAGE: Final = Page(Change.NONE, 0, ())
"""Before anything was read."""


class LogPane(Pane):
    """The tail of a log; further up on request."""

    name_in_table: PaneName = "log"
    number = "0"
    heading = "Log"
    sources: tuple[Source, ...] = ()
    source: int = 0
    none: str = ""
    """Said where there is no file."""
    job: str = ""
    """Whose log it is."""
    follow: bool = True
    wraps: bool = False
    hides_time: bool = False
    page: Page = NO_PAGE
    match: int | None = None
    """Offset of the line that a search found."""
    pattern: Pattern | None = None
    _file: LogFile | None = None
    _goal: int = 0
    _reached: int = 0
    """Lines that scrolling asked for, and those of the page that is shown."""
    _is_searching: bool = False
    _stop_search: bool = False
    _pages_shown: int = 0
    """How often somebody was shown another place."""

    def read(self, sources: Sequence[Source], none: str, job: str = "") -> None:
        """Read the newest log of an attempt; who reads an earlier one stays with it."""
        path = self.path
        stays = job == self.job and self.source < len(self.sources) - 1
        self.none, self.job, self.sources = none, job, tuple(sources)
        paths = [one.path for one in self.sources]
        newest = max(0, len(paths) - 1)
        self.source = paths.index(path) if stays and path in paths else newest
        if self.path == path:
            self.update_lines()
        else:
            self._open()

    def read_attempt(self, step: int) -> None:
        """The log of the attempt before (-1), or after (1), where there is one."""
        if 0 <= self.source + step < len(self.sources):
            self.source += step
            self._open()
        else:
            which = "no earlier" if step < 0 else "no later"
            self.notify(f"{which} attempt of this job has a log")

    def find_trailer(self) -> str:
        return self.sources[self.source].trailer if self.sources else self.none

    def _open(self) -> None:
        if self._file is not None:
            key = f"close {id(self._file)}"  # no newer one goes before it
            close = self.context.background.fetch(key, self._file.close)
            self.run_worker(close, exit_on_error=False)
        self._file = LogFile(self.path) if self.path else None
        self.page, self.match, self.follow = NO_PAGE, None, True
        self._goal = self._reached = 0
        self._is_searching = False
        self.update_lines()
        self.look()

    @property
    def path(self) -> str:
        return self.sources[self.source].path if self.sources else ""

    def on_mount(self) -> None:
        self.set_interval(1.0, lambda: self.look() if self.screen.is_current else None)

    def look(self) -> None:
        """Look whether the file changed, when somebody can see it."""
        rows, top = self.rows_in_body, self.page.top
        follow = self.follow or not self.page.lines
        if not self.display or not rows:
            return

        def work(file: LogFile) -> Page:
            change = file.poll()
            if change is Change.MISSING:
                return Page(change, 0, ())
            if follow or change is Change.REPLACED:
                return Page(change, file.size, tuple(file.read_last(rows)))
            return Page(change, file.size, tuple(file.read_around(top, 0, rows)))

        self._show("look", work)

    def _show(
        self,
        key: str,
        work: Callable[[LogFile], Page],
        then: Callable[[Page], None] = lambda page: None,
    ) -> None:
        """Show what `work` finds; a look at a place that was left is repeated."""
        file, moved = self._file, self._pages_shown
        if file is None:
            return

        async def load() -> None:
            try:
                page = await self.context.background.fetch(key, partial(work, file))
            except OSError as error:
                page = Page(Change.NONE, 0, (), problem=error.strerror or str(error))
            if file is not self._file:
                return
            is_old = moved != self._pages_shown and page.change in _SAME_FILE
            if key == "look" and is_old:
                self.look()
                return
            self._pages_shown += key != "look"
            self._take(page)
            then(page)

        self.run_worker(load())

    def _take(self, page: Page) -> None:
        if page.change is Change.REPLACED and self.page.size:
            self.notify("the log was replaced: read from its new end")
            self.match, self.follow = None, True
        if page.match is not None:
            self.match = page.match
        if page.problem:
            self._is_searching = False
        self.page = page
        self.update_lines()

    def move(self, how: str) -> None:
        rows = self.rows_in_body
        if how == "last":
            self.set_follow(on=True)
        elif how == "first":
            self.follow, self._goal = False, self._reached
            self._show(
                "page", lambda file: _build_page(file, file.read_around(0, 0, rows))
            )
        else:
            self.scroll_lines(count_lines_moved(how, max(1, rows // 2), 0))

    def scroll_lines(self, lines: int) -> None:
        if not self.page.lines or not lines:
            return
        self.follow = False
        self._goal += lines
        goal, rows, top = self._goal, self.rows_in_body, self.page.top
        wanted = goal - self._reached

        def then(page: Page) -> None:
            self._reached = goal
            if lines > 0 and page.lines:
                last = page.lines[-1]
                end = last.offset + len(last.text.encode()) + 1
                if len(page.lines) < self.rows_in_body or end >= page.size:
                    self.set_follow(on=True)

        def work(file: LogFile) -> Page:
            return _build_page(file, file.read_around(top, wanted, rows))

        self._show("page", work, then)

    def action_log(self, how: str) -> None:
        """Move in the log, show it otherwise, or say where stderr is."""
        match how:
            case "follow":
                self.set_follow(on=not self.follow)
            case "next" | "previous":
                self.find_next(forward=how == "next")
            case "error" | "error_before":
                self.find_next(forward=how == "error", errors=True)
            case "wrap":
                self.wraps = not self.wraps
            case "time":
                self.hides_time = not self.hides_time
            case "attempt_before" | "attempt_after":
                self.read_attempt(1 if how == "attempt_after" else -1)
            case "stream":  # the wrapper lets both streams write into one file
                both = "stdout and stderr are both in this file, in the order written"
                none = "no log yet; stdout and stderr will be in one file"
                self.notify(both if self.path else none)
        self.update_lines()

    def set_follow(self, *, on: bool) -> None:
        """Stay at the end as the log grows, or stay here."""
        self.follow = on
        if on:
            self.look()
        self.update_lines()

    def search(self, text: str) -> None:
        """Look upwards for what a person typed; raises PatternRefused, unchanged."""
        self.pattern = compile_search(text) if text else None
        self.match = None
        if self.pattern is not None:
            self.find_next(forward=False)

    def find_next(self, *, forward: bool, errors: bool = False) -> None:
        """To the next match (or error) from the one in view on, else from the page."""
        pattern = compile_errors() if errors else self.pattern
        if pattern is None or self._file is None:
            return
        lines, rows = self.page.lines, self.rows_in_body
        last = self.match if any(one.offset == self.match for one in lines) else None
        self._is_searching, self._stop_search = True, False
        self.follow = False
        self.update_lines()

        def work(file: LogFile) -> Page:
            file.poll()
            if last is not None:
                start = last
            elif not lines:
                start = 0 if forward else file.size
            else:  # backwards the last line counts as well
                start = lines[0].offset if forward else file.find_end(lines[-1].offset)
            place = file.find_match(
                pattern,
                start,
                forward=forward,
                here=last is None,
                stopped=lambda: self._stop_search or file is not self._file,
            )
            at = lines[0].offset if lines and place is None else place or 0
            page = file.read_around(at, 0 if place is None else -(rows // 2), rows)
            return Page(Change.NONE, file.size, tuple(page), place)

        def then(page: Page) -> None:
            self._is_searching = False
            if page.match is None and not page.problem:
                self.notify("no further match", severity="warning")
            self.update_lines()

        self._show("search", work, then)

    def show_offset(self, offset: int) -> None:
        """Show the line at `offset` among its neighbours, as one that was found."""
        self.follow, rows = False, self.rows_in_body

        def work(file: LogFile) -> Page:
            if file.poll() is Change.MISSING:
                return Page(Change.MISSING, 0, ())
            lines = tuple(file.read_around(offset, -(rows // 2), rows))
            before = [one.offset for one in lines if one.offset <= offset]
            return Page(Change.NONE, file.size, lines, max(before, default=None))

        self._show("page", work)

    def find_words(self, words: str) -> None:
        written = words.encode("utf-8", "replace").decode()
        self.pattern = compile_literal_pattern(written[:_WORDS_SOUGHT])
        self.match = None
        self.find_next(forward=False)

    def has_stopped_search(self) -> bool:
        """Stop a search, or forget its match; False when there was none."""
        if self._is_searching:
            self._stop_search = True
            return True
        had = self.match is not None or self.pattern is not None
        self.match, self.pattern = None, None
        self.update_lines()
        return had

    def copy_text(self) -> str:
        """The line that was found, else what is visible."""
        lines = self.page.lines
        found = [one.text for one in lines if one.offset == self.match]
        return "\n".join(found or [one.text for one in lines])

    def action_log_save(self) -> None:
        """Copy the file as it is to where the cockpit was opened; say so."""
        if not self.path or self.page.size > MOST_SAVED:
            none = "no log to save: this job has not begun"
            large = f"{spell_size(self.page.size)} is too much to copy: {self.path}"
            self.notify(large if self.path else none, severity="warning")
            return
        directory = os.path.abspath(self.context.options.save_directory)
        target = os.path.join(directory, os.path.basename(self.path))
        self.run_worker(self._save(partial(_copy, self.path, target), target))

    async def _save(self, copy: Callable[[], int], target: str) -> None:
        copied = await self.context.fetch_or_tell(self, "save", copy, "not saved")
        if copied is not None:
            room = max(20, self.screen.size.width - 20)
            where = shorten(outside(target, 4000), room, middle=True)
            self.notify(f"saved {spell_size(copied)} as {where}")

    def build_title(self) -> Line:
        if not self.sources:
            return ()
        name = outside(os.path.basename(self.path))
        parts = [Span(name, "muted" if self.job else "text")]
        if self.job:
            room = max(12, min(40, self.cells - len(name) - _TITLE_REST))
            parts.insert(0, Span(shorten(outside(self.job), room, middle=True)))
        if self.page.change is not Change.MISSING:
            parts.append(Span(spell_size(self.page.size), "muted"))
        if len(self.sources) > 1:
            of = f"{self.sources[self.source].label} of {len(self.sources)}, < >"
            parts.append(Span(of, "accent"))
        parts.append(Span(self._describe_place(), "muted"))
        if self.pattern is not None:
            parts.append(Span(f"/{outside(self.pattern.source)}", "accent"))
        return join(((part,) for part in parts), "   ")

    def _describe_place(self) -> str:
        """Where in the file the page stands."""
        if self._is_searching:
            return "searching, esc stops it"
        if self.page.change is Change.MISSING:
            return "not there yet"
        if self.follow:
            return "at the end"
        return f"{self.page.top / max(1, self.page.size):.0%} (f follows)"

    def _describe_nothing(self) -> str:
        """Why there are no lines; empty where there are some."""
        page, path = self.page, outside(self.path)
        if not self.sources:
            return f"no log: {self.find_trailer() or 'this job has not begun'}"
        if page.problem:
            return f"cannot read {path}: {outside(page.problem)}"
        if page.change is Change.MISSING:
            return f"waiting for {path}"
        return "" if page.lines or page.size else "nothing written yet"

    def build_body(self, start: int, count: int, cells: int) -> Sequence[Painted]:
        if nothing := self._describe_nothing():
            return [Painted((Span(f" {nothing}", "muted"),))]
        painted: list[Painted] = []
        found = 0
        errors = compile_errors()
        for one in self.page.lines:
            tone: Tone = ""
            if one.offset == self.match:
                found, tone = len(painted), "cursor"
            text = _TIME.sub("", one.text) if self.hides_time else one.text
            is_ill = errors.search(text.encode()) is not None
            content: Line = (Span(text, "failed" if is_ill else "text"),)
            rows = wrap(content, cells) if self.wraps else (content,)
            painted += [Painted(row, tone) for row in rows]
        if self.find_trailer() and self.follow:
            painted.append(Painted((Span(f"-- {self.find_trailer()} --", "muted"),)))
        if self.follow:
            return painted[-count:]
        skip = found - count // 2 if found >= count else 0
        return painted[skip : skip + count]

    def on_resize(self) -> None:
        super().on_resize()
        self.look()


def _build_page(file: LogFile, lines: Sequence[LogLine]) -> Page:
    return Page(Change.NONE, file.size, tuple(lines))


def _copy(path: str, target: str) -> int:
    """Copy a file to where none is; its bytes. A copy that fails leaves nothing."""
    try:
        with os.fdopen(open_regular(path), "rb") as source, open(target, "xb") as copy:
            try:
                shutil.copyfileobj(source, copy, _COPIED_AT_A_TIME)
            except OSError:
                os.unlink(target)
                raise
            return copy.tell()
    except FileExistsError:
        raise FileExistsError(17, f"{target} exists already") from None
