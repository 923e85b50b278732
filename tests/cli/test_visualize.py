"""What `autoexp-visualize` prints for a manifest: unfolded, coloured, in ASCII."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from rich.cells import cell_len

from autoexp_tui.cli.visualize import main, render_chart
from autoexp_tui.cockpit.widgets.pane import to_ascii
from autoexp_tui.conditions.kinds import JobStateIs, MetadataIs
from autoexp_tui.model.errors import Problem
from autoexp_tui.model.specs import Plan
from autoexp_tui.planning.chart import build_chart
from autoexp_tui.storage.manifests import write_manifest
from tests.planning.plans import job, plan, ten_jobs

GOLDEN = Path(__file__).parent / "golden"
Shown = Callable[..., str]


@pytest.fixture
def shown(
    tmp_path: Path, say: Callable[..., tuple[int, str, str]]
) -> Callable[..., str]:
    """What is printed of a plan of so many jobs, or of another one."""

    def show(made: int | Plan, *words: str) -> str:
        if isinstance(made, int):
            made = plan([job(f"run{at}", at, stage="train") for at in range(made)])
        return say(main, "--manifest", str(write_manifest(tmp_path, made)), *words)[1]

    return show


def test_into_a_pipe_many_jobs_are_folded_without_colours_at_full_length(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    out = shown(20)
    assert "... and 13 more" in out
    assert "\x1b" not in out
    assert "run19" in shown(20, "--all")
    long = plan([job("x" * 150)])
    assert "x" * 150 in shown(long)
    narrow = shown(long, "--all", "--width", "60")
    assert max(map(len, narrow.splitlines())) <= 60
    mermaid = [shown(70, "--format", "mermaid", *more) for more in ((), ("--all",))]
    assert ["run69" in text for text in mermaid] == [False, True]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_colours_unless_it_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = str(write_manifest(tmp_path, ten_jobs()))
    for env, colored in (
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ):
        with monkeypatch.context() as patch, redirect_stdout(Terminal()) as sent:
            for name, value in env.items():
                patch.setenv(name, value)
            main(["--manifest", manifest, "--width", "80"])
        assert ("\x1b[1m" in sent.getvalue()) is colored


def drawn(made: Plan, width: int, *, color: bool = False) -> str:
    return render_chart(build_chart(made), width, color=color)


def test_the_shipped_experiment_is_drawn_exactly_so() -> None:
    narrow = drawn(ten_jobs(), 80)
    for golden, text in {
        "chart_80.txt": narrow,
        "chart_80_ascii.txt": to_ascii(narrow),
    }.items():
        assert text == (GOLDEN / golden).read_text(encoding="utf-8").rstrip("\n")
    # a warning is coloured by its mark alone
    warned = plan([job("a"), job("b", 1)], warnings=(Problem(message="careful"),))
    assert "\x1b[33m!\x1b[0m  careful" in drawn(warned, 100, color=True)


def test_whatever_the_names_no_line_is_too_wide_and_nothing_steers_a_terminal() -> None:
    odd = "\x1b[31m\n\t\u202e\u200d\u0301日本é─…%\"'<>/\ud800"
    waits = (MetadataIs(key=odd, value=odd), JobStateIs(jobs=(odd,), state=odd))
    first = job(odd, stage=odd, parameters={odd: odd})
    jobs = [first, job("b", 1, depends_on=(odd,), start_conditions=waits, family=odd)]
    finding = Problem(message=odd, hint=odd, job=odd)
    for width in (24, 60, 200):
        text = drawn(plan(jobs, name=odd, warnings=(finding,)), width)
        lines = text.split("\n")
        assert max(map(cell_len, lines)) <= width
        shown = "".join(lines)
        assert not [c for c in shown if ord(c) < 32 or c in "\x7f\x9b\u202e"]
        assert to_ascii(text).isascii()
        assert to_ascii(text).count("\n") == text.count("\n")
