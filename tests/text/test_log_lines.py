from __future__ import annotations

from autoexp_tui.text.log_lines import find_error_line, find_nan_line


def test_the_last_line_that_names_an_error_tells_most() -> None:
    tail = "Traceback\n  File x\nValueError: bad\nsaved checkpoint\n"
    assert find_error_line(tail) == "ValueError: bad"


def test_without_an_error_the_last_line_has_to_do() -> None:
    assert find_error_line("one\ntwo\n\n") == "two"


def test_nothing_is_made_of_an_empty_log() -> None:
    assert find_error_line("") == ""
    assert find_nan_line("iteration 1 | lm loss: 2.0") == ""


def test_a_nan_is_shown_by_the_first_line_that_has_it() -> None:
    tail = "step 1 | lm loss: 2.0\nstep 2 | lm loss: nan | x\nstep 3 | lm loss: nan\n"
    assert find_nan_line(tail) == "step 2 | lm loss: nan | x"


def test_escape_sequences_do_not_get_into_evidence() -> None:
    assert find_error_line("\x1b[31mFATAL\x1b[0m \x1b]0;x\x07") == "FATAL"
