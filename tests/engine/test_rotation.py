"""An engine whose journal grows long goes on in a further part of it."""

from __future__ import annotations

import pytest

from autoexp_tui.events.events import JournalRotated
from tests.support.sim_campaign import Campaign
from tests.support.sim_clusters import KINDS


@pytest.mark.parametrize("seed", range(8))
def test_campaigns_of_many_parts_end_as_they_should(seed: int) -> None:
    campaign = Campaign(seed, KINDS["memory"], families=4)
    campaign.session.rotate_records = 7
    campaign.run()
    records = campaign.session.records
    assert sum(isinstance(record.event, JournalRotated) for record in records) > 3
