"""Makes one call of an agent: `run_call` in a job of several, or as a job of its own:
`python -m autoexp_tui.agents.runner DIRECTORY [WORD ...]`, where the words are what
isolates the program and come before its command. Exits with 0 when the outcome is ok,
with 1 on any other, and with the code of the error where no answer could be written."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final

from autoexp_tui.agents.backends import BACKENDS, MOST_TEXT, Backend, Progress
from autoexp_tui.agents.call import (
    ANSWER,
    FILES,
    STALE,
    TRANSCRIPT,
    Answer,
    AnswerFile,
    Request,
    hash_bytes,
    load_request,
    require_request,
    set_aside,
)
from autoexp_tui.agents.failures import find_cause, find_resumption
from autoexp_tui.agents.supervision import ALLOWED, End, Program, run_program
from autoexp_tui.isolation.profiles import find_executable
from autoexp_tui.model.agents import PASSED_ON, Outcome, Usage, estimate_cost
from autoexp_tui.model.errors import AutoexpError, EnvironmentFailed, format_os_reason
from autoexp_tui.storage.atomic import explaining, make_directory, write_atomic
from autoexp_tui.storage.json_codec import encode
from autoexp_tui.storage.removal import remove_below
from autoexp_tui.storage.trust import build_refusal, read_checked, read_foreign
from autoexp_tui.text.json_schema import find_mistake, read_strictly
from autoexp_tui.text.sanitize import clean, clean_line
from autoexp_tui.text.spelling import size

_STOPS: Final[Mapping[Outcome, str]] = {
    Outcome.TIMEOUT: "it ran longer than {wall_seconds:g} s",
    Outcome.IDLE_TIMEOUT: "it printed nothing for {idle_seconds:g} s",
    Outcome.MAX_STEPS: "it used tools more than {steps} times",
    Outcome.MAX_DISK: "it wrote more than {disk} into its directories",
    Outcome.CANCELLED: "it was cancelled",
}
_NO_PROGRAM: Final = 127
"""The exit status by which a shell says so."""
_TOO_LATE: Final = (Outcome.TIMEOUT, Outcome.IDLE_TIMEOUT)
_WHY_CHARACTERS: Final = 600
_MOST_FILES: Final = 1000
_OWN: Final = ("home", "tmp")
_SCHEMA: Final = "schema.json"
_MORE_BYTES: Final = 1 << 20
"""Of a transcript, beside what a program printed."""


def run_call(
    directory: Path, request: Request | None = None, prefix: Sequence[str] = ()
) -> Answer:
    """Make the call whose directory was made by `write_request`, and write its answer.

    `request`: as written there; read when None. `prefix`: words before the program's
    own, that isolate it. Raises EnvironmentFailed and UsageError where it cannot even
    be begun, or its answer not be written; no process is left then either.
    """
    request = request or load_request(directory)
    require_request(request)
    prompt = _read_prompt(request)
    set_aside(directory)
    progress, started = Progress(), time.monotonic()
    env = build_environment(request, directory, os.environ)
    _prepare(request, directory)
    end = _run_agent(request, directory, env, prompt, prefix, progress)
    answer = _build_answer(request, directory, progress, end)
    answer = _price(answer, request, progress, directory)
    seconds = round(time.monotonic() - started, 3)
    why = "; ".join(filter(None, (answer.why, _remove_own(directory))))
    answer = replace(answer, seconds=seconds, why=why)
    write_atomic(directory / ANSWER, encode(answer))
    return answer


def restore_answer(directory: Path) -> Answer | None:
    """What a call whose runner was killed has told and used; None: it was never begun.
    Its home is removed. Raises EnvironmentFailed."""
    log = directory / TRANSCRIPT
    if not log.exists():
        return None
    request, progress = load_request(directory), Progress()
    with explaining(log, "read what a call printed"):
        data = read_checked(log, "own", request.agent.limits.output_bytes + _MORE_BYTES)
    for line in data.split(b"\n"):
        read_line(line, BACKENDS[request.agent.backend], progress)
    answer = Answer(
        outcome=Outcome.AGENT_ERROR,
        why="its job was killed",
        steps=len(progress.steps),
        text=progress.text,
        exit_code=-signal.SIGKILL,
    )
    answer = _price(answer, request, progress, directory)
    _remove_own(directory)
    return answer


def _remove_own(directory: Path) -> str:
    """Remove the agent's home, where its keys are, and its scraps; why they stay."""
    try:
        for name in _OWN:
            remove_below(directory, name)
    except OSError as error:
        return f"its home stays: {format_os_reason(error)}"
    return ""


