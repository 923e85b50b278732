"""What `autoexp-visualize` prints for a manifest: unfolded, coloured, in ASCII."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TextIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from autoexp_tui.cli.visualize import main, render_chart, to_ascii
from autoexp_tui.conditions.kinds import JobStateIs, MetadataIs
from autoexp_tui.model.specs import Plan, PlanFinding
from autoexp_tui.planning.chart import build_chart
from autoexp_tui.storage.manifests import write_manifest
from tests.planning.plans import job, plan, ten_jobs

Say = Callable[..., tuple[int, str, str]]
GOLDEN = Path(__file__).parent / "golden"


def twenty() -> Plan:
    """Jobs of one stage, more than a box shows."""
    return plan(
        [
            job(f"run{at}", at, stage="train", family=f"f{at}", parameters={"seed": at})
            for at in range(20)
        ]
    )


@pytest.fixture
def manifest(tmp_path: Path) -> str:
    return str(write_manifest(tmp_path, twenty()))


class Terminal:
    """Stands in for a stdout that is a terminal."""

    encoding = "utf-8"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        return True


def on_a_terminal(manifest: str) -> str:
    """What a terminal of 80 columns is sent."""
    shown = Terminal()
    with redirect_stdout(cast("TextIO", shown)):
        main(["--manifest", manifest, "--width", "80"])
    return shown.text


def test_into_a_pipe_many_jobs_are_folded_without_colours(
    manifest: str, say: Say
) -> None:
    out = say(main, "--manifest", manifest)[1]
    assert "... and 13 more" in out
    assert "\x1b" not in out
    assert "run19" in say(main, "--manifest", manifest, "--all")[1]


@pytest.mark.parametrize(
    ("env", "colored"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_a_terminal_gets_colours_unless_it_has_none(
    manifest: str,
    monkeypatch: pytest.MonkeyPatch,
    *,
    env: dict[str, str],
    colored: bool,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in ({"TERM": "xterm"} | env).items():
        monkeypatch.setenv(name, value)
    assert ("\x1b[1m" in on_a_terminal(manifest)) is colored


def test_into_a_pipe_each_line_goes_at_its_full_length_unless_a_width_is_asked(
    tmp_path: Path, say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    path = str(write_manifest(tmp_path, plan([job("x" * 300)])))
    assert "x" * 300 in say(main, "--manifest", path)[1]
    narrow = say(main, "--manifest", path, "--all", "--width", "60")[1]
    assert max(map(len, narrow.splitlines())) <= 60


def test_mermaid_folds_what_is_large_and_all_unfolds_it(
    tmp_path: Path, say: Say
) -> None:
    jobs = [job(f"run{at}", at, stage="train") for at in range(70)]
    words = ("--manifest", str(write_manifest(tmp_path, plan(jobs))))
    folded, whole = (
        say(main, *words, "--format", "mermaid", *more)[1] for more in ((), ("--all",))
    )
    assert ("run69" in folded, "run69" in whole) == (False, True)


def drawn(made: Plan, width: int, **options: Any) -> str:
    return render_chart(build_chart(made), width, **options)


@pytest.mark.parametrize(
    ("golden", "width", "ascii_only"),
    [
        ("chart_80.txt", 80, False),
        ("chart_120.txt", 120, False),
        ("chart_80_ascii.txt", 80, True),
    ],
)
def test_the_shipped_experiment_is_drawn_exactly_so(
    golden: str, width: int, ascii_only: bool
) -> None:
    text = drawn(ten_jobs(), width)
    shown = to_ascii(text) if ascii_only else text
    assert shown == (GOLDEN / golden).read_text(encoding="utf-8").rstrip("\n")


def test_a_warning_is_coloured_by_its_mark_alone() -> None:
    warned = plan([job("a"), job("b", 1)], warnings=(PlanFinding(message="careful"),))
    shown = drawn(warned, 100, color=True)
    assert "\x1b[33m!\x1b[0m  careful" in shown


FEW = settings(max_examples=40, deadline=None)
HOSTILE = st.text(
    st.one_of(
        st.sampled_from("\x1b[31m\n\t\r\u202e\u200d\u0301日本é─…%\"'<>/\ud800"),
        st.characters(),
    ),
    max_size=90,
)


@st.composite
def hostile_plans(draw: st.DrawFn) -> Plan:
    """Up to twelve jobs, every text from anywhere, waiting for each other at will."""
    texts = draw(st.lists(HOSTILE, min_size=1, max_size=12))
    jobs = [
        job(
            text,
            at,
            stage=draw(st.sampled_from(texts)),
            family=draw(st.sampled_from(["", "f0", "f1"])),
            parameters={draw(st.sampled_from(texts)): draw(HOSTILE)},
            depends_on=tuple(draw(st.lists(st.sampled_from(texts), max_size=3))),
            start_conditions=(
                JobStateIs(jobs=tuple(texts), state=draw(HOSTILE)),
                MetadataIs(key=draw(HOSTILE), value=draw(HOSTILE)),
            ),
        )
        for at, text in enumerate(texts)
    ]
    finding = PlanFinding(message=draw(HOSTILE), hint=draw(HOSTILE), job=draw(HOSTILE))
    return plan(jobs, name=draw(HOSTILE), warnings=(finding,))


@FEW
@given(hostile_plans(), st.integers(24, 200))
def test_whatever_the_names_no_line_is_too_wide_and_nothing_steers_a_terminal(
    made: Plan, width: int
) -> None:
    lines = drawn(made, width).split("\n")
    assert max(map(cell_len, lines)) <= width
    assert not [c for c in "".join(lines) if ord(c) < 32 or c in "\x7f\x9b\u202e"]


@FEW
@given(hostile_plans())
def test_the_ascii_twin_is_ascii_and_has_as_many_lines(made: Plan) -> None:
    text = drawn(made, 80)
    assert to_ascii(text).isascii()
    assert to_ascii(text).count("\n") == text.count("\n")
