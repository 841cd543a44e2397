"""Running workflows: the patterns, each over `run_step`, and `run`, which does all of `strands run`."""
