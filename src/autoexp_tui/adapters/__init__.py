"""One file an outside thing: disks, schedulers, processes, configs, git."""
