"""Jobs on a Slurm cluster, over its own commands."""
