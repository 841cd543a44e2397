"""What the format has and this version does not do yet: said, never silently left out."""

from collections.abc import Iterator

from strands_cli.capability.places import places
from strands_cli.errors import Issue
from strands_cli.types import Spec


def check_unsupported(spec: Spec) -> Iterator[Issue]:
    wanted = {
        "/tools/mcp": ("tools.mcp", spec.tools.mcp),
        "/tools/plugins": ("tools.plugins", spec.tools.plugins),
        "/context_policy/retrieval": ("context_policy.retrieval", spec.context_policy.retrieval is not None),
    }
    for at, (name, used) in wanted.items():
        if used:
            yield spec.issue(at, f"{name} is not supported yet.", "Take it out.")
    for place in places(spec):
        if place.text_pointer.endswith("/human/prompt"):
            yield spec.issue(
                f"{place.pointer}/human", "A human step is not supported yet.", "Take the step out."
            )
