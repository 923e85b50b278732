"""autoexp-visualize: the plan as text, or as a Mermaid graph."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autoexp_tui.cli.diagnostics import ExitCode, exit_with
from autoexp_tui.cli.garbage import leave
from autoexp_tui.cli.options import Options, common, parse, parser

if TYPE_CHECKING:
    from autoexp_tui.model.specs import Plan


def main(argv: Sequence[str]) -> int:
    """Draw a config's plan, a manifest's, or a session's."""
    made = parser("autoexp-visualize", __doc__ or "")
    add = made.add_argument
    add("--format", choices=["text", "mermaid"], default="text")
    add("--all", action="store_true", help="unfold: every job, value and warning")
    add("--ascii", action="store_true", help="no box-drawing characters")
    add("--width", type=int, default=0, help="columns (the terminal's)")
    args = parse(made, argv)
    options = common(args)
    plan = _plan(options)
    if args.format == "mermaid":
        from autoexp_tui.planning.chart import mermaid

        print(mermaid(plan, whole=args.all))
        return ExitCode.OK
    text = text_of(plan, width=args.width, ascii_only=args.ascii, whole=args.all)
    print(_colored(text) if _wants_color(options, ascii_only=args.ascii) else text)
    return ExitCode.OK


def _wants_color(options: Options, *, ascii_only: bool) -> bool:
    """Only on a terminal that has colours, and where nobody said no."""
    plain = options.no_color or ascii_only or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def _colored(text: str) -> str:
    from autoexp_tui.planning.chart_paint import painted

    return painted(text)


def _plan(options: Options) -> Plan:
    from autoexp_tui.cli import open as opening
    from autoexp_tui.storage.session_dir import read_manifest

    if options.session:
        return read_manifest(Path(opening.session_of(options).plan))
    return opening.make_plan(options, run=False)


def text_of(
    plan: Plan, *, width: int = 0, ascii_only: bool = False, whole: bool = False
) -> str:
    """The plan as the terminal can show it."""
    from autoexp_tui.planning.chart import chart

    columns = width or shutil.get_terminal_size((100, 24)).columns
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    ascii_only = ascii_only or encoding != "utf8"
    return chart(plan, width=columns, ascii_only=ascii_only, whole=whole)


def entry() -> None:
    """The console script."""
    leave()
    exit_with(main)


if __name__ == "__main__":
    entry()
