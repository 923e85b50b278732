"""The verbs of `autoexp-sessions`, one file each."""
