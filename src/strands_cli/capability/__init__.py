"""Whether a workflow can run here, as far as that is known before it does."""

from strands_cli.capability.checker import CapabilityIssue, CapabilityReport, check_capability
from strands_cli.capability.tool_checks import all_asks

__all__ = ["CapabilityIssue", "CapabilityReport", "all_asks", "check_capability"]
