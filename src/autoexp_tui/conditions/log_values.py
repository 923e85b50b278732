"""Where a value that was read from a log may stand, and which values may. Pure.

Logs are written by code that nobody reviewed. A value of theirs is data: in a command
it is a word of its own, never a program, an option or a piece of a script; in a path
that is written to it is one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final

PLAIN: Final = "letters, digits and . _ + / : @ % , = -, not beginning with -"
"""The values that a command's word may be, in words."""
_PLAIN: Final = re.compile(r"(?!-)[A-Za-z0-9._+/:@%,=-]+")
_LONG_OPTION: Final = re.compile(r"(--[A-Za-z0-9][\w.-]*)=")
_SCRIPT_OPTION: Final = re.compile(
    r"-[A-Za-z0-9]*[ce]|--(?:command|eval|exec|execute|expression)|-execdir|-ok(?:dir)?"
)
"""Behind these stands a text, or a program, that is run."""
_RUNNERS: Final = {
    **dict.fromkeys(
        """
        busybox chrt command doas env exec ionice ltrace mpiexec mpirun nice nohup
        nsenter numactl parallel prlimit salloc sbatch script setsid srun stdbuf strace
        sudo systemd-run time timeout unbuffer unshare uvx valgrind watch xargs
        xvfb-run
        """.split(),  # noqa: SIM905 - as a list it takes a page
        0,
    ),
    **dict.fromkeys(("ssh", "rsh", "mosh", "chroot", "flock", "taskset"), 1),
    **dict.fromkeys(("conda", "mamba", "pixi", "poetry", "uv", "pipx"), 1),
    **dict.fromkeys(("docker", "podman", "apptainer", "singularity"), 2),
}
"""Programs that run another, and how many words (`run IMAGE`) stand before it."""
_INTERPRETERS: Final = re.compile(
    r"(?:ba|da|z|k|c|tc|fi)?sh|source|\.|python[\d.]*|perl|ruby|node|Rscript|julia"
    r"|torchrun|accelerate|deepspeed"
)
"""Programs whose first word is a script."""
_JOINING: Final = frozenset({"ssh", "rsh", "mosh", "watch", "parallel"})
"""Programs that join their words to a text for a shell."""
_NO_PROGRAM: Final = re.compile(
    r"-.*|\d+(?:\.\d+)?[smhd]?|[A-Z][A-Z0-9_]*|[A-Za-z_]\w*=.*"
)
"""What may stand between such a program and the one it runs."""

USE_ARGUMENT: Final = (
    "make it a word of its own; to a script give it as an argument, which no shell "
    """reads as more than text: [bash, -c, 'ls "$1"', "--", "{key}"]"""
)
"""How to write it where no value may stand."""


class Refused(Exception):
    """A value may not stand where it is asked for; the text says why."""


def is_plain(value: str) -> bool:
    """Whether no shell and no program would read a value as more than one word."""
    return _PLAIN.fullmatch(value) is not None


def explain_never(words: Sequence[str], at: int, start: int, end: int) -> str:
    """Why no value from a log may stand at `words[at][start:end]`; empty: some may."""
    word = words[at]
    if any(map(str.isspace, word)):
        return "in a word with blanks, which a shell may read"
    if at == 0:
        return "where the program is named"
    option = _LONG_OPTION.fullmatch(word[:start])
    if _SCRIPT_OPTION.fullmatch(option[1] if option else words[at - 1]):
        return f"behind {option[1] if option else words[at - 1]}, as a script"
    if end != len(word) or (start and not option):
        return "in a part of a word: it must be a whole word, or end --option="
    if not option and _is_program(words, at):
        return "where the program may be named (-- ends the options before it)"
    return ""


def check_command_value(words: Sequence[str], at: int, value: str) -> str:
    """The value, as a word of a command where some may stand; or `Refused`."""
    if not is_plain(value) and (is_joining_words(words[:at]) or "--" not in words[:at]):
        raise Refused(f"{value!r} is more than {PLAIN}")
    return check_no_nul(value)


def is_joining_words(words: Iterable[str]) -> bool:
    """Whether a program among them makes one text for a shell of those behind it."""
    return any(PurePosixPath(word).name in _JOINING for word in words)


def check_one_name(value: str) -> str:
    """The value, as one component of a path that is written to; or `Refused`."""
    if "/" in value or not value.strip("."):
        raise Refused(f"{value!r} is more than one name in a path")
    return check_no_nul(value)


def check_no_nul(value: str) -> str:
    """The value, where any text may stand; the system takes no NUL in one."""
    if "\0" in value:
        raise Refused(f"{value!r} holds a NUL")
    return value


def find_unsafe(command: Sequence[str], values: Iterable[str]) -> str:
    """The first value from a log in a command's scripts that is not plain; or empty."""
    texts = [
        word
        for at, word in enumerate(command)
        if is_joining_words(command[:at])
        or (at > 0 and _SCRIPT_OPTION.fullmatch(command[at - 1]))
    ]
    odd = (value for value in values if value and not is_plain(value))
    return next((one for one in odd if any(one in text for text in texts)), "")


def _is_program(words: Sequence[str], at: int, runner: int = 0) -> bool:
    """Whether the word may be what a program such as `env`, or `python`, runs.

    Whether an option takes the word behind it is that program's own affair: it may.
    """
    name = PurePosixPath(words[runner]).name
    if _INTERPRETERS.fullmatch(name):
        return all(word.startswith("-") for word in words[runner + 1 : at])
    left = _RUNNERS.get(name)
    if left is None:
        return False
    for here in range(runner + 1, at):
        word, before = words[here], words[here - 1]
        if _NO_PROGRAM.fullmatch(word):
            continue
        if _is_program(words, at, here):
            return True
        if not before.startswith("-") or before == "--" or "=" in before:
            left -= 1  # no option's value
        if left < 0:
            return False
    return True
