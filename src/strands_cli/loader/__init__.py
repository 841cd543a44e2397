"""From a workflow file to a Spec."""

from strands_cli.loader.load import examine_workflow, load_spec
from strands_cli.loader.spec import Spec

__all__ = ["Spec", "examine_workflow", "load_spec"]
