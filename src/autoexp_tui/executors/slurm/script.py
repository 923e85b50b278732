"""The script that sbatch is given, and the options beside it: text from typed values.

The script holds what a person may want to change (modules, a container): ours is
short, and `slurm.template_path` puts another in its place. All options go on sbatch's
command line, where they win over a template's own `#SBATCH` lines.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Final

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.executors.slurm.sbatch_options import OURS_ALONE, SHORT
from autoexp_tui.executors.slurm.text import format_array_option
from autoexp_tui.model.errors import UsageError
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


def format_launcher(python: str, wrapper: str, tasks: str) -> str:
    """The line of shell that starts the wrapper on a compute node.

    `tasks`: the directory of task files, of which a task of an array finds its own.
    """
    words = shlex.join([python, wrapper])
    return f"{words} {shlex.quote(tasks)}/${{SLURM_ARRAY_TASK_ID:-0}}.json"


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
        text = values[found[1]]
        if opened == "#":
            text = " ".join(text.split())
        if found[1] != "command":
            literal = _SPECIAL.sub(
                lambda one: _LITERAL.get(one[0], f"\\{one[0]}"), text
            )
            plain = opened == "#" or (literal == text and text)
            text = literal if plain else f"{opened}{literal}{opened}" or "''"
        parts += [template[place : found.start()], text]
        place = found.end()
    return "".join([*parts, template[place:]])


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
"""Text with a backslash before each means itself outside of quotes, and does nothing
inside."""


_LITERAL: Final = {"`": r"$'\x60'", "\n": r"$'\n'"}
"""A backslash makes one start a command within another, the other vanish."""


def read_template(path: str) -> str:
    """The user's template, or ours for an empty path; raises UsageError: no use."""
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
    if (fault := _find_fault(text)) is not None:
        raise UsageError(f"{path} {fault[0]}", "slurm.template_path", fault[1])
    return text


def _find_fault(template: str) -> tuple[str, str] | None:
    """What keeps a template from being used, and the next step."""
    if not template.startswith("#!"):
        return "is no script", "its first line names the shell: #!/bin/bash"
    lines = template.splitlines()
    run = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    if "{command}" not in run:
        hint = "put `{command}` on the line that is to start the job"
        return "has no {command}: nothing would start", hint
    for found in filter(None, map(_DIRECTIVE.match, lines)):
        for word in found[1].split():
            name = _read_option_name(word)
            if name in OURS_ALONE and name not in _GIVEN:
                return f"sets --{name}, which is not for it to set", OURS_ALONE[name]
    if not _EXECUTED.search(template):
        # Signals go to the batch script itself: a shell in between would die of them.
        hint = "its line begins with exec: `exec {command}`"
        return "keeps a shell above {command}, which signals would end", hint
    return None


def _read_option_name(word: str) -> str:
    """`array` of `--array=0-3`, `-a` or `-a0-3`; empty for a value."""
    if word.startswith("--"):
        return word[2:].partition("=")[0]
    return SHORT.get(word[1:2], "") if word.startswith("-") else ""


def build_sbatch_arguments(
    *,
    name: str,
    output: str,
    script: str,
    options: Mapping[str, Scalar],
    count: int = 1,
    throttle: int = 0,
) -> tuple[str, ...]:
    """The command that submits `script`; `output` has patterns of Slurm: `%j`."""
    array = (f"--array={format_array_option(count, throttle)}",) if count > 1 else ()
    flags: list[str] = []
    for key, value in options.items():
        if value is True:
            flags.append(f"--{key}")
        elif value is not None and value is not False:
            # A signal before the limit goes to the wrapper, which passes it on.
            batch = "B:" if key == "signal" and ":" not in str(value) else ""
            flags.append(f"--{key}={batch}{value}")
    return (
        *("sbatch", "--parsable", f"--job-name={name}", f"--output={output}"),
        *("--open-mode=append", *array, *flags, script),
    )


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


def is_srun(word: str) -> bool:
    return PurePath(word).name == "srun"


def with_grace(command: Sequence[str]) -> tuple[str, ...]:
    """A command whose first word is srun, with the shell around; others as they are.

    A step in another job (`--jobid`) is srun's own affair: we would ask wrong tasks.
    """
    elsewhere = any(word.partition("=")[0] == "--jobid" for word in command)
    if not command or elsewhere or not is_srun(command[0]):
        return tuple(command)
    return (*AROUND, *command)
