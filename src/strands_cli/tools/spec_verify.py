"""Judge the text of a workflow, such as one that a model has written."""

import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from strands_cli.errors import ToolFailed
from strands_cli.secrets import environment_of_helpers
from strands_cli.toolkit.decorator import tool
from strands_cli.tools import with_tool_specs

TOOL_SPEC = {
    "name": "spec_verify",
    "description": (
        "Check the text of a workflow file, YAML or JSON, without running it: whether it fits the format, "
        "and whether it could run here. Returns every problem with line, reason and remedy. The text stands "
        "alone: files that it refers to are not found."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "spec_content": {
                    "type": "string",
                    "description": "The text of the workflow file",
                    "minLength": 1,
                    "maxLength": 1000000,
                },
                "check_capability": {
                    "type": "boolean",
                    "description": "Whether to check as well if it could run here",
                    "default": True,
                },
            },
            "required": ["spec_content"],
        }
    },
    "outputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "schema_valid": {"type": "boolean", "description": "Whether the text fits the format"},
                "pydantic_valid": {"type": "boolean", "description": "The same as schema_valid"},
                "capability_supported": {
                    "type": ["boolean", "null"],
                    "description": "Whether it could run here; null where that was not checked",
                },
                "errors": {"type": "array", "items": {"type": "string"}},
                "issues": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "line": {"type": "integer"},
                            "column": {"type": "integer"},
                            "pointer": {"type": "string"},
                            "reason": {"type": "string"},
                            "remediation": {"type": "string"},
                            "severity": {"enum": ["error", "warning"]},
                        },
                    },
                },
            },
            "required": ["schema_valid", "pydantic_valid", "capability_supported", "errors", "issues"],
        }
    },
}

_SECONDS = 25.0
_FILE = "workflow.yaml"


@tool(
    spec=TOOL_SPEC,
    version="1.0.0",
    category="data",
    annotations={"readOnlyHint": True, "openWorldHint": False},
)
def spec_verify(spec_content: str, check_capability: bool = True) -> dict[str, Any]:
    found = _validate_elsewhere(spec_content)
    valid = found["valid"]
    issues = found["issues"] if check_capability or not valid else []
    return {
        "schema_valid": valid,
        "pydantic_valid": valid,
        "capability_supported": found["supported"] if check_capability else None,
        "errors": [_error_text(issue) for issue in issues if issue["severity"] == "error"],
        "issues": issues,
    }


def _validate_elsewhere(text: str) -> dict[str, Any]:
    """What `strands validate` says, in a process with no project, no settings and no secrets."""
    import subprocess
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="strands-verify-", ignore_cleanup_errors=True) as made:
        directory = Path(made).resolve()
        (directory / _FILE).write_bytes(text.encode("utf-8", "replace"))
        command = [sys.executable, "-P", "-m", "strands_cli", "validate", "--json", _FILE]
        try:
            done = subprocess.run(
                command,
                cwd=directory,
                env={**environment_of_helpers(), "HOME": made, "USERPROFILE": made},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
            (found,) = msgspec.json.decode(done.stdout.replace(f"{directory}{os.sep}".encode(), b""))["files"]
        except subprocess.TimeoutExpired:
            raise ToolFailed(f"The check was not finished after {_SECONDS:g} s", code="timeout") from None
        except (msgspec.DecodeError, KeyError, ValueError):
            reason = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise ToolFailed(f"The text could not be checked: {reason or done.returncode}") from None
    issues = [
        {name: one[name] for name in one if name != "file" or one[name] != _FILE} for one in found["issues"]
    ]
    return {**found, "issues": issues}


def _error_text(issue: dict[str, Any]) -> str:
    place = f"line {issue['line']}: " if issue.get("line") else ""
    return f"{place}{issue.get('pointer', '')} {issue['reason']} {issue.get('remediation', '')}".strip()


__getattr__ = with_tool_specs(__name__)
