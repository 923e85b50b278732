"""The shared words of every room: states, specs, facts, events, commands, effects.

Standard library only. Nothing here reads a clock or touches a disk.
"""
