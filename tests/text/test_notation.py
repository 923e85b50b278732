"""Numbers that stand below each other are spelled alike."""

from __future__ import annotations

import pytest

from autoexp_tui.text.spelling import choose_notation, format_float, spell_alike


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([1e-3, 3e-3, 0.01], "1e-3 3e-3 1e-2"),
        ([0.9, 0.95, 0.99], "0.9 0.95 0.99"),
        ([0.0, 1e-4, 2.5e-4], "0 1e-4 2.5e-4"),
        ([0.01, 0.1], "0.01 0.1"),
        ([16, 0.5], "16 0.5"),
        ([float("inf"), -1e-5], "inf -1e-5"),
    ],
)
def test_floats_of_one_column_have_one_notation(values: list[float], told: str) -> None:
    notation = choose_notation(values)
    assert " ".join(format_float(one, notation) for one in values) == told


def test_texts_that_are_floats_are_spelled_alike_and_others_stay() -> None:
    assert spell_alike(["0.01", "1e-3", "16", "adam", "3e-3"]) == (
        "1e-2",
        "1e-3",
        "16",
        "adam",
        "3e-3",
    )
