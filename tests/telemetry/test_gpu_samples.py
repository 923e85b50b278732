"""Samples of GPUs become means, curves and a count of idle time."""

from __future__ import annotations

import json

import pytest

from autoexp_tui.telemetry.curves import BUSY, GpuTrack


def sample(t: float, *busy: float | None, **fields: object) -> bytes:
    usual = {"used_mib": 40.0, "total_mib": 80.0, "watts": 300.0, **fields}
    gpus = [{"index": n, "util_percent": one, **usual} for n, one in enumerate(busy)]
    return json.dumps({"t": t, "gpus": gpus}).encode() + b"\n"


def test_several_gpus_are_metrics_of_their_own_beside_their_mean() -> None:
    track = GpuTrack()
    track.add_lines(sample(100.0, 90.0, 70.0))
    assert (track.newest[BUSY], track.newest["gpu1_util"]) == (80.0, 70.0)
    track = GpuTrack()  # what a GPU does not tell is no metric
    track.add_lines(sample(100.0, None, watts=None, used_mib=None))
    assert (track.newest, track.loads[0].busy_percent) == ({}, None)


def test_idle_time_counts_from_the_first_sample_without_work() -> None:
    track = GpuTrack()
    for t, busy in ((0.0, 50.0), (30.0, 0.0), (60.0, 0.0), (630.0, 0.0)):
        track.add_lines(sample(t, busy))
    assert track.idle_seconds == 600.0
    track.add_lines(sample(660.0, 5.0))
    assert track.idle_seconds == 0.0


@pytest.mark.parametrize(
    "line",
    [b"", b"\x00\x00", b'{"t": 1', b"[]", b'{"t": "x", "gpus": [{}]}', b'{"t": 1}'],
)
def test_a_torn_sample_is_none(line: bytes) -> None:
    assert not GpuTrack().add_lines(line + b"\n")
