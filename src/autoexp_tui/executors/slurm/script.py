"""The script that sbatch is given, and the options beside it: text from typed values.

The script holds what a person may want to change (modules, a container): ours is
short, and `slurm.template_path` puts another in its place. All options go on sbatch's
command line, where nothing has to be quoted and where they win over a template's own
`#SBATCH` lines. Nothing here touches the disk.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.executors.slurm.sbatch_options import OURS_ALONE, SHORT
from autoexp_tui.executors.slurm.text import format_array_option
from autoexp_tui.model.errors import Problem, UsageError
from autoexp_tui.model.specs import JobSpec, Scalar

OURS: Final = """\
#!/bin/bash
# {job_name}, of the session {session}.
exec {command}
"""
"""The script where the user has no template."""

PLACEHOLDERS: Final = ("command", "job_name", "session", "log_dir", "output_dir", "cwd")
"""What a template may name; `{command}` it must. Other braces are the shell's."""
_PLACEHOLDER: Final = re.compile(r"(?<!\$)\{(" + "|".join(PLACEHOLDERS) + r")\}")

_DIRECTIVE: Final = re.compile(r"#SBATCH\s+(.*)")
_EXECUTED: Final = re.compile(r"^\s*exec\s.*(?<!\$)\{command\}", re.MULTILINE)
_GIVEN: Final = frozenset({"job-name", "output", "open-mode"})
"""Always on the command line, which wins over a template's own lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launcher:
    """How the wrapper is started on a compute node."""

    python: str
    wrapper: str
    tasks: str
    """The directory of the submission's task files, `0.json` and on."""

    @property
    def command(self) -> str:
        """A line of shell; of an array, each task finds its own file."""
        words = shlex.join([self.python, self.wrapper])
        return f"{words} {shlex.quote(self.tasks)}/${{SLURM_ARRAY_TASK_ID:-0}}.json"


def build_values(
    job: JobSpec | Task, command: str, *, name: str = "", session: str = ""
) -> dict[str, str]:
    """What a template's placeholders stand for; `name` where it is not the job's."""
    return {
        "command": command,
        "job_name": name or (job.name if isinstance(job, JobSpec) else job.job),
        "session": session,
        "log_dir": job.log_dir,
        "output_dir": job.output_dir,
        "cwd": job.cwd,
    }


def render(template: str, values: Mapping[str, str]) -> str:
    """The template with each placeholder's value put in, safe for the shell.

    `command` is a line of shell already. Every other value is one literal piece of
    text, inside quotes and outside; nothing of it is ever run, not even where it is
    misjudged whether quotes are open (here documents may mislead).
    """
    parts, place, opened = [], 0, ""
    for found in _PLACEHOLDER.finditer(template):
        opened = _open_at(template, place, found.start(), opened)
        value = _put_in(found[1], values[found[1]], opened)
        parts += [template[place : found.start()], value]
        place = found.end()
    return "".join([*parts, template[place:]])


def _put_in(name: str, text: str, opened: str) -> str:
    """A value for where `opened` (a quote, `#`, or nothing) is open."""
    if opened == "#":
        text = " ".join(text.split())
    if name == "command":
        return text
    literal = _escape_literal(text)
    if opened == "#" or (literal == text and text):
        return literal
    return f"{opened}{literal}{opened}" or "''"


def _open_at(template: str, start: int, end: int, opened: str) -> str:
    """What is open at `end`, when `opened` was at `start`: a quote, `#`, or nothing."""
    for found in _QUOTING.finditer(template, start, end):
        mark = found[0][0]
        if not opened:
            opened = "" if mark in "\\\n" else mark
        elif opened == "#":
            opened = "" if mark == "\n" else "#"
        elif mark == opened or (opened, found[0]) == ("'", "\\'"):
            opened = ""
    return opened


_QUOTING: Final = re.compile(r"""\\.|'|"|(?:^|(?<=[\s;&|()]))#|\n""")
"""What opens and closes quotes and comments, and what a backslash keeps from it."""
_SPECIAL: Final = re.compile(r"[^\w@%+=:,./-]", re.ASCII)


def _escape_literal(text: str) -> str:
    """Text that means itself outside of quotes, and does nothing inside."""
    return _SPECIAL.sub(lambda found: _LITERAL.get(found[0], f"\\{found[0]}"), text)


_LITERAL: Final = {"`": r"$'\x60'", "\n": r"$'\n'"}
"""A backslash makes one start a command within another, the other vanish."""


def read_template(path: str) -> str:
    """The user's template, or ours where the path is empty.

    Raises:
        UsageError: it cannot be read, or starts nothing.
    """
    if not path:
        return OURS
    try:
        text = Path(path).expanduser().read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(
            f"cannot read {path}: {reason}",
            "slurm.template_path",
            "null takes our own script.",
        ) from error
    problems = check_template(text, path)
    if problems:
        raise UsageError(problems[0].message, problems[0].where, problems[0].hint)
    return text


