"""The terminal itself: a driver that outlives it, and the words sent beside the screen.

When the terminal goes, writing fails: the driver tells the app once and writes nothing
more. A bell rings when something ended, failed, or needs a person; never twice."""

from __future__ import annotations

import base64
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, Final, cast

from textual.drivers.linux_driver import LinuxDriver

from autoexp_tui.cockpit.spans import outside
from autoexp_tui.cockpit.state.reasons import count_needs
from autoexp_tui.cockpit.state.session import ENDED_BADLY, Look
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import plural, size

if TYPE_CHECKING:
    from textual.app import App
    from textual.screen import Screen

    from autoexp_tui.cockpit.session_model import SessionModel

ESC: Final = "\x1b"
BEL: Final = "\x07"
ST: Final = f"{ESC}\\"
MOST_COPIED: Final = 74_000
"""Bytes of a text: many terminals take no more than 100,000 bytes of base64."""


class LosableFile:
    """Standard error as the driver's file: it may vanish."""

    def __init__(self, file: IO[str], on_loss: Callable[[], None]) -> None:
        self._file = file
        self._on_loss = on_loss
        self.gone = False

    def write(self, text: str) -> int:
        self._try(lambda: self._file.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self._file.flush)

    def fileno(self) -> int:
        return self._file.fileno()

    def close_lost(self) -> None:
        """The terminal is gone: say so, once."""
        if not self.gone:
            self.gone = True
            self._on_loss()

    def _try(self, call: Callable[[], Any]) -> None:
        if self.gone:
            return
        try:
            call()
        except (OSError, ValueError):
            self.close_lost()


class ExitEvent(threading.Event):
    """Ends the driver's reading, of a hung-up terminal too, which never blocks."""

    def __init__(self, fileno: int) -> None:
        super().__init__()
        self._fileno = fileno

    def has_hung_up(self) -> bool:
        """Whether the terminal's other end is closed."""
        poll = select.poll()  # one each: two threads may not share one
        poll.register(self._fileno, 0)
        return bool(poll.poll(0))

    def is_set(self) -> bool:
        """Whether to read no more."""
        return super().is_set() or self.has_hung_up()


class CockpitDriver(LinuxDriver):
    """Textual's driver for a terminal that may go away."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        """`app` has a `notify_terminal_lost` that any thread may call."""
        super().__init__(app, **options)
        on_loss = cast("Any", app).notify_terminal_lost
        self.losable = LosableFile(sys.__stderr__ or sys.stderr, on_loss)
        self._file = cast("Any", self.losable)
        self.exit_event = ExitEvent(self.fileno)

    def run_input_thread(self) -> None:
        """Feed what is typed to the app; end of input means that it is gone."""
        ended = cast("ExitEvent", self.exit_event)
        while not ended.is_set():
            try:
                super().run_input_thread()
            except UnicodeDecodeError:
                continue  # what was read with a byte that is no text is dropped
            except OSError:
                self.losable.close_lost()
            break
        if ended.has_hung_up():
            self.losable.close_lost()

    def _sigcont_application(self, *_: object) -> None:
        """Woken: after Ctrl-Z begin again, after SIGSTOP set the terminal up anew.

        A hang-up wakes as well (Linux adds SIGCONT to SIGHUP): no terminal is then.
        """
        if self.losable.gone:
            return
        if self._key_thread is not None and self._key_thread.is_alive():
            # Not in a signal's handler: it could hold the lock of the writer's queue.
            self._loop.call_soon_threadsafe(self._set_up_again)
        else:
            super()._sigcont_application()

    def _set_up_again(self) -> None:
        """SIGSTOP gave no time to leave the terminal, and the shell has used it."""
        if not self.losable.gone and self._app.is_running:
            self.suspend_application_mode()
            self.resume_application_mode()
            redraw(self._app.screen)


def redraw(screen: Screen[Any]) -> None:
    for widget in (screen, *screen.walk_children()):
        widget.refresh(layout=widget is screen)


def restore_signals() -> None:
    """Stopping and waking are the system's business again: the screen has ended."""
    for number in (signal.SIGTSTP, signal.SIGCONT):
        signal.signal(number, signal.SIG_DFL)


def wrap_for_tmux(sequence: str) -> str:
    """A sequence as it must be sent to reach the terminal, around tmux where it is."""
    if not os.environ.get("TMUX"):
        return sequence
    return f"{ESC}Ptmux;{sequence.replace(ESC, ESC + ESC)}{ST}"


class Notifier:
    """Speaks through the terminal, around the screen."""

    def __init__(
        self, write: Callable[[str], None], model: SessionModel, *, quiet: bool
    ) -> None:
        """What `model` has already does not ring; `quiet`: neither title nor bell."""
        self._write = write
        self._model = model
        self._quiet = quiet
        self._title = ""
        self._failures = 0
        self._needs: frozenset[str] = frozenset()
        self._open = False
        self.find_news()

    def show_title(self) -> None:
        """Name the terminal's window by how far the session is; tmux takes it as its
        own."""
        session, number = self._model.session, count_needs(self._model.groups)
        done = f"{session.count(Look.DONE)}/{len(session.jobs)}"
        needs = f" !{number}" if number else ""
        text = f"{done}{needs} {outside(session.snapshot.name, 40)}"
        if not self._quiet and text != self._title:
            self._title = text
            self._write(f"{ESC}]2;{clean(text, limit=80)}{BEL}")

    def find_news(self) -> str:
        """What to say aloud now, and once; empty when nothing is new."""
        session, groups = self._model.session, self._model.groups
        failures = sum(one.size for one in groups if one.look in ENDED_BADLY)
        jobs = {f"{group.look}|{job.name}" for group in groups for job in group.jobs}
        warnings = {one.warning_id for group in groups for one in group.warnings}
        asks = {group.key for group in groups if group.asks}
        needs = frozenset(jobs | warnings | asks)
        more, fresh, words = failures - self._failures, len(needs - self._needs), ""
        if self._open and not session.snapshot.open:
            words = f"all ended, {session.count(Look.DONE)} done, {failures} failed"
        elif more > 0:
            words = f"{plural(more, 'job')} failed"
        elif fresh:
            words = f"{plural(fresh, 'thing')} {'needs' if fresh == 1 else 'need'} you"
        self._failures, self._needs = failures, needs
        self._open = session.snapshot.open
        return f"{outside(session.snapshot.name, 40)}: {words}" if words else ""

    def notify(self) -> None:
        """Ring when something is new that is worth it, by OSC 9 where it is known."""
        words = self.find_news()
        if words and not self._quiet:
            sequence = wrap_for_tmux(f"{ESC}]9;{clean(words, limit=200)}{BEL}")
            self._write(f"{BEL}{sequence}")

    def copy(self, text: str) -> str:
        """Copy a text by OSC 52; what to say about it."""
        data = text.encode("utf-8", "replace")
        if len(data) > MOST_COPIED:
            return f"not copied: {size(len(data))} is too much for a terminal"
        if data:
            payload = base64.b64encode(data).decode("ascii")
            self._write(wrap_for_tmux(f"{ESC}]52;c;{payload}{BEL}"))
        return f"{size(len(data))} sent to the clipboard" if data else "nothing to copy"
