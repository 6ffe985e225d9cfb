"""A near-cache in two layers, kept coherent by versions. It knows no jobs."""
