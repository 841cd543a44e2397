"""Whether a workflow can run here, as far as that is known before it does."""

from strands_cli.capability.checker import CapabilityIssue, CapabilityReport, check_capability

__all__ = ["CapabilityIssue", "CapabilityReport", "check_capability"]
