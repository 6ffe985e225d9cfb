"""Event streams: append, read, consumer groups and retention. They know no jobs."""
