"""Confinement of model-written code and of child processes."""
