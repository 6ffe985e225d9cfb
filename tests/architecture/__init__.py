"""The rules of the architecture, enforced on every source file."""
