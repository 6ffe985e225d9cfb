"""Who plays: players, sessions, membership, and what is checked of people before anything accepts it."""