def check_template(template: str, path: str) -> Sequence[Problem]:
    """What keeps a template from being used."""
    where = "slurm.template_path"
    found = []
    if not template.startswith("#!"):
        hint = "its first line names the shell: #!/bin/bash"
        found.append(Problem(f"{path} is no script", where, hint=hint))
    if "{command}" not in _strip_comments(template):
        hint = "put `{command}` on the line that is to start the job"
        message = f"{path} has no {{command}}: nothing would start"
        found.append(Problem(message, where, hint=hint))
    found += [_make_problem(name, path, where) for name in _find_directives(template)]
    if "{command}" in _strip_comments(template) and not _EXECUTED.search(template):
        # Signals go to the batch script itself: a shell in between would die of them.
        hint = "its line begins with exec: `exec {command}`"
        message = f"{path} keeps a shell above {{command}}, which signals would end"
        found.append(Problem(message, where, hint=hint))
    return tuple(found)


def _make_problem(name: str, path: str, where: str) -> Problem:
    message = f"{path} sets --{name}, which is not for it to set"
    return Problem(message, where, hint=OURS_ALONE[name])


def _find_directives(template: str) -> Iterator[str]:
    """Options of its `#SBATCH` lines that would take the job out of our sight."""
    for line in template.splitlines():
        found = _DIRECTIVE.match(line)
        words = found[1].split() if found else ()
        names = [_option_name(word) for word in words]
        yield from (one for one in names if one in OURS_ALONE and one not in _GIVEN)


def _option_name(word: str) -> str:
    """`array` of `--array=0-3`, `-a` or `-a0-3`; empty for a value."""
    if word.startswith("--"):
        return word[2:].partition("=")[0]
    return SHORT.get(word[1:2], "") if word.startswith("-") else ""


def _strip_comments(template: str) -> str:
    lines = template.splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


# --------------------------------------------------------------------------- options
def build_sbatch_arguments(
    *,
    name: str,
    output: str,
    script: str,
    options: Mapping[str, Scalar],
    count: int = 1,
    throttle: int = 0,
) -> tuple[str, ...]:
    """The command that submits `script`.

    Args:
        name: in the queue.
        output: where Slurm writes, `%` already escape_path but for its own patterns.
        script: the path of the script.
        options: sbatch's long options without their dashes; true is the bare flag.
        count: tasks; more than one make an array.
        throttle: of an array, tasks at a time; 0: no limit.
    """
    array = (f"--array={format_array_option(count, throttle)}",) if count > 1 else ()
    return (
        *("sbatch", "--parsable", f"--job-name={name}", f"--output={output}"),
        "--open-mode=append",
        *array,
        *_format_flags(options),
        script,
    )


def _format_flags(options: Mapping[str, Scalar]) -> Iterator[str]:
    for key, value in options.items():
        if value is True:
            yield f"--{key}"
        elif value is not None and value is not False:
            yield f"--{key}={_to_batch(key, str(value))}"


def _to_batch(key: str, value: str) -> str:
    """A signal before the limit goes to the wrapper, which passes it on."""
    if key == "signal" and ":" not in value:
        return f"B:{value}"
    return value


def escape_path(path: str) -> str:
    """A path in which Slurm replaces nothing."""
    return path.replace("%", "%%")


# ------------------------------------------------------------------------------- srun
# srun answers TERM by killing all tasks at once, and so does a second INT. Who is to
# save first has to be asked by Slurm itself, task by task, while srun goes on.
_AROUND_SRUN: Final = """\
early=
job=$SLURM_JOB_ID
case ${SLURM_ARRAY_TASK_ID:-} in
  ?*) job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID ;;
esac
pass() { case $! in ?*) kill -s "$1" "$!" ;; *) early="$early $1" ;; esac; }
ask() {
  case $job,$! in
    ?*,?*) (
      trap '' TERM INT HUP USR1 USR2
      scancel --signal="$1" "$job" || kill -s "$1" "$!"
    ) ;;
    *) pass "$1" ;;
  esac
}
for signal in TERM INT HUP; do trap "ask $signal" "$signal"; done
for signal in USR1 USR2; do trap "pass $signal" "$signal"; done
setsid "$@" &
for signal in $early; do pass "$signal"; done
while :; do
  wait "$!"
  status=$?
  [ "$status" -gt 128 ] || exit "$status"
  kill -0 "$!" 2>/dev/null && continue
  wait "$!" 2>/dev/null
  own=$?
  [ "$own" -eq 127 ] || status=$own
  exit "$status"
done
"""
"""Stands between us and srun: tasks are asked by Slurm, and have the time that they
are given; srun passes the other signals on. A task of an array goes by its number: the
id of one of them is that of the whole array. The traps stand before srun does, or
an early signal would end this shell alone. A signal interrupts `wait`, which then says
more than 128, and the shell may have taken note of the step's end behind it: it is
asked once more, and says 127 if it told before.

Signals come to the whole group: one that follows would end scancel and be taken for its
failure, so scancel heeds none. Nor does anything in a trap hang on a status: dash sets
it anew when a trap comes upon a trap.
"""
AROUND: Final = ("sh", "-c", _AROUND_SRUN, "signals-around-srun")
"""The words in front of srun's own."""


def is_srun(word: str) -> bool:
    """Whether a command's first word starts srun."""
    return PurePath(word).name == "srun"


def with_grace(command: Sequence[str]) -> tuple[str, ...]:
    """A command whose first word is srun, with the shell around; others as they are.

    A step in another job than the one that it is started from (`--jobid`) is srun's
    own affair: we would ask the wrong tasks.
    """
    elsewhere = any(word.partition("=")[0] == "--jobid" for word in command)
    if not command or elsewhere or not is_srun(command[0]):
        return tuple(command)
    return (*AROUND, *command)
