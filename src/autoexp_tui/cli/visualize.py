"""autoexp-visualize: the plan as text, or as a Mermaid graph."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from autoexp_tui.cli.diagnostics import ExitCode, make_entry
from autoexp_tui.cli.options import Options, option, parse_options

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from autoexp_tui.model.specs import Plan
    from autoexp_tui.planning.chart import Chart, Table

_UNBOUNDED: Final = 100_000
"""Columns where no terminal wraps lines: a pipe or a file."""
_NARROWEST: Final = 24
_MARK_STYLES: Final = {"✓": "green", "!": "yellow"}


_FLAGS: Final = (
    (["--format"], {"choices": ["text", "mermaid"], "default": "text"}),
    option("--all", "unfold: every job, value and warning"),
    option("--ascii", "no box-drawing characters"),
    option("--width", "columns (the terminal's)", "WIDTH", type=int, default=0),
)


def main(argv: Sequence[str]) -> int:
    """Draw a config's plan, a manifest's, or a session's."""
    options, args = parse_options("autoexp-visualize", __doc__, argv, _FLAGS)
    from autoexp_tui.cli.open import ask_plan

    result = ask_plan(options)
    result.raise_errors()
    assert result.plan is not None
    if args.format == "mermaid":
        from autoexp_tui.planning.chart import render_mermaid

        print(render_mermaid(result.plan, whole=args.all))
    else:
        form = {"width": args.width, "ascii_only": args.ascii, "whole": args.all}
        print(draw_plan(result.plan, options, **form))
    return ExitCode.OK


def draw_plan(
    plan: Plan,
    options: Options,
    *,
    width: int = 0,
    ascii_only: bool = False,
    whole: bool = False,
) -> str:
    """A plan as the terminal can show it, in its width (0) or another; for a pipe
    without colours, each line at its full length."""
    from autoexp_tui.planning.chart import build_chart

    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    ascii_only = ascii_only or encoding != "utf8"
    is_terminal = sys.stdout.isatty()
    if not width and not is_terminal and "COLUMNS" not in os.environ:
        width = _UNBOUNDED
    width = width or shutil.get_terminal_size((100, 24)).columns
    is_plain = options.no_color or os.environ.get("TERM") == "dumb" or ascii_only
    chart = build_chart(plan, whole=whole)
    text = render_chart(chart, width, color=is_terminal and not is_plain)
    if ascii_only:
        from autoexp_tui.cockpit.widgets.pane import to_ascii

        text = "\n".join(map(to_ascii, text.splitlines()))
    return text


def render_chart(chart: Chart, width: int, *, color: bool = False) -> str:
    """A chart as lines of at most `width` columns; less than 24 count as 24."""
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree(Text(chart.title, "bold"))
    for section in chart.sections:
        branch = tree.add(Text(section.title, "bold"))
        for table in section.tables:
            branch.add(_to_grid(table))
    console = Console(
        file=io.StringIO(),
        width=max(width, _NARROWEST),
        color_system="standard" if color else None,
        force_terminal=color,
        legacy_windows=False,
    )
    with console.capture() as capture:
        console.print(tree)
        console.print()
        console.print(_to_grid(chart.findings))
    return "\n".join(line.rstrip() for line in capture.get().rstrip().splitlines())


def _to_grid(table: Table) -> RichTable:
    """Cells as they are: no markup, folded where there is no room; no empty column."""
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable.grid(padding=(0, 2, 0, 0))
    used = [at for at, cells in enumerate(zip(*table, strict=True)) if any(cells)]
    for _ in used:
        grid.add_column(overflow="fold")
    for row in table:
        cells = [row[at] for at in used]
        grid.add_row(*(Text(cell, _MARK_STYLES.get(cell, "")) for cell in cells))
    return grid


entry = make_entry(main, __name__, collects=False)
