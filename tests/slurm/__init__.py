"""Tests against a real Slurm: a throw-away cluster of several nodes on one host."""
