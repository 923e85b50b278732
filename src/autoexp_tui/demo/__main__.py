"""`python -m autoexp_tui.demo`: one process is one core, so NumPy gets one thread."""

import os
import sys

if __name__ == "__main__":
    for library in ("OMP", "OPENBLAS", "MKL"):  # before NumPy is imported
        os.environ[f"{library}_NUM_THREADS"] = "1"
    try:
        from autoexp_tui.demo.command_line import main
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        mend = f"{sys.executable} -m pip install numpy"
        sys.exit(f"autoexp_tui.demo: error: NumPy is not installed: {mend}")

    sys.exit(main(sys.argv[1:]))
