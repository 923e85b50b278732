"""Where an engine of an earlier version starts its planning process."""

from __future__ import annotations

import runpy

if __name__ == "__main__":
    runpy.run_module("autoexp_tui.config.planning_process", run_name="__main__")
