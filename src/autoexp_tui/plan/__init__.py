"""Config to plan: sweep, filters, references, families, names, validation, chart.

Pure given its ports: nothing here imports Hydra, reads a file or knows a clock.
"""
