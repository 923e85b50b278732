"""`python -m autoexp_tui.config.planning_process`: how the planning process begins.

Apart from `planning_main`, for the garbage collector is to be off before that imports
some 500 modules. All that they make is kept, and nearly all of a plan; the composer
sees to what is not.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()
    from autoexp_tui.config.planning_main import main

    main()
    # Enabled or not, it looks for rings once more when the process ends: through all
    # of a plan, for memory that the system takes back at once.
    gc.freeze()
