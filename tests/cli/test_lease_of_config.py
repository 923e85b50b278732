"""How long an engine may be still before it counts as dead is the config's to say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autoexp_tui.cli.assemble import resume_session, start_session
from autoexp_tui.cli.options import Options
from autoexp_tui.engine.loop import Engine
from autoexp_tui.model.commands import Order, StopEngine
from autoexp_tui.model.snapshot import Snapshot
from autoexp_tui.model.specs import Plan
from autoexp_tui.storage.json_codec import decode_plan, encode_plan
from autoexp_tui.storage.lease import LeaseWatch
from autoexp_tui.storage.session_dir import SessionDir
from tests.e2e.campaign import Campaign


def patient(plan: Plan) -> Plan:
    """`plan`, whose engines may be still for long."""
    rules = replace(plan.monitoring, lock_stale_seconds=1234.0)
    return decode_plan(encode_plan(replace(plan, monitoring=rules)))


def told(session: SessionDir) -> tuple[int, float]:
    holder = LeaseWatch(session).find_holder()
    assert holder is not None
    return holder.epoch, holder.stale_seconds


def ignored(_snapshot: Snapshot) -> None:
    """Nobody looks."""


def stop(engine: Engine, command_id: str) -> None:
    engine.order(Order(command_id=command_id, command=StopEngine()))
    engine.run()


def test_an_engine_s_lease_and_its_successor_s_say_what_the_config_says(
    tmp_path: Path,
) -> None:
    campaign = Campaign(tmp_path)
    campaign.write(families=1)
    plan = patient(decode_plan(campaign.manifest.read_bytes()))
    options = Options(state_dir=str(campaign.state_dir))
    stop(start_session(plan, ignored, options), "first")
    (manifest,) = campaign.state_dir.glob("*/plan.json")
    session = SessionDir(manifest.parent)
    assert told(session) == (1, 1234.0)
    stop(resume_session(session, ignored, options), "second")
    assert told(session) == (2, 1234.0)
