"""Curves are smoothed, joined over seeds and looked at in parts."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autoexp_tui.cockpit.state import curves
from autoexp_tui.cockpit.state.curves import Frame
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.model.snapshot import Curve
from tests.cockpit.sweeps import swept
from tests.support.campaigns import plan_of

SESSION = build_session(swept())
WORDS = PlanWords(SESSION.snapshot.plan)
WHOLE = (0.0, 25_500.0)
NO_YES = (False, True)


def test_a_moving_average_has_no_bias_and_skips_what_is_no_number() -> None:
    curve = curves.compute_average(Curve((0, 1, 2, 3), (1.0, nan, 2.0, 3.0)), 0.5)
    first, second, *rest = curve.values
    assert (first, str(second)) == (1.0, "nan")
    assert rest == pytest.approx([(0.25 + 1) / 0.75, (0.125 + 0.5 + 1.5) / 0.875])


def test_over_seeds_a_run_counts_by_straight_lines_and_not_beyond_its_end() -> None:
    short, long = Curve((0, 10), (1.0, 3.0)), Curve((0, 5, 20), (3.0, 4.0, 7.0))
    mean, band, whole = curves.join_curves([short, long], "min to max")
    assert (mean.steps, mean.values) == ((0, 5, 10, 20), (2.0, 3.0, 4.0, 7.0))
    assert (band.low, band.high) == ((1.0, 2.0, 3.0, 7.0), (3.0, 4.0, 5.0, 7.0))
    assert whole == 10
    _, spread, _ = curves.join_curves([short, long], "mean +- sd")
    assert spread.high == pytest.approx((2 + 2**0.5, 3 + 2**0.5, 4 + 2**0.5, 7.0))


@pytest.mark.parametrize(
    ("metric", "kind", "found", "lacking"),
    [
        ("loss", "", "1e-3 seed=2|1e-3 seed=1|1e-3 seed=0", 0),
        ("loss", "min to max", "1e-3 (3 seeds)|3e-3 (3 seeds)|3e-4 (3 seeds)", 0),
        ("val_acc", "", "1e-3 seed=0|1e-3 seed=1|3e-3 seed=1", 4),
        ("val_acc", "mean +- sd", "1e-3 (2 seeds)|3e-3 (2 seeds)|3e-4 (2 seeds)", 0),
    ],
)
def test_the_best_come_first_and_what_lacks_a_metric_is_told(
    metric: str, kind: curves.BandKind, found: str, lacking: int
) -> None:
    rising = curves.is_rising(metric, SESSION.jobs, SESSION.snapshot.plan)
    series, names = curves.build_series(
        SESSION.jobs, metric, WORDS, kind, rising=rising
    )
    assert [one.label for one in series[:3]] == [
        f"train lr={words}" for words in found.split("|")
    ]
    assert len(names) == lacking
    places = curves.find_places(series, WORDS, "optim.lr")
    assert places[series[0].key] == 2  # of 1e-3


def test_a_mean_says_from_which_step_on_it_is_of_fewer_runs() -> None:
    curve = SESSION.jobs[0].live.curves["loss"]
    short = Curve(curve.steps[:100], curve.values[:100])
    jobs = [
        replace(job, live=replace(job.live, curves={"loss": known}))
        for job, known in zip(SESSION.jobs, (curve, short, curve), strict=False)
    ]
    series, _ = curves.build_series(jobs, "loss", WORDS, "min to max", rising=False)
    told = [one.label for one in series]
    assert told == ["train lr=1e-4 (3 seeds, fewer from 9900)"]


def test_more_is_better_as_the_result_says_else_by_the_name() -> None:
    names = ("loss", "val_acc", "accuracy", "eval/f1", "reward", "lr", "perplexity")
    risen = [
        curves.is_rising(name, SESSION.jobs, SESSION.snapshot.plan) for name in names
    ]
    assert risen == [False, True, True, True, True, False, False]
    assert plan_of(SESSION.snapshot).monitoring.result.mode == "last"


LOOKS = st.lists(
    st.one_of(
        st.tuples(st.just("zoom"), st.sampled_from([0.5, 2.0])),
        st.tuples(st.just("move"), st.sampled_from([0.5, -0.5])),
        st.tuples(st.just("move_cursor"), st.floats(-0.5, 0.5)),
    ),
    max_size=30,
)


@given(LOOKS, st.booleans())
def test_no_way_leads_beyond_the_steps_that_there_are(
    looks: list[tuple[str, float]], log: bool
) -> None:
    whole = (1.0, 25_500.0)
    frame = Frame(log_x=log)
    for name, by in looks:
        frame = getattr(frame, name)(by, whole)
        start, end = frame.find_window(whole)
        assert whole[0] <= start * (1 + 1e-9) < end <= whole[1] * (1 + 1e-9)
        assert frame.cursor is None or whole[0] <= frame.cursor <= whole[1] * 1.01


def test_steps_are_looked_at_around_the_readout_and_moved_with_it() -> None:
    frame = Frame().zoom(0.5, WHOLE)
    looks = [frame, frame.move(-0.5, WHOLE), frame.zoom(2.0, WHOLE)]
    windows = [(12_750, 25_500), (6_375, 19_125), None]  # first before the end
    assert [one.window for one in looks] == windows
    shown = frame.move_cursor(-0.1, WHOLE).move_cursor(-0.5, WHOLE)
    assert (shown.cursor, shown.window) == (19_125, (12_750, 25_500))
    beyond = shown.move_cursor(-1.0, WHOLE)
    assert (beyond.cursor, beyond.window) == (6_375, (6_375, 19_125))
    assert shown.zoom(0.5, WHOLE).window == (15_937.5, 22_312.5)
    assert Frame().see_steps(100, 200, WHOLE).window == (100, 200)
    assert Frame().see_steps(100, 100.5, WHOLE).window is None


def test_points_without_a_logarithm_are_counted_and_the_best_is_finite() -> None:
    curve = Curve((0, 1, 2), (-1.0, inf, 3.0))
    hidden = (curves.count_hidden([curve], Frame(x, y)) for x in NO_YES for y in NO_YES)
    assert list(hidden) == [0, 1, 1, 2]
    best = (curve.find_best(rising=rising) for rising in (False, True))
    assert list(best) == [(0, -1.0), (2, 3.0)]
    assert [curve.find_nearest(step) for step in (-9, 1.4, 9)] == [0, 1, 2]
