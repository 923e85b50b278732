"""What the program knows. Standard library only; nothing here reads a clock or a
disk."""
