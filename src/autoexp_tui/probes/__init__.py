"""Looks at the outside: files, logs, configs, clocks; never held up by a hung disk."""
