"""Code states on real git: worktrees, commits, refs, diffs. Decides nothing."""
