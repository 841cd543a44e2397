"""From a workflow file to a Spec."""

from strands_cli.loader.load import examine, load_spec

__all__ = ["examine", "load_spec"]
