"""The options that the commands share, and how they sit beside Hydra overrides.

No sub-commands where overrides are taken: every argument that is not an option is an
override, and one that does not look like an override is an error that says so.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from autoexp_tui import __version__
from autoexp_tui.cli.completion import FORMS, PrintCompletion
from autoexp_tui.model.errors import UsageError
from autoexp_tui.probes.config_files import DEFAULT_STATE_DIR, STATE_DIR_VARIABLE

DEFAULT_CONFIG: Final = "exp"
_OVERRIDE = re.compile(r"^(\+\+|\+|~)?[A-Za-z_@/][^\s=]*(=.*)?$", re.DOTALL)

Flag = tuple[Sequence[str], dict[str, Any]]
"""The names of an option, and what argparse is told of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line said."""

    config_ref: str = ""
    config_dir: str = ""
    session: str = ""
    state_dir: str = ""
    manifest: str = ""
    json: bool = False
    local: bool = False
    approve: frozenset[str] = frozenset()
    """Stages; `*` for all."""
    yes: bool = False
    force: bool = False
    """Re-run jobs that already completed in an earlier session."""
    no_color: bool = False
    briefly: bool = False
    """An engine of this process lives for one command to its session."""
    overrides: tuple[str, ...] = ()


def option(names: str, about: str, metavar: str = "", **more: Any) -> Flag:
    """An option that takes a value; without a `metavar` it is a switch."""
    kind = {"metavar": metavar, "default": ""} if metavar else {"action": "store_true"}
    return names.split(), {"help": about, **kind, **more}


JSON: Final = option("--json", "one line of JSON on stdout")
VERSION: Final = (
    ["--version"],
    {"action": "version", "version": f"autoexp-tui {__version__}"},
)
FORCE: Final = option(
    "--force", "re-run jobs that already completed in an earlier session"
)
FIRST_FAMILY: Final = option(
    "--first-family", "submit the first family not yet done; hold the rest"
)
QUIET: Final = option("--quiet", "say nothing until the end")
_COMMON: Final = (
    option("--config-ref", "the primary config (else the example)", "NAME"),
    option(
        "-C --config-dir",
        "its root (default ./config if there; the shipped one comes last)",
        "DIR",
    ),
    option("--session", "an existing session", "ID"),
    option("--state-dir", "where sessions live (or AUTOEXP_STATE_DIR)", "DIR"),
    option("--manifest", "a plan that was written before", "FILE"),
    JSON,
    option("--local", "run on this machine, whatever the config"),
    option(
        "--approve",
        "none, all, or STAGE,...: approvals given without asking",
        "WHO",
        default="none",
    ),
    option("--yes", "confirm what would be asked"),
    option("--no-color", "no colours (or NO_COLOR)"),
    VERSION,
)
_COMPLETION: Final = (
    ["--print-completion"],
    {
        "action": PrintCompletion,
        "choices": FORMS,
        "metavar": "FORM",
        "help": "completion for bash, zsh or tcsh; man: the manual page",
    },
)
_OVERRIDES: Final = (
    ["overrides"],
    {"nargs": "*", "metavar": "key=value", "help": "Hydra overrides"},
)


class Parser(argparse.ArgumentParser):
    """Raises our own error, so that one place owns stderr and the exit code."""

    def error(self, message: str) -> None:  # type: ignore[override]
        hint = f"{self.prog} --help lists the options."
        unknown = message.partition("unrecognized arguments: ")[2].split()
        flags = [one.partition("=")[0] for one in unknown if one.startswith("--")]
        if flags and (meant := self._find_meant(flags[0])):
            hint = f"Did you mean {meant}? {hint}"
        raise UsageError(message, hint=hint)

    def _find_meant(self, flag: str) -> str | None:
        from autoexp_tui.text.did_you_mean import find_nearest  # seldom

        begun = [one for one in self._option_string_actions if one.startswith(flag)]
        if len(begun) == 1:
            return begun[0]
        return find_nearest(flag, self._option_string_actions)


def build_parser(
    prog: str, about: str | None, flags: Iterable[Flag], usage: str | None = None
) -> Parser:
    """A parser of these options alone; `about` is shown as it is written."""
    made = Parser(
        prog=prog,
        usage=usage,
        description=about,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for names, settings in (*flags, _COMPLETION):
        made.add_argument(*names, **settings)
    return made


def parse_options(
    prog: str,
    about: str | None,
    argv: Sequence[str],
    flags: Iterable[Flag] = (),
    *,
    overrides: bool = True,
) -> tuple[Options, argparse.Namespace]:
    """What a command was told: the common options, and all with its own `flags`.

    Options and overrides come in any order. Raises UsageError.
    """
    more = (_OVERRIDES,) if overrides else ()
    made = build_parser(prog, about, (*_COMMON, *flags, *more))
    args = made.parse_intermixed_args(list(argv))
    return read_options(args), args


def read_options(args: argparse.Namespace) -> Options:
    """The common options from parsed arguments; raises UsageError."""
    names = [one.name for one in fields(Options) if hasattr(args, one.name)]
    found: dict[str, Any] = {name: getattr(args, name) for name in names}
    found["overrides"] = tuple(found.get("overrides", ()))
    require_overrides(found["overrides"])
    stages = {stage.strip() for stage in args.approve.split(",")} - {"", "none"}
    found["state_dir"] = args.state_dir or os.environ.get(STATE_DIR_VARIABLE, "")
    found["approve"] = frozenset({"*"} if args.approve == "all" else stages)
    found["no_color"] = args.no_color or "NO_COLOR" in os.environ
    return Options(**found)


def require_overrides(texts: Iterable[str]) -> None:
    """Texts have the form of overrides; raises UsageError."""
    for text in texts:
        deletes = text.startswith("~")
        if not _OVERRIDE.match(text) or ("=" not in text and not deletes):
            raise UsageError(
                f"{text!r} is neither an option nor an override",
                hint="Overrides are written key=value, +key=value, ++key=value or "
                "~key.",
            )


def find_state_dir(options: Options, plan_state_dir: str = "") -> Path:
    """Where sessions live: the option, the environment, the plan, the default."""
    return Path(options.state_dir or plan_state_dir or DEFAULT_STATE_DIR).absolute()


def name_session(directory: Path, more: str = "") -> str:
    """A session as a command line names it: its id, `more` words, and its state
    directory unless commands find that anyway."""
    words = " ".join(filter(None, (directory.name, more)))
    if directory.parent == Path(DEFAULT_STATE_DIR).absolute():
        return words
    return f"{words} --state-dir {shlex.quote(str(directory.parent))}"


_TEXTS: Final = frozenset({"TEXT", "NAME", "DIR"})
"""What an option takes that is no number and no word of ours."""


class SectionOptions(NamedTuple):
    section: str
    table: str
    """Rows of a key below the section, what it takes, and what it is; `-`: nothing."""

    def _list_rows(self) -> Iterator[list[str]]:
        for row in self.table.strip().splitlines():
            yield row.split(" ", 2)

    def list_flags(self) -> Iterator[Flag]:
        for key, metavar, about in self._list_rows():
            flag = "--" + key.replace(".", "-").replace("_", "-")
            takes = () if metavar == "-" else (metavar,)
            yield option(flag, f"{about}: {self.section}.{key}", *takes, dest=key)

    def list_overrides(self, args: argparse.Namespace) -> Iterator[str]:
        from autoexp_tui.planning.overrides import quote

        for key, metavar, _ in self._list_rows():
            if value := getattr(args, key):
                text = quote(value) if metavar in _TEXTS else str(value).lower()
                yield f"++{self.section}.{key}={text}"
