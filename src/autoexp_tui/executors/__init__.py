"""Executors: they start, watch and end jobs, on this machine or on Slurm."""
