"""The options that the commands share, and how they sit beside Hydra overrides.

No sub-commands where overrides are taken: every argument that is not an option is an
override, and one that does not look like an override is an error that says so.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autoexp_tui import __version__
from autoexp_tui.model.errors import UsageError

_OVERRIDE = re.compile(r"^(\+\+|\+|~)?[A-Za-z_@/][^\s=]*(=.*)?$", re.DOTALL)


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
    """Run also what an earlier session has done."""
    no_color: bool = False
    overrides: tuple[str, ...] = ()


class Parser(argparse.ArgumentParser):
    """Raises our own error, so that one place owns stderr and the exit code."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise UsageError(message, hint=f"{self.prog} --help lists the options.")


def bare_parser(prog: str, about: str) -> argparse.ArgumentParser:
    """A parser without options of its own; `about` is shown as it is written."""
    return Parser(
        prog=prog,
        description=about,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def parser(prog: str, about: str, *, overrides: bool = True) -> argparse.ArgumentParser:
    """A parser with the common options."""
    made = bare_parser(prog, about)
    add = made.add_argument
    add("--config-ref", metavar="NAME", default="", help="the primary config (exp)")
    add(
        "-C",
        "--config-dir",
        metavar="DIR",
        default="",
        help="its root (default ./config if there; the shipped one comes last)",
    )
    add("--session", metavar="ID", default="", help="an existing session")
    add(
        "--state-dir",
        metavar="DIR",
        default="",
        help="where sessions live (or AUTOEXP_STATE_DIR)",
    )
    add("--manifest", metavar="FILE", default="", help="a plan that was written before")
    add("--json", action="store_true", help="one line of JSON on stdout")
    add("--local", action="store_true", help="run on this machine, whatever the config")
    add(
        "--approve",
        metavar="WHO",
        default="none",
        help="none, all, or STAGE,...: approvals given without asking",
    )
    add("--yes", action="store_true", help="confirm what would be asked")
    add("--no-color", action="store_true", help="no colours (or NO_COLOR)")
    add("--version", action="version", version=f"autoexp-tui {__version__}")
    if overrides:
        add("overrides", nargs="*", metavar="key=value", help="Hydra overrides")
    return made


def common(args: argparse.Namespace) -> Options:
    """The common options from parsed arguments.

    Raises:
        UsageError: an argument is neither an option nor an override.
    """
    overrides = tuple(getattr(args, "overrides", ()))
    for text in overrides:
        _check_override(text)
    return Options(
        config_ref=args.config_ref,
        config_dir=args.config_dir,
        session=args.session,
        state_dir=args.state_dir or os.environ.get("AUTOEXP_STATE_DIR", ""),
        manifest=args.manifest,
        json=args.json,
        local=args.local,
        approve=_stages(args.approve),
        yes=args.yes,
        force=getattr(args, "force", False),
        no_color=args.no_color or "NO_COLOR" in os.environ,
        overrides=with_local(overrides, local=args.local),
    )


def add_force(made: argparse.ArgumentParser) -> None:
    """`--force`, for commands that submit a plan."""
    text = "run also what an earlier session has done"
    made.add_argument("--force", action="store_true", help=text)


def add_first_family(made: argparse.ArgumentParser) -> None:
    """`--first-family`, for commands that submit a plan without a screen."""
    text = "submit the first family not yet done; hold the rest"
    made.add_argument("--first-family", action="store_true", help=text)


def parse(made: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse options and overrides in any order."""
    return made.parse_intermixed_args(list(argv))


def with_local(overrides: tuple[str, ...], *, local: bool) -> tuple[str, ...]:
    """The overrides, with the local executor chosen when asked for."""
    return (*overrides, "++slurm.client.class_name=LocalClient") if local else overrides


def _stages(text: str) -> frozenset[str]:
    if text in ("", "none"):
        return frozenset()
    if text == "all":
        return frozenset({"*"})
    return frozenset(stage.strip() for stage in text.split(",") if stage.strip())


def _check_override(text: str) -> None:
    deletes = text.startswith("~")
    if not _OVERRIDE.match(text) or ("=" not in text and not deletes):
        raise UsageError(
            f"{text!r} is neither an option nor an override",
            hint="Overrides are written key=value, +key=value, ++key=value or ~key.",
        )


def state_dir_of(options: Options, plan_state_dir: str = "") -> Path:
    """Where sessions live: the option, the environment, the plan, the default."""
    return Path(options.state_dir or plan_state_dir or DEFAULT_STATE_DIR).absolute()


DEFAULT_STATE_DIR = "outputs/.autoexp"
