"""Jobs that wait for other jobs, in one queue or over several. The pump carries the outbox."""
