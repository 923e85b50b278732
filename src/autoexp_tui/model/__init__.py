"""What the program knows: plans, jobs, states, facts, snapshots, reasons and errors.

Standard library only. Nothing here reads a clock or touches a disk.
"""
