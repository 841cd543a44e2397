"""What the format has and this version does not do yet: said, never silently left out."""

from collections.abc import Iterator

from strands_cli.errors import Issue
from strands_cli.types import Spec


def check_unsupported(spec: Spec) -> Iterator[Issue]:
    wanted = {
        "/tools/mcp": ("tools.mcp", spec.tools.mcp),
        "/context_policy/retrieval": ("context_policy.retrieval", spec.context_policy.retrieval is not None),
    }
    for at, (name, used) in wanted.items():
        if used:
            yield spec.issue(at, f"{name} is not supported yet.", "Take it out.")
