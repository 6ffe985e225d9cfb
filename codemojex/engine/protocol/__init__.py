"""Describes the protocol for others: key families, reference pages, the export and the conformance scenarios."""
