"""Search over code states: what a tree of evaluations decides."""
