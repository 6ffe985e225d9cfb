"""Runs handlers: claims, keeps leases alive, settles in batches, parks and stops."""
