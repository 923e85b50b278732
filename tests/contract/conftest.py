"""Plain asserts of the shipped contracts tell what they compared."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("autoexp_tui.testing.executor_contract")
