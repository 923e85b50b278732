"""The example of a tree search: a small packing solver whose optimum is known.

`files` is its repository, `catalogue` holds ideas as exact edits: some help, some hurt,
one breaks the test, one repeats another, one changes nothing. No model, no network, the
standard library alone, and nothing of ours."""


class PackingError(Exception):
    """An idea or a repository that cannot be made; the message is for people."""
