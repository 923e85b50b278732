"""The cockpit: Textual widgets around pure views of a session's snapshots.

Of the engine it knows `engine.handle` alone; of the rest, `core`. Importing this
package imports nothing heavy.
"""
