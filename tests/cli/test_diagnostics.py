"""What is said on stderr, whoever wrote it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress

import pytest

from autoexp_tui.cli.diagnostics import run_guarded, say
from autoexp_tui.model.errors import UsageError


def test_an_error_that_quotes_outside_text_steers_no_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def main(argv: Sequence[str]) -> int:
        raise UsageError("no job `\x1b[2J\u202ea\x9b1mb`", hint="one\nto a line")

    assert run_guarded(main, []) == 2
    assert capsys.readouterr().err == "error: no job `ab`\n  one\n  to a line\n"


def test_what_is_said_to_a_terminal_that_has_gone_is_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as gone:
        monkeypatch.setattr(sys, "stderr", gone)
        say("words")
        monkeypatch.undo()
        with suppress(OSError):
            gone.close()
