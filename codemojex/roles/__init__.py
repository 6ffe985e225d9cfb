"""Which parts a role consists of, and how each is built."""
