from __future__ import annotations

import pytest

from autoexp_tui.text.log_lines import find_error_line, find_nan_line


@pytest.mark.parametrize(("tail", "line"), [
    ("Traceback\n  File x\nValueError: bad\nsaved\n", "ValueError: bad"),
    ("one\ntwo\n\n", "two"), ("\x1b[31mFATAL\x1b[0m \x1b]0;x\x07", "FATAL"), ("", ""),
])  # fmt: skip
def test_the_last_line_that_names_an_error_tells_most(tail: str, line: str) -> None:
    assert find_error_line(tail) == line


def test_a_nan_is_shown_by_the_first_line_that_has_it() -> None:
    tail = "step 1 | lm loss: 2.0\nstep 2 | lm loss: nan | x\nstep 3 | lm loss: nan\n"
    assert find_nan_line(tail) == "step 2 | lm loss: nan | x"
    assert find_nan_line("iteration 1 | lm loss: 2.0") == ""
