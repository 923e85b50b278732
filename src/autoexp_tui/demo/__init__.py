"""The small real trainer that the default experiment runs.

A byte-level language model learns the standard library's own source text, with NumPy
alone, on one core, in seconds. It stands where a user's own training program would:
it is started as `python -m autoexp_tui.demo` and speaks through its log lines, its
checkpoints and its exit status only. It imports nothing of the rest of the package.
"""
