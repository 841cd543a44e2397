"""Evaluations: test cases for a workflow, an agent or a tool, run with one model or several."""
