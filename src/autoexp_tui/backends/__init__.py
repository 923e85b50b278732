"""Backends: what a job's `backend` subtree makes the job run."""
