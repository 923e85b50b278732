from __future__ import annotations

from collections.abc import Iterator

import pytest
from hydra.core.global_hydra import GlobalHydra


@pytest.fixture(autouse=True)
def own_hydra() -> Iterator[None]:
    yield
    GlobalHydra.instance().clear()
