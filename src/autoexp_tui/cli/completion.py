"""`--print-completion`: what a shell completes, and the manual page, both made of the
options as argparse has them, by libraries that do nothing else (the extra `shell`)."""

from __future__ import annotations

import argparse
import re
from typing import Any, Final

from autoexp_tui import __version__
from autoexp_tui.model.errors import UsageError

FORMS: Final = ("bash", "zsh", "tcsh", "man")


class PrintCompletion(argparse.Action):
    """Prints a form of the parser, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *given: Any) -> None:
        """`given`: the namespace, the value, the option; raises UsageError."""
        print(render_parser(parser, given[1]))
        parser.exit()


def render_parser(parser: argparse.ArgumentParser, form: str) -> str:
    """The completion of a parser's options for a shell, or its manual page (roff)."""
    for action in parser._actions:  # argparse hides words while it reads the options
        if action.nargs == argparse.SUPPRESS:
            action.nargs = getattr(action, "save_nargs", "*")
    try:
        if form == "man":
            from argparse_manpage.manpage import Manpage

            about, parser.description = parser.description or "", None
            page = Manpage(parser)
            page.source, page.manual = f"autoexp-tui {__version__}", "autoexp-tui"
            page.description = about.partition("\n")[0].partition(": ")[2].rstrip(".")
            page.add_section("description", "=", _render_about(page.format_text(about)))
            return str(page).rstrip("\n")
        import shtab
    except ImportError as error:
        hint = "python -m pip install 'autoexp-tui[shell]'"
        problem = f"--print-completion {form} needs the package {error.name}"
        raise UsageError(problem, hint=hint) from error
    for action in parser._actions:
        metavar = action.metavar if isinstance(action.metavar, str) else ""
        kinds = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY}
        if metavar in kinds:
            action.complete = kinds[metavar]  # type: ignore[attr-defined]
    return str(shtab.complete(parser, form)).rstrip("\n")


def _render_about(text: str) -> str:
    """Escaped text in roff: lines of a name, two blanks and words become a list."""
    lines = []
    for row in text.splitlines():
        entry = re.fullmatch(r"(\S.*?)  +(\S.*)", row)
        lines += [".TP", f"\\fB{entry[1]}\\fR"] if entry else []
        lines.append(entry[2] if entry else row.strip() or ".PP")
    return "\n".join(lines)
