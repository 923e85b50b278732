"""What the program knows: by the standard library alone, without clock or disk."""
