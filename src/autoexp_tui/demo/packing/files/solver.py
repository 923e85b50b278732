"""Points in the unit square, as far apart as they get: centres of equal circles in a
square. A plain local search, with much left to improve.

Arithmetic alone (+, -, *, /): the same points on every machine."""

from __future__ import annotations

import random

STEPS = 1400  # 200 to 4000: moves tried
REACH = 0.4  # 0.2 to 0.8: the longest move along an axis; the square's side is 1

Point = tuple[float, float]


def solve(size: int, seed: int) -> list[Point]:
    """`size` points; the same ones for the same seed."""
    rng = random.Random(1000 * size + seed)
    points = make_layout(size, rng)
    for step in range(STEPS):
        index = choose_point(points, rng)
        moved = move_point(points[index], get_reach(step), rng)
        if is_inside(moved) and is_better(points, index, moved):
            points[index] = moved
    return points


def make_layout(size: int, rng: random.Random) -> list[Point]:
    """Where the points start."""
    return [(rng.random(), rng.random()) for _ in range(size)]


def choose_point(points: list[Point], rng: random.Random) -> int:
    """The index of the point to move."""
    return int(rng.random() * len(points))


def get_reach(step: int) -> float:
    """The longest move along an axis at this step."""
    return REACH


def move_point(point: Point, reach: float, rng: random.Random) -> Point:
    """Another place near the point."""
    x = point[0] + reach * (2 * rng.random() - 1)
    y = point[1] + reach * (2 * rng.random() - 1)
    return x, y


def is_inside(point: Point) -> bool:
    """Whether the point lies in the square."""
    return 0 <= point[0] <= 1 and 0 <= point[1] <= 1


def is_better(points: list[Point], index: int, moved: Point) -> bool:
    """Whether the point's nearest neighbour is at least as far from the new place."""
    now = measure_nearest(points, index, points[index])
    return measure_nearest(points, index, moved) >= now


def measure_nearest(points: list[Point], index: int, place: Point) -> float:
    """The squared distance from a place of point `index` to the nearest other point."""
    x, y = place
    nearest = 2.0
    for other, (a, b) in enumerate(points):
        if other != index:
            distance = (a - x) * (a - x) + (b - y) * (b - y)
            if distance < nearest:
                nearest = distance
    return nearest