def _read_prompt(request: Request) -> bytes:
    with explaining(request.prompt, "read the prompt"):
        prompt = Path(request.prompt).read_bytes()
    if hash_bytes(prompt) != request.prompt_sha256:
        problem = "the prompt is not the one that was recorded for this call"
        raise EnvironmentFailed(problem, request.prompt)
    if not os.path.isdir(request.cwd):
        problem = "the directory that the agent is to work in is not there"
        raise EnvironmentFailed(problem, request.cwd)
    return prompt


def build_environment(
    request: Request, directory: Path, environ: Mapping[str, str]
) -> dict[str, str]:
    """All that the program finds in its environment: what is allowed, and no more."""
    wanted = request.agent.env
    passed = {name for name, value in wanted.items() if value is None} | ALLOWED
    own = {"HOME": str(directory / "home"), "TMPDIR": str(directory / "tmp")}
    if request.is_isolated:
        own["IS_SANDBOX"] = "1"  # else claude refuses to run as root without its own
    if request.answer_file:
        own["AUTOEXP_ANSWER_FILE"] = os.path.join(request.cwd, request.answer_file)
    given = {name: value for name, value in wanted.items() if value is not None}
    return own | {name: environ[name] for name in passed & environ.keys()} | given


def _prepare(request: Request, directory: Path) -> None:
    """Move old answers away; make its own home, with the files that it needs."""
    make_directory(directory)
    with explaining(request.cwd, "move an old answer away"):
        for path in _list_answers(request):
            from shutil import move  # few calls find one

            target = directory / STALE / path.relative_to(request.cwd)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            move(path, target)
    for name in _OWN:
        with explaining(directory / name, "remove what a killed run left"):
            remove_below(directory, name)
        make_directory(directory / name)
    if request.schema is not None:
        schema = directory / "tmp" / _SCHEMA
        write_atomic(schema, encode(request.schema), durable=False)
    with explaining(directory / "home", "link a file of the agent's"):
        for name in request.agent.files:
            _link_file(Path(name).expanduser(), directory / "home")


def _list_answers(request: Request) -> Iterator[Path]:
    """What is, or may be, the answer, and really lies below its directory, by name."""
    home, pattern = Path(request.cwd), request.answer_file
    for path in sorted(islice(home.glob(pattern), _MOST_FILES + 1) if pattern else ()):
        if path.parent.resolve().is_relative_to(home.resolve()):
            yield path


def _link_file(file: Path, home: Path) -> None:
    """Show a file of the user's home at the same place of the agent's."""
    with suppress(ValueError):  # one that lies elsewhere is found there
        link = home / file.relative_to(Path.home())
        link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        link.symlink_to(file)


def _run_agent(
    request: Request,
    directory: Path,
    env: Mapping[str, str],
    prompt: bytes,
    prefix: Sequence[str],
    progress: Progress,
) -> End:
    backend, limits = BACKENDS[request.agent.backend], request.agent.limits
    by_message = request.schema is not None and not request.answer_file
    schema_path = str(directory / "tmp" / _SCHEMA) if by_message else ""
    argv = backend.build_command(request, schema_path)
    if find_program(request, env) is None:
        return End(exit_code=None, reason=f"{argv[0]}: there is no such program")

    def read(line: bytes) -> Outcome | None:
        read_line(line, backend, progress)
        if limits.steps is not None and len(progress.steps) > limits.steps:
            return Outcome.MAX_STEPS
        return Outcome.OK if progress.has_ended else None

    own = (Path(request.cwd), *(directory / name for name in _OWN))
    program = Program((*prefix, *argv), request.cwd, env, limits, prompt, own)
    return run_program(program, directory / TRANSCRIPT, read)


def find_program(request: Request, env: Mapping[str, str]) -> Path | None:
    """The program of an agent, links not followed; None: it is not there."""
    name = BACKENDS[request.agent.backend].build_command(request, "")[0]
    name = os.path.join(request.cwd, name) if "/" in name else name
    return find_executable(name, env)


def read_line(line: bytes, backend: Backend, progress: Progress) -> None:
    """An event, if a line is one; whatever else is printed stays in the transcript."""
    if line.startswith(b"{") and backend.read_event:
        with suppress(ValueError, RecursionError):
            backend.read_event(json.loads(line), progress)


