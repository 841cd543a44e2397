"""Whether a workflow can run here, as far as that is known before it does."""

from strands_cli.capability.checker import CapabilityIssue, check_capability
from strands_cli.capability.reporter import CapabilityReport

__all__ = ["CapabilityIssue", "CapabilityReport", "check_capability"]
