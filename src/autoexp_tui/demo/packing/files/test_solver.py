"""What every solver must keep to, however well it packs: `python test_solver.py`."""

from __future__ import annotations

from solver import solve


def test_there_are_as_many_points_as_were_asked_for() -> None:
    for size in (10, 13):
        assert len(solve(size, 0)) == size


def test_every_point_lies_in_the_square() -> None:
    for size in (10, 13):
        for x, y in solve(size, 0):
            assert 0 <= min(x, y) <= max(x, y) <= 1, f"outside: {x:.4f}, {y:.4f}"


def test_the_same_seed_gives_the_same_points() -> None:
    assert solve(10, 3) == solve(10, 3)
    assert solve(10, 3) != solve(10, 4)


if __name__ == "__main__":
    test_there_are_as_many_points_as_were_asked_for()
    test_every_point_lies_in_the_square()
    test_the_same_seed_gives_the_same_points()
    print("3 tests passed")
