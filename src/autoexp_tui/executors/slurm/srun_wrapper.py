"""A shell around srun, so that the tasks of a step have their time to end.

srun answers TERM by killing all tasks at once, and so does a second INT. Who is to save
first has to be asked by Slurm itself, task by task, while srun goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

TEXT: Final = """\
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
AROUND: Final = ("sh", "-c", TEXT, "signals-around-srun")
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
