"""Keeps a queue's time: promotes due jobs, recovers lapsed leases, fires repeats, trims what may go."""
