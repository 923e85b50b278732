"""What the steps of a search run, and what they leave: each is a program of its own,
the command of a job."""
