"""`prepare`: everything that is known before a run begins, read, resolved and checked once."""

from collections.abc import Mapping
from typing import Any

import msgspec

from strands_cli.artifacts import check_targets
from strands_cli.capability import check_capability
from strands_cli.errors import SpecError, UnsupportedError
from strands_cli.exec.steps import DEFAULTS, RunOptions
from strands_cli.loader.run_values import read_secrets, resolve_inputs
from strands_cli.loader.spec import Spec
from strands_cli.runtime.resources import RunResources
from strands_cli.tools.toolset import ToolSet
from strands_cli.types.sections import Artifact


class Prepared(msgspec.Struct, frozen=True):
    """A run that can begin. `resources` has the inputs, the secrets, the redactor and the tools."""

    spec: Spec
    resources: RunResources
    options: RunOptions


def prepare(
    spec: Spec,
    variables: Mapping[str, Any] | None = None,
    options: RunOptions = DEFAULTS,
    *,
    with_artifacts: bool = True,
) -> Prepared:
    """Checks a workflow and gathers what its run needs; StrandsError if it cannot run."""
    tools = ToolSet(spec)
    secrets = _checked_secrets(spec, tools)
    if options.trace:
        added = Artifact(path=f"./{spec.name}-trace.json", content="{{ TRACE }}")
        outputs = msgspec.structs.replace(spec.outputs, artifacts=(*spec.outputs.artifacts, added))
        spec = msgspec.structs.replace(spec, outputs=outputs)
    inputs = resolve_inputs(spec, variables)
    if with_artifacts:
        check_targets(spec, options.directory, force=options.force, scope={**inputs, "inputs": inputs})
    resources = RunResources(spec, inputs=inputs, directory=options.directory, secrets=secrets, tools=tools)
    return Prepared(spec, resources, options)


def _checked_secrets(spec: Spec, tools: ToolSet) -> dict[str, str]:
    """UnsupportedError if the workflow cannot run here, SpecError if only its secrets are missing."""
    found = list(check_capability(spec, tools=tools).errors)
    secrets: dict[str, str] = {}
    try:
        secrets = read_secrets(spec)
    except SpecError as unread:
        if not found:
            raise
        found += unread.issues
    errors = sorted(found, key=lambda issue: (issue.file, issue.line, issue.column))
    if errors:
        raise UnsupportedError(
            f"{errors[0].place}: {errors[0].reason}", hint=errors[0].remediation, issues=errors
        )
    return secrets
