"""The small real trainer that the default experiment runs, as a user's program would.

A byte-level language model learns the standard library's source with NumPy alone. It
speaks through log lines, checkpoints and exit status, and imports nothing of ours."""
