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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, cast

from textual.drivers.linux_driver import LinuxDriver

from autoexp_tui.cockpit.render import bars
from autoexp_tui.cockpit.spans import Role, outside
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.text.sanitize import clean
from autoexp_tui.text.spelling import plural, size

if TYPE_CHECKING:
    from textual.app import App

    from autoexp_tui.cockpit.session_model import SessionModel
    from autoexp_tui.cockpit.state.causes import CauseGroup
    from autoexp_tui.cockpit.state.session import SessionView

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
        """Write, unless the terminal is gone."""
        self._try(lambda: self._file.write(text))
        return len(text)

    def flush(self) -> None:
        """Flush, unless the terminal is gone."""
        self._try(self._file.flush)

    def fileno(self) -> int:
        """The file's descriptor."""
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

    def stop_writing(self) -> None:
        """Write nothing more, whatever is asked."""
        self.losable.gone = True

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
            screen = self._app.screen
            for widget in (screen, *screen.walk_children()):
                widget.refresh(layout=widget is screen)


def restore_signals() -> None:
    """Stopping and waking are the system's business again: the screen has ended."""
    for number in (signal.SIGTSTP, signal.SIGCONT):
        signal.signal(number, signal.SIG_DFL)


def is_tmux() -> bool:
    """Whether tmux stands between us and the terminal."""
    return bool(os.environ.get("TMUX"))


def is_multiplexer(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the session survives a closed terminal by itself."""
    env = os.environ if environment is None else environment
    return bool(env.get("TMUX") or env.get("STY"))


def wrap_for_tmux(sequence: str, *, tmux: bool) -> str:
    """A sequence as it must be sent to reach the outer terminal."""
    if not tmux:
        return sequence
    return f"{ESC}Ptmux;{sequence.replace(ESC, ESC + ESC)}{ST}"


def format_title(text: str) -> str:
    """The sequence that names the terminal's window; tmux takes it as its own."""
    return f"{ESC}]2;{clean(text, limit=80)}{BEL}"


def format_notification(text: str, *, tmux: bool) -> str:
    """A bell, and OSC 9: a notification where the terminal knows it."""
    return BEL + wrap_for_tmux(f"{ESC}]9;{clean(text, limit=200)}{BEL}", tmux=tmux)


def copy_text(text: str, *, tmux: bool, directory: Path) -> tuple[str, str]:
    """The sequence (OSC 52) that copies a text, and what to say about it.

    One too long for a terminal goes into a file of `directory` instead: no sequence.
    """
    data = text.encode("utf-8", "replace")
    if not data:
        return "", "nothing to copy"
    if len(data) > MOST_COPIED:
        directory.mkdir(parents=True, exist_ok=True)
        for number in range(1000):
            path = directory / f"autoexp-copy-{number}.txt"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            try:
                descriptor = os.open(path, flags, 0o600)
            except FileExistsError:
                continue
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            length = size(len(data))
            return "", f"{length} is too much for a terminal: see {path}"
        raise FileExistsError(17, f"{directory} holds 1000 copies already")
    payload = base64.b64encode(data).decode("ascii")
    sequence = wrap_for_tmux(f"{ESC}]52;c;{payload}{BEL}", tmux=tmux)
    return sequence, f"{size(len(data))} sent to the clipboard"


class News:
    """Remembers what was told, so that nothing rings twice."""

    def __init__(self, session: SessionView, groups: Sequence[CauseGroup]) -> None:
        self._failures = session.count(Look.FAILED, Look.LOST)
        self._needs = _find_keys(groups)
        self._open = session.snapshot.open

    def update(self, session: SessionView, groups: Sequence[CauseGroup]) -> str:
        """What to say aloud now; empty when nothing is new."""
        failures, needs = session.count(Look.FAILED, Look.LOST), _find_keys(groups)
        more = failures - self._failures
        fresh = len(needs - self._needs)
        words = ""
        if self._open and not session.snapshot.open:
            words = f"all ended, {session.count(Look.DONE)} done, {failures} failed"
        elif more > 0:
            words = f"{plural(more, 'job')} failed"
        elif fresh:
            words = f"{plural(fresh, 'thing')} {'needs' if fresh == 1 else 'need'} you"
        self._failures, self._needs = failures, needs
        self._open = session.snapshot.open
        return f"{outside(session.snapshot.name, 40)}: {words}" if words else ""


def _find_keys(groups: Sequence[CauseGroup]) -> frozenset[str]:
    """One key for everything that needs a person."""
    jobs = {f"{group.look}|{job.name}" for group in groups for job in group.jobs}
    warnings = {entry.warning_id for group in groups for entry in group.warnings}
    return frozenset(jobs | warnings)


class Notifier:
    """Speaks through the terminal, around the screen."""

    def __init__(
        self, write: Callable[[str], None], model: SessionModel, *, quiet: bool
    ) -> None:
        """What `model` has already does not ring; `quiet`: neither title nor bell."""
        self._write = write
        self._model = model
        self._quiet = quiet
        self._news = News(model.session, model.groups)
        self._title = ""

    def show_title(self) -> None:
        """Name the terminal's window by how far the session is."""
        text = bars.format_title(self._model.session, self._model.groups)
        if not self._quiet and text != self._title:
            self._title = text
            self._write(format_title(text))

    def notify(self) -> None:
        """Ring when something is new that is worth it."""
        words = self._news.update(self._model.session, self._model.groups)
        if words and not self._quiet:
            self._write(format_notification(words, tmux=is_tmux()))

    def copy(self, text: str, directory: Path) -> tuple[str, Role]:
        """Copy a text; what to say about it, and as what."""
        try:
            sequence, words = copy_text(text, tmux=is_tmux(), directory=directory)
        except OSError as error:
            return f"not copied: {error.strerror or error}", "warning"
        if sequence:
            self._write(sequence)
        return words, "accent"
