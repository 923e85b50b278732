"""Of whole campaigns with faults: a kept state and what follows are the fold of all."""

from __future__ import annotations

import random

import pytest

from autoexp_tui.events.apply import fold
from autoexp_tui.model.state import SessionState
from autoexp_tui.storage.codec import decode_record, encode_record
from autoexp_tui.storage.state_codec import decode_state, encode_state
from tests.support.sim_campaign import Campaign
from tests.support.sim_clusters import KINDS

SHARE = 0.05
"""Of the commits after which the state is kept."""


@pytest.mark.parametrize("seed", range(12))
def test_a_kept_state_and_its_tail_are_the_fold_of_all(seed: int) -> None:
    campaign = Campaign(seed, KINDS["memory"], families=4)
    session = campaign.session
    rng = random.Random(seed)
    kept: list[tuple[int, bytes]] = []

    def keep(state: SessionState) -> None:
        if rng.random() < SHARE:
            kept.append((state.seq, encode_state(state)))

    session.on_keep = keep
    campaign.run()
    lines = [encode_record(record) for record in session.records]
    records = [decode_record(line) for line in lines]
    expected = fold(SessionState(plans=session.plans), records)
    assert kept
    for seq, data in kept:
        state = decode_state(data, session.plans)
        assert fold(state, records[seq:]) == expected
