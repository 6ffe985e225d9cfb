"""The tests: one folder per package, and what they share in `tests.support`."""
