"""Pure views: a snapshot becomes rows, words and numbers. Nothing here draws.

No module of this package imports Textual, reads a clock or touches a file.
"""
