"""What the checks found."""

import msgspec

from strands_cli.errors import Issue


class CapabilityReport(msgspec.Struct, frozen=True):
    issues: tuple[Issue, ...] = ()

    @property
    def supported(self) -> bool:
        """Whether the workflow can run: warnings do not keep it from that."""
        return not self.errors

    @property
    def errors(self) -> tuple[Issue, ...]:
        return tuple(issue for issue in self.issues if issue.severity == "error")

    @property
    def warnings(self) -> tuple[Issue, ...]:
        return tuple(issue for issue in self.issues if issue.severity == "warning")
