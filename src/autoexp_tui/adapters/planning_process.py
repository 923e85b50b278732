"""Where an engine of an earlier version starts its planning process."""

from __future__ import annotations

from autoexp_tui.config.planning_main import main

if __name__ == "__main__":
    main()
