"""The terminal itself: a driver that outlives it, and the words sent beside the screen.

When the terminal goes (a closed lid, a dropped line) writing to it fails. The driver
swallows that once, tells the app, and writes nothing more; the app ends without
painting. Titles, bells and notifications are made of our own words and wrapped for
tmux where needed.
"""

from __future__ import annotations

import os
import selectors
import signal
import sys
from codecs import getincrementaldecoder
from collections.abc import Callable, Mapping
from typing import IO, TYPE_CHECKING, Any, Protocol, cast

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from autoexp_tui.text.sanitize import clean

if TYPE_CHECKING:
    from textual.app import App

ESC = "\x1b"
BEL = "\x07"
ST = f"{ESC}\\"


class Losable(Protocol):
    """An app that can be told of its terminal's loss."""

    def terminal_lost(self) -> None:
        """The terminal does not answer any more."""
        ...


class LosableFile:
    """Standard error as the driver's file: it may vanish."""

    def __init__(self, file: IO[str], lost: Callable[[], None]) -> None:
        self._file = file
        self._lost = lost
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

    def _try(self, call: Callable[[], Any]) -> None:
        if self.gone:
            return
        try:
            call()
        except (OSError, ValueError):
            self.gone = True
            self._lost()


class CockpitDriver(LinuxDriver):
    """Textual's driver for a terminal that may go away."""

    def __init__(self, app: App[Any], **options: Any) -> None:
        """`app` has a `terminal_lost` that may be called from any thread."""
        super().__init__(app, **options)
        self._lost = cast("Losable", app).terminal_lost
        self.losable = LosableFile(sys.__stderr__ or sys.stderr, self._lost)
        self._file = cast("Any", self.losable)

    def run_input_thread(self) -> None:
        """Feed what is typed to the app; end of input means it is gone.

        A hung-up terminal reads as an endless end of file: waiting for more would
        only burn a core.
        """
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")("replace").decode
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(0.1):
                    data = self._read_input()
                    if not data:
                        return
                    for event in parser.feed(decode(data)):
                        self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)

    def _read_input(self) -> bytes:
        try:
            data = os.read(self.fileno, 4096)
        except OSError:
            data = b""
        if not data:
            self.losable.gone = True
            self._lost()
        return data

    def let_go(self) -> None:
        """Write nothing more, whatever is asked."""
        self.losable.gone = True

    def _sigcont_application(self, *_: object) -> None:
        """Woken: after Ctrl-Z begin again, after SIGSTOP set the terminal up anew.

        A hang-up wakes as well (POSIX, General Terminal Interface: the controlling
        process gets SIGHUP, and Linux adds SIGCONT): there is no terminal then.
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


def leave_signals() -> None:
    """Stopping and waking are the system's business again: the screen has ended."""
    for number in (signal.SIGTSTP, signal.SIGCONT):
        signal.signal(number, signal.SIG_DFL)


def in_tmux(environment: Mapping[str, str] | None = None) -> bool:
    """Whether tmux stands between us and the terminal."""
    return bool((os.environ if environment is None else environment).get("TMUX"))


def in_multiplexer(environment: Mapping[str, str] | None = None) -> bool:
    """Whether the session survives a closed terminal by itself."""
    env = os.environ if environment is None else environment
    return bool(env.get("TMUX") or env.get("STY"))


def wrapped(sequence: str, *, tmux: bool) -> str:
    """A sequence as it must be sent to reach the outer terminal."""
    if not tmux:
        return sequence
    return f"{ESC}Ptmux;{sequence.replace(ESC, ESC + ESC)}{ST}"


def title(text: str) -> str:
    """The sequence that names the terminal's window; tmux takes it as its own."""
    return f"{ESC}]2;{clean(text, limit=80)}{BEL}"


def notification(text: str, *, tmux: bool) -> str:
    """A bell, and OSC 9: a notification where the terminal knows it."""
    return BEL + wrapped(f"{ESC}]9;{clean(text, limit=200)}{BEL}", tmux=tmux)