def decide_verdict(
    end: End, progress: Progress, backend: Backend, request: Request
) -> tuple[Outcome, str]:
    """What a program's end means, before its answer is looked at, and why."""
    if end.exit_code is None:
        return Outcome.NOT_FOUND, f"it did not start: {end.reason}"
    if end.stop is not None:
        limits = request.agent.limits
        told = {name: getattr(limits, name) for name in limits.__slots__}
        why = _STOPS[end.stop].format(**told, disk=size(limits.disk_bytes))
        cause = find_cause(progress.complaint)
        if end.stop in _TOO_LATE and cause in PASSED_ON:  # what it waited for
            return cause, f"{why}; it said: {progress.complaint}"
        return end.stop, why
    failure = progress.failure
    if not failure and end.exit_code and not end.has_lingered:
        said = progress.complaint or end.errors or progress.text or end.output
        failure = f"{said}\nit ended with {end.exit_code}"
    if not failure and backend.read_event and not progress.has_ended:
        failure = f"{end.errors}\nit ended before its last event"
    if end.exit_code == _NO_PROGRAM:
        return Outcome.NOT_FOUND, end.errors or failure
    return (find_cause(failure), failure) if failure else (Outcome.OK, "")


def _build_answer(
    request: Request, directory: Path, progress: Progress, end: End
) -> Answer:
    backend, resume_at = BACKENDS[request.agent.backend], None
    text = progress.text or ("" if backend.read_event else end.output[-MOST_TEXT:])
    files, mistake = _take_answer(request, directory, text)
    outcome, why = decide_verdict(end, progress, backend, request)
    if outcome is Outcome.OK and mistake:
        outcome, why = Outcome.BAD_OUTPUT, mistake
    elif outcome is Outcome.OK and request.answer_file and not files:
        why = f"it ended well, and wrote no {request.answer_file}"
        outcome = Outcome.NO_OUTPUT
    elif outcome is Outcome.RATE_LIMIT:
        resume_at = find_resumption(why, datetime.now().astimezone())
    why = clean_line(why[-_WHY_CHARACTERS:].strip(), _WHY_CHARACTERS)
    if end.left:
        why = f"{why}; {end.left} of its processes could not be ended"
    return Answer(
        outcome=outcome,
        why=why,
        steps=len(progress.steps),
        text=text,
        files=files,
        exit_code=end.exit_code,
        resume_at=resume_at,
    )


def _take_answer(
    request: Request, directory: Path, text: str
) -> tuple[tuple[AnswerFile, ...], str]:
    """Move answer files into the call's directory; what is wrong with the answer."""
    if not request.answer_file:
        data = text.encode("utf-8", "replace")
        return (), _find_mistake(data, request, "its last message")
    found, mistakes, room = [], [""], request.agent.limits.output_bytes
    for path in _list_answers(request):
        name = str(path.relative_to(request.cwd))
        try:
            if clean(name) != name:
                raise build_refusal(path, "its name is no plain text")
            data = read_foreign(path, room)
            make_directory((directory / FILES / name).parent)
            write_atomic(directory / FILES / name, data)
            path.unlink()
        except OSError as error:
            mistakes.append(f"{name}: {format_os_reason(error)}")
            continue
        room -= len(data)
        found.append(AnswerFile(name=name, sha256=hash_bytes(data), size=len(data)))
        mistakes.append(_find_mistake(data, request, name))
    if len(found) > _MOST_FILES:
        mistakes.append(f"it wrote more than {_MOST_FILES} files")
    return tuple(found), next(filter(None, mistakes), "")


def _find_mistake(data: bytes, request: Request, name: str) -> str:
    """What is wrong with a part of the answer; empty: nothing is."""
    if request.schema is None:
        return ""
    try:
        mistake = find_mistake(read_strictly(data), request.schema)
    except ValueError as error:
        return f"{name} {error}"
    return f"{name} is not of the schema: {mistake}" if mistake else ""


def _price(
    answer: Answer, request: Request, progress: Progress, directory: Path
) -> Answer:
    """The answer with what the call used and cost, as far as that is known."""
    usage = progress.usage
    if usage is None and answer.exit_code is not None:
        usage = BACKENDS[request.agent.backend].restore_usage(directory / "home")
    if usage is None and progress.seen:
        usage = sum(progress.seen.values(), Usage())
    cost, prices = progress.cost, request.agent.prices
    if cost is None and usage is not None and prices is not None:
        cost = estimate_cost(usage, prices)
    return replace(answer, usage=usage, cost=cost)


def main(arguments: Sequence[str]) -> int:
    directory, *prefix = arguments
    try:
        answer = run_call(Path(directory), prefix=prefix)
    except AutoexpError as error:
        sys.stderr.write(f"autoexp: {error}\n")
        return error.exit_code
    tokens = answer.usage or Usage()
    sys.stdout.write(
        f"{answer.outcome} after {answer.seconds:g} s, {answer.steps} steps, "
        f"{tokens.input_tokens} tokens in, {tokens.output_tokens} out\n"
    )
    if answer.why:
        sys.stdout.write(f"{answer.why}\n")
    return 0 if answer.outcome is Outcome.OK else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
