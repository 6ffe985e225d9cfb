"""What comes from outside enters the bus here, by one poller."""
