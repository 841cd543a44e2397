"""Runs workflows: `run` does everything that `strands run` does; `steps` runs the steps of a pattern."""
