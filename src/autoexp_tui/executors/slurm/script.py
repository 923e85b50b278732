"""The script that sbatch is given, and the options beside it: text from typed values.

The script holds what a person may want to change (modules, a container): ours is
short, and `slurm.template_path` puts another in its place. All options go on sbatch's
command line, where they win over a template's own `#SBATCH` lines.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Final

from autoexp_tui.engine.executor_port import Task
from autoexp_tui.model.errors import Problem, UsageError
from autoexp_tui.model.specs import JobSpec, Scalar

_NAMES: Final = """
account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters
comment constraint container container-id contiguous core-spec cores-per-socket
cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency distribution
error exclude exclusive export export-file extra extra-node-info get-user-env gid
gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags
hint hold ignore-pbs input job-name kill-on-invalid-dep licenses mail-type mail-user
mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nice no-kill
no-requeue nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu
ntasks-per-node ntasks-per-socket open-mode output overcommit oversubscribe parsable
partition power prefer priority profile propagate qos quiet reboot requeue
reservation signal sockets-per-node spread-job stepmgr switches test-only
thread-spec threads-per-core time time-min tmp tres-bind tres-per-task uid
use-min-nodes wait wait-all-nodes wckey wrap
"""
KNOWN: Final = frozenset(_NAMES.split())

_OWN_NAME: Final = "the job is found again by the name that it is given"
_OWN_LOG: Final = "its log is read where it is told to write: log_dir/<job>"
_OWN_ANSWER: Final = "it would change what sbatch answers, and no job id be read"
OURS_ALONE: Final[Mapping[str, str]] = {
    "array": "alike jobs become an array by themselves: slurm.client.array_size",
    "clusters": "only the cluster of this machine is asked; SLURM_CONF chooses it",
    "error": _OWN_LOG,
    "gid": "jobs are asked for by their owner, who is you",
    "help": _OWN_ANSWER,
    "job-name": _OWN_NAME,
    "open-mode": "a requeued job would overwrite the log of its earlier runs",
    "output": _OWN_LOG,
    "parsable": "it is given already",
    "quiet": _OWN_ANSWER,
    "test-only": "nothing would run; `autoexp-plan --check-cluster` asks that",
    "uid": "jobs are asked for by their owner, who is you",
    "usage": _OWN_ANSWER,
    "version": _OWN_ANSWER,
    "wait": "sbatch would not answer until the job has ended",
    "wrap": "the script is written already; `backend` says what runs",
}  # fmt: skip
"""Options that would take a job out of our sight, each with the reason."""
SHORT: Final[Mapping[str, str]] = {
    "a": "array", "e": "error", "h": "help", "M": "clusters", "Q": "quiet",
    "V": "version", "W": "wait",
}  # fmt: skip
"""Of those that a script's own lines could bring in, as one letter."""

_CLOCK: Final = re.compile(
    r"(?:(?P<days>\d+)-)?(?P<a>\d+)(?::(?P<b>\d{1,2}))?(?::(?P<c>\d{1,2}))?"
)


def find_option(name: str) -> str:
    """`name`, or the option it most likely misspells; sites add some of their own."""
    if name in KNOWN or name in OURS_ALONE:
        return name
    whole = [one for one in sorted({*KNOWN, *OURS_ALONE}) if one.startswith(name)]
    if len(whole) == 1:
        return whole[0]
    near = get_close_matches(name, KNOWN, n=1, cutoff=0.85)
    return near[0] if near else name


def parse_seconds(time: Scalar) -> float | None:
    """Slurm's time limit in seconds; None: absent, unlimited, or no time.

    Forms: minutes, minutes:seconds, h:m:s, days-h, days-h:m, days-h:m:s.
    """
    if time is None or isinstance(time, bool):
        return None
    found = _CLOCK.fullmatch(str(time).strip())
    if found is None:
        return None
    a, b, c = (int(found[part] or 0) for part in "abc")
    if found["days"] is not None:
        return float(int(found["days"]) * 86400 + a * 3600 + b * 60 + c)
    if found["c"] is not None:
        return float(a * 3600 + b * 60 + c)
    return float(a * 60 + b)


def parse_options(
    written: Mapping[str, Scalar], place: str
) -> tuple[dict[str, Scalar], list[Problem]]:
    """Options of the config key `place`, but null ones, and what is wrong with them."""
    options: dict[str, Scalar] = {}
    problems: list[Problem] = []
    for key, value in written.items():
        name = key.replace("_", "-")
        where = f"{place}.{key}"
        meant = find_option(name)
        if meant in OURS_ALONE and value is not None and value is not False:
            message = "is not for you to set"
            problems.append(Problem(message, where=where, hint=OURS_ALONE[meant]))
        elif meant != name:
            hint = f"did you mean `{meant}`?"
            problems.append(Problem("is no option of sbatch", where=where, hint=hint))
        elif name == "time" and value is not None and parse_seconds(value) is None:
            hint = "minutes, HH:MM:SS or D-HH:MM:SS, between quotes"
            problems.append(Problem(f"is {value!r}, no time", where=where, hint=hint))
        elif value is not None:
            options[name] = value
    return options, problems


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
    throttled = f"%{throttle}" if 0 < throttle < count else ""
    array = (f"--array=0-{count - 1}{throttled}",) if count > 1 else ()
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
