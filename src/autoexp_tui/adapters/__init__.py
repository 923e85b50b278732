"""Names that processes of an earlier version start."""
