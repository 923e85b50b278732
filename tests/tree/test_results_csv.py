from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.tree import results_csv
from autoexp_tui.tree.results_csv import ResultsRefused, RowCounts, parse_results

HEAD = "config_id,status,a,b\n"


def read(text: str, limit: int | None = None) -> results_csv.Results:
    return parse_results(text.encode(), ("a", "b"), "r.csv", limit=limit)


def test_a_file_is_read_by_the_names_of_its_columns_and_rows_come_by_id() -> None:
    text = (
        '\ufeffb,note,status,config_id,a\r\n2,"x,\ny",ok,7,1e1\r\n\r\n4,z,ok,3, 20 \r\n'
    )
    found = read(text)
    assert [row.config_id for row in found.rows] == [3, 7]
    assert (found.average("a"), found.average("b")) == (15.0, 3.0)


@pytest.mark.parametrize("cell", [
    "", "nan", "inf", "-Infinity", "1e999", "1e200", "1_0", "１", "0x10", "1 2",
    "one", "--1", "1e", "\0",
])  # fmt: skip
def test_a_cell_that_is_no_finite_number_makes_its_row_not_ok(cell: str) -> None:
    found = read(f"{HEAD}0,ok,1,2\n1,ok,3,{cell}\n")
    assert [row.is_ok for row in found.rows] == [True, False]
    assert found.count_rows(0, None).first_error == "row 1: b is no number"
    assert found.average("a") == 1.0  # nothing of such a row counts


@pytest.mark.parametrize("status", ["failed", "OK", "", "ok\x1b[2J"])
def test_a_row_counts_only_with_the_status_ok(status: str) -> None:
    (row,) = read(f"{HEAD}0,{status},1,2\n").rows
    assert not row.is_ok
    assert "\x1b" not in row.status


@pytest.mark.parametrize(("text", "where", "problem"), [
    ("", "r.csv:1", "the column `config_id` is missing"),
    (HEAD, "r.csv", "has no rows"),
    ("config_id,status,a\n0,ok,1\n", "r.csv:1", "the column `b` is missing"),
    ("config_id,status,a,b,a\n", "r.csv:1", "the column `a` is there twice"),
    (f"{HEAD}0,ok,1,2\n\n1,ok,1\n", "r.csv:4", "has 3 cells; the header has 4"),
    (f"{HEAD}0,ok,1,2\n0,ok,1,2\n", "r.csv:3", "config_id 0 is there twice"),
    (f"{HEAD}-1,ok,1,2\n", "r.csv:2", "config_id is `-1`, not a whole number"),
    (f"{HEAD}1.0,ok,1,2\n", "r.csv:2", "config_id is `1.0`, not a whole number"),
    (f'{HEAD}0,ok,1,"2\n', "r.csv:2", "is no CSV: unexpected end of data"),
    (f"{HEAD}0,ok,1,{'x' * 200_000}\n", "r.csv:2", "is no CSV: field larger"),
    (f"{','.join(['x'] * 1001)}\n", "r.csv:1", "has more than 1000 columns"),
])  # fmt: skip
def test_a_file_that_is_no_results_is_refused_with_its_line(
    text: str, where: str, problem: str
) -> None:
    with pytest.raises(ResultsRefused) as refused:
        read(text)
    assert refused.value.where == where
    assert refused.value.problem.startswith(problem)


def test_a_file_of_bytes_or_beyond_its_bounds_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ResultsRefused, match=r"r\.csv:2: is not UTF-8"):
        parse_results(f"{HEAD}0,ok,1,".encode() + b"\xff", ("a", "b"), "r.csv")
    monkeypatch.setattr(results_csv, "MOST_ROWS", 2)
    with pytest.raises(ResultsRefused, match=r"r\.csv:4: has more than 2 rows"):
        read(HEAD + "".join(f"{at},ok,1,1\n" for at in range(3)))
    monkeypatch.setattr(results_csv, "MOST_BYTES", 10)
    with pytest.raises(ResultsRefused, match="has 21 bytes; at most 10"):
        read(HEAD)


@pytest.mark.parametrize(("limit", "counts", "mean"), [
    (None, RowCounts(4, 3, 100, "row 1: failed"), 2.0),
    (2, RowCounts(2, 1, 2, "row 1: failed"), 1.0),
    (9, RowCounts(4, 3, 9, "row 1: failed"), 2.0),
    (0, RowCounts(0, 0, 0), None),
])  # fmt: skip
def test_rows_below_the_limit_are_used_and_counted(
    limit: int | None, counts: RowCounts, mean: float | None
) -> None:
    rows = "0,ok,1,1\n1,failed,1,1\n2,ok,2,1\n3,ok,3,1\n"
    found = read(HEAD + rows, limit)
    assert found.count_rows(100, limit) == counts
    assert counts.error_count == counts.rows_used - counts.ok_count
    assert found.average("a") == mean


CELL = st.one_of(st.text(max_size=3), st.sampled_from(["ok", "7", "8"]), st.floats())
LINE = st.lists(CELL, min_size=4, max_size=4).map(lambda c: ",".join(map(str, c)))
TEXTS = st.lists(LINE).map(lambda lines: (HEAD + "\n".join(lines)).encode())


@given(st.one_of(st.binary(), TEXTS))
def test_whatever_a_candidate_writes_is_finite_results_or_refused(data: bytes) -> None:
    with suppress(ResultsRefused):
        found = parse_results(data, ("a", "b"), "r.csv")
        values = (value for row in found.rows for value in row.values.values())
        assert all(map(math.isfinite, values))
