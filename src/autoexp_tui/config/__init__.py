"""Configs composed by Hydra, checked, and made into plans in a process of their own."""
