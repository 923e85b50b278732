"""What we ship for tests: clocks, fakes and the contracts that adapters keep."""
