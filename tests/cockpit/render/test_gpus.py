"""What GPUs do, in words."""

from __future__ import annotations

import pytest

from autoexp_tui.cockpit.render.why import explain_job, format_gpus, format_idle
from autoexp_tui.cockpit.spans import plain
from autoexp_tui.cockpit.state.parameters import PlanWords
from autoexp_tui.cockpit.state.session import build_session
from autoexp_tui.cockpit.state.status import Look
from autoexp_tui.model.snapshot import GpuLoad, GpuView
from tests.support.campaigns import campaign
from tests.support.scripted_handle import with_live

NOW = 10_000.0


def load(busy: float | None = 87.4, used: float | None = 40_000.0) -> GpuLoad:
    return GpuLoad(busy, used, 81_920.0, 310.2)


@pytest.mark.parametrize(
    ("view", "text"),
    [
        (GpuView((load(),), NOW), "1 GPU: 87 % busy, 41.9 GB of 85.9 GB, 310 W"),
        (
            GpuView((load(90.0), load(80.0, 50_000.0)), NOW),
            "2 GPUs: 80 to 90 % busy, 52.4 GB of 85.9 GB, 620 W",
        ),
        (GpuView((GpuLoad(busy_percent=5.0),), NOW), "1 GPU: 5 % busy"),
        (GpuView((GpuLoad(),), NOW), "1 GPU: they do not tell"),
        (GpuView((GpuLoad(5.0),), NOW - 720), "1 GPU: 5 % busy, 12 min ago"),
    ],
)
def test_what_they_do_and_how_old_that_is(view: GpuView, text: str) -> None:
    assert format_gpus(view, NOW) == text


def test_gpus_that_do_nothing_for_long_are_told_of() -> None:
    assert format_idle(GpuView((load(0.0),), NOW, 840.0), NOW) == (
        "its GPU has done nothing for 14 min"
    )


@pytest.mark.parametrize(
    "view",
    [GpuView((load(0.0),), NOW, 300.0), GpuView((load(0.0),), NOW - 900, 840.0)],
    ids=["not for long", "an old sample"],
)
def test_a_pause_is_no_idleness(view: GpuView) -> None:
    assert format_idle(view, NOW) == ""


def test_why_says_what_the_gpus_of_a_run_do() -> None:
    session = build_session(campaign(125))
    job = next(one for one in session.jobs if one.look is Look.RUNNING)
    gpu = GpuView((load(0.0),), session.now, 840.0)
    session = build_session(with_live(session.snapshot, job.name, gpu=gpu))
    words = PlanWords(session.snapshot.plan)
    told = explain_job(session.jobs[job.index], session, words)
    text = "\n".join(plain(line) for line in told.lines)
    assert "Its GPU has done nothing for 14 min" in text
    assert "1 GPU: 0 % busy" in text
