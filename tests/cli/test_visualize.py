"""What `autoexp-visualize` prints for a manifest: unfolded, coloured, in ASCII."""

from __future__ import annotations

from contextlib import redirect_stdout
from pathlib import Path
from typing import TextIO, cast

import pytest

from autoexp_tui.cli.visualize import main
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.session_dir import write_manifest
from tests.planning.chart_plans import job, plan


def twenty() -> Plan:
    """Jobs of one stage, more than a box shows."""
    return plan(
        [
            job(
                f"run{at}",
                at,
                stage="train",
                family=f"f{at}",
                parameters={"seed": at},
            )
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


@pytest.fixture
def in_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def on_a_terminal(manifest: str) -> str:
    """What a terminal of 80 columns is sent."""
    shown = Terminal()
    with redirect_stdout(cast("TextIO", shown)):
        main(["--manifest", manifest, "--width", "80"])
    return shown.text


def test_many_jobs_are_folded(
    manifest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--manifest", manifest])
    assert "... and 13 more" in capsys.readouterr().out


def test_all_shows_every_job(manifest: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--manifest", manifest, "--all"])
    assert "run19" in capsys.readouterr().out


def test_a_pipe_gets_no_colours(
    manifest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--manifest", manifest])
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.usefixtures("in_color")
def test_a_terminal_gets_colours(manifest: str) -> None:
    assert "\x1b[1m" in on_a_terminal(manifest)


@pytest.mark.usefixtures("in_color")
@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_terminal_without_colours_gets_none(
    manifest: str, name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert "\x1b" not in on_a_terminal(manifest)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_asked(
    width: int, manifest: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--manifest", manifest, "--all", "--width", str(width)])
    assert max(map(len, capsys.readouterr().out.splitlines())) == width


def test_mermaid_folds_what_is_large_and_all_unfolds_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [job(f"run{at}", at, stage="train") for at in range(70)]
    path = str(write_manifest(tmp_path, plan(jobs)))
    main(["--manifest", path, "--format", "mermaid"])
    folded = capsys.readouterr().out
    main(["--manifest", path, "--format", "mermaid", "--all"])
    assert ("run69" in folded, "run69" in capsys.readouterr().out) == (False, True)
