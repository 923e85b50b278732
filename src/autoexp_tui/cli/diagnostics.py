"""Owns the process: stderr, exit codes, signals, the garbage collector.

Errors for people say what went wrong, where, and the next step, without a traceback; a
bug writes its traceback to a file and says where that is.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from functools import partial
from typing import Final, NoReturn

from autoexp_tui.model.errors import AutoexpError

_THRESHOLDS: Final = (20_000, 20, 20)
"""Of new objects, and of looks through the young and the middle-aged: a log that grows
leaves some thirty new objects a second, none of them garbage at once."""


_STEP_SECONDS: Final = 0.05
"""Between two looks of who waits."""


class ExitCode(IntEnum):
    """What a command's exit status says."""

    OK = 0
    JOBS_NOT_COMPLETED = 1
    USAGE = 2
    VALIDATION = 3
    OWNED = 4
    ENVIRONMENT = 5
    GUARD = 6
    INTERNAL = 70
    INTERRUPTED = 130


def exit_with(
    main: Callable[[Sequence[str]], int], *, collects: bool = True
) -> NoReturn:
    """Run a command's `main` on the process's arguments and leave with its code.

    SIGTERM is to it what Ctrl-C is: it ends with a word, and 130. Without `collects` no
    garbage is looked for: of a large plan nothing is before the end.
    """
    import threading

    if not collects:
        gc.disable()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    code = run_guarded(main, sys.argv[1:])
    # A thread that still looks at a file or searches a log, and comes back amid
    # the end of the interpreter, is ended inside C++, which aborts the process: a
    # signal in the place of the code.
    if any(thread.daemon for thread in threading.enumerate()):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    sys.exit(code)


def make_entry(
    main: Callable[[Sequence[str]], int], module: str, *, collects: bool = True
) -> Callable[[], NoReturn]:
    """What a script calls to be a command; `python -m` of its module is one at once."""
    entry = partial(exit_with, main, collects=collects)
    if module == "__main__":
        entry()
    return entry


@contextmanager
def handle_signals(handlers: Mapping[int, Callable[..., object]]) -> Iterator[None]:
    """In this block these signals are handled so; behind it as they were before."""
    old = {number: signal.signal(number, call) for number, call in handlers.items()}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def freeze_garbage() -> None:
    """Spare what is loaded now, such as a plan of 10,000 jobs, from the collector."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


def run_guarded(main: Callable[[Sequence[str]], int], argv: Sequence[str]) -> int:
    """`main(argv)`, with every failure turned into a message and a code."""
    try:
        code = main(argv)
        sys.stdout.flush()
    except AutoexpError as error:
        say(f"error: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone; nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except Exception as bug:  # noqa: BLE001 - the last frame: a bug is reported, once
        from autoexp_tui.model.masking import mask_text

        tail = text = "".join(traceback.format_exception(bug))
        with suppress(OSError):
            handle, name = tempfile.mkstemp(prefix="autoexp-bug-", suffix=".txt")
            with os.fdopen(handle, "w", errors="backslashreplace") as file:
                file.write(mask_text(text))
            tail = f"The traceback is in {name}"
        say(f"internal error: {type(bug).__name__}: {bug}")
        say(f"  This is a bug in autoexp-tui. {tail}")
        return ExitCode.INTERNAL
    return code


def wait_until(is_so: Callable[[], object], seconds: float) -> bool:
    """Wait until it is so, `seconds` at most; whether it is."""
    deadline = time.monotonic() + seconds
    while not (found := bool(is_so())) and time.monotonic() < deadline:
        time.sleep(_STEP_SECONDS)
    return found


def print_json(value: object) -> None:
    """One line of JSON on stdout; NaN and infinities, which JSON lacks, are text."""
    import json

    from autoexp_tui.planning.as_json import json_safe

    print(json.dumps(json_safe(value), allow_nan=False))


def say(text: str) -> None:
    """Lines for the person, on stderr; what came from outside steers no terminal.

    A terminal that has gone takes none, and no engine ends because of that.
    """
    from autoexp_tui.model.masking import mask_text
    from autoexp_tui.text.sanitize import clean

    shown = clean(mask_text(text), keep_newlines=True)
    with suppress(OSError):
        print(shown, file=sys.stderr, flush=True)
