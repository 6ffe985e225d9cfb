"""Publishes what happens under the names that all engines of the protocol share, and as OpenTelemetry spans."""
