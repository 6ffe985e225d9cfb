"""Node numbers, leased so that no two processes mint the same id."""
