"""`python -m autoexp_tui.demo`: one process is one core, so NumPy gets one thread."""

from __future__ import annotations

import os
import sys

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> int:
    """Run the command line; returns the exit status."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))  # before NumPy is imported
    from autoexp_tui.demo.command_line import main as run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
