"""Mutants of the engine's Lua: each is one small defect, and a scenario or test must notice it.

`python -m tests.mutants` (`make mutants`) makes them, tries them and names the survivors. What a sample of them
found stands in docs/explanation/mutants.md. Only the Lua commands are mutated, never Python.
"""
