"""From a workflow file to a Spec."""

from strands_cli.loader.load import StoredFiles, examine_workflow, load_spec, stored_name
from strands_cli.loader.spec import Spec

__all__ = ["Spec", "StoredFiles", "examine_workflow", "load_spec", "stored_name"]
