"""Shows how a queue stands and lets an operator act on it: counts, audit, admin verbs."""
