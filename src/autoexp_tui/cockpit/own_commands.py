"""A person's own commands, run for the job under the cursor; a shell where a job is.

The words go to the program as they are written. What is known of the job is in the
environment alone, so that no name, no log and no parameter becomes a word or a program.
Nothing of a stored plan gets here: who builds the keymap takes the commands from the
config that was opened or from the person's own settings (`settings`)."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from textual.app import App, SuspendNotSupported

from autoexp_tui.cockpit.context import CockpitContext
from autoexp_tui.cockpit.dialogs.question import QuestionScreen
from autoexp_tui.cockpit.dialogs.reader import Page, ReaderScreen
from autoexp_tui.cockpit.render.questions import Question
from autoexp_tui.cockpit.spans import Line, Span, outside
from autoexp_tui.model.own_commands import OwnCommand
from autoexp_tui.text.spelling import format_yaml_value, size

if TYPE_CHECKING:
    from autoexp_tui.cockpit.state.session import JobView

_MOST_OUTPUT: Final = 1 << 20
"""Bytes of a command's output that are shown."""
MOST_SECONDS: Final = 60.0
"""That a command without the terminal may take."""
_LOOK_SECONDS: Final = 0.05
"""Between looks whether it wrote more, or ended."""
_WELL: Final = "It ended with 0."
_RANGE: Final = re.compile(r"\[(\d+)[\d,-]*\]")
"""Of Slurm's `nid[001-004,7],other`."""
_NODE: Final = re.compile(r"[A-Za-z0-9][\w.-]*")


def build_environment(job: JobView | None, session: str) -> dict[str, str]:
    """What a command is told of the job under the cursor, as variables; empty where
    that is not known."""
    told = dict.fromkeys(("JOB", "STATE", "STAGE", "OUTPUT_DIR", "LOG"), "")
    told |= dict.fromkeys(("EXECUTOR_ID", "NODE", "ATTEMPT", "STEP"), "")
    told["SESSION"] = session
    if job is not None:
        spec, attempt = job.record.spec, job.attempt
        told |= {"JOB": job.name, "STATE": job.look.value, "STAGE": job.stage}
        told |= {"OUTPUT_DIR": spec.output_dir, "LOG": spec.log_path_current}
        told["STEP"] = "" if job.step is None else str(job.step)
        if attempt is not None:
            told |= {"EXECUTOR_ID": attempt.executor_id, "NODE": attempt.node}
            told |= {"ATTEMPT": str(attempt.number)}
            told["LOG"] = attempt.log_path or told["LOG"]
        for key, value in spec.parameters.items():
            name = re.sub(r"\W", "_", key.lstrip("+~"), flags=re.ASCII).upper()
            told[f"PARAM_{name}"] = format_yaml_value(value)
    return {f"AUTOEXP_{key}": one.replace("\0", "") for key, one in told.items()}


def choose_shell(job: JobView) -> tuple[tuple[str, ...], str]:
    """What opens a shell where a job is, and the directory to begin in: on the node of
    one that runs elsewhere, else here in its output directory."""
    attempt, shell = job.attempt, os.environ.get("SHELL") or "/bin/sh"
    node = attempt.node if attempt is not None and not job.record.ended else ""
    first = _RANGE.sub(r"\1", node).partition(",")[0]
    own = (socket.gethostname().split(".")[0], "localhost")
    if _NODE.fullmatch(first) and first.split(".")[0] not in own:
        return ("ssh", first), ""
    return (shell,), job.record.spec.output_dir


async def run_own(
    context: CockpitContext, app: App[Any], own: OwnCommand, job: JobView | None
) -> None:
    """Ask where that is wanted, run it, and show what it wrote."""
    if own.confirm and not await _confirm(context, app, own, job):
        return
    session = context.model.session.snapshot.session
    environment = {**os.environ, **build_environment(job, session)}
    if own.terminal:
        run_in_terminal(app, own.label, own.command, environment)
        return
    app.notify(f"{outside(own.label)} runs")
    try:
        end, output = await _run(own.command, environment)
    except OSError as error:
        app.notify(_describe_failure(own.command, error), severity="error")
        return
    head: Line = (Span(end, "muted" if end == _WELL else "failed"),)
    text = output.decode("utf-8", "replace").rstrip("\n")
    lines = [(Span(outside(row, 2000)),) for row in text.split("\n")]
    page = Page("", (head, (), *lines))
    await app.push_screen(ReaderScreen(context, outside(own.label), [page]))


async def _confirm(
    context: CockpitContext, app: App[Any], own: OwnCommand, job: JobView | None
) -> bool:
    about = "for no job" if job is None else f"for {outside(job.name)}"
    question = Question(
        title=f"Run {outside(own.label)}?",
        lines=((Span(outside(" ".join(own.command), 2000), "strong"),), (Span(about),)),
        stay="Do nothing",
        confirm="run",
    )
    return await app.push_screen_wait(QuestionScreen(context, question)) is not None


async def _run(
    words: Sequence[str], environment: Mapping[str, str]
) -> tuple[str, bytes]:
    """How a program ended, and its output. One that writes on and on, or takes too
    long, or whose cockpit is left, is ended with all that it started."""
    made = _start(words, environment)
    assert made.stdout is not None
    output, ended = b"", False
    with made.stdout as pipe:
        os.set_blocking(pipe.fileno(), False)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(MOST_SECONDS):
                    while not ended and len(output) < _MOST_OUTPUT:
                        if part := pipe.read(_MOST_OUTPUT):
                            output += part
                        else:
                            ended = part == b"" and made.poll() is not None
                        await asyncio.sleep(0 if part or ended else _LOOK_SECONDS)
        finally:
            if not ended:
                with suppress(ProcessLookupError):
                    os.killpg(made.pid, signal.SIGKILL)
                made.wait()
    if ended:
        return f"It ended with {made.returncode}.", output
    if len(output) < _MOST_OUTPUT:
        return f"It ran longer than {MOST_SECONDS:g} s, and was ended.", output
    most = f"It wrote more than {size(_MOST_OUTPUT)}, and was ended."
    return most, output[:_MOST_OUTPUT]


def _start(
    words: Sequence[str], environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        bufsize=0,
    )


def run_in_terminal(
    app: App[Any],
    label: str,
    words: Sequence[str],
    environment: Mapping[str, str],
    directory: str = "",
) -> None:
    """Give the terminal to a program until it ends."""
    told = ""
    try:
        with app.suspend(), _ignoring_keys():
            print(f"{' '.join(words)}   (its end leads back)")  # noqa: T201 - no screen
            try:  # what is raised up to `suspend` would leave the terminal as it is
                made = subprocess.run(
                    words, env=environment, cwd=directory or None, check=False
                )
            except OSError as error:
                told = _describe_failure(words, error)
    except SuspendNotSupported:
        told = f"{label} needs a terminal"
    if told:
        app.notify(outside(told), severity="error")
    else:
        app.notify(f"{outside(label)} ended with {made.returncode}")


@contextmanager
def _ignoring_keys() -> Iterator[None]:
    """What ctrl+c and ctrl+\\ send is for the program that has the terminal; a handler,
    unlike SIG_IGN, is not handed on to it."""
    numbers = (signal.SIGINT, signal.SIGQUIT)
    before = [signal.signal(number, lambda *_: None) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _describe_failure(words: Sequence[str], error: OSError) -> str:
    place = error.filename or words[0]
    return f"{outside(words[0])} was not run: {error.strerror}: {outside(place)}"
