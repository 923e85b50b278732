"""What we ship for tests: a clock, and the contract that executors keep."""
