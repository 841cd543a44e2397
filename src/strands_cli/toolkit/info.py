"""What is known of a tool without loading it."""

import re
from enum import StrEnum
from typing import Any

import msgspec

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SEMVER = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")

Requires = dict[str, Any]
"""`{"package": ">=1.0"}`, and the keys `packages`, `binaries`, `env`, `platforms` (see requirements.py)."""


class ToolCategory(StrEnum):
    """What a tool is about, for listings."""

    HTTP = "http"
    FILE_OPS = "file_ops"
    DATA = "data"
    SYSTEM = "system"
    COMPUTE = "compute"


class ToolInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One tool of one version, as discovery found it.

    `ToolSpec` is the same class: authors write it in a family's `TOOL_SPECS`, discovery fills in the rest.
    """

    id: str
    module_path: str = ""
    callable_name: str = ""
    family: str = ""

    category: ToolCategory | None = None
    description: str = ""
    version: str = "0.0.0"

    deprecated: bool = False
    replaced_by: str = ""
    requires_consent: bool = False
    timeout_ms: int | None = None
    requires: Requires | None = None

    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None

    source: str = ""
    """Which entry of the table of sources found it."""
    origin: str = ""
    """The package, or the project's file, that it comes from; for people."""
    file: str = ""
    line: int = 0
    unread: str = ""
    """Why its definition cannot be read without running it, where that is so."""
    inferred: bool = False
    """Whether its schema comes from the function's annotations, and so may be known on load only."""

    def __post_init__(self) -> None:
        if not self.callable_name:
            msgspec.structs.force_setattr(self, "callable_name", self.id)
        if not self.family:
            msgspec.structs.force_setattr(self, "family", self.id)

    @property
    def import_path(self) -> str:
        return self.module_path

    @property
    def full_import_path(self) -> str:
        return f"{self.module_path}.{self.callable_name}"

    @property
    def legacy_path(self) -> str:
        return f"strands_tools.{self.family}.{self.callable_name}"

    @property
    def reference(self) -> str:
        """The name that means this tool and this version, whatever else is there."""
        return f"{self.id}@{self.version}"


ToolSpec = ToolInfo


def bare_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema itself, with or without the `{"json": …}` around it."""
    inner = schema.get("json")
    return inner if len(schema) == 1 and isinstance(inner, dict) else schema


def version_problem(version: str) -> str:
    """Why a version is refused, or nothing."""
    if _SEMVER.fullmatch(version):
        return ""
    return f"{version!r} is not a version of the form 1.2.3"


def version_key(version: str) -> tuple[Any, ...]:
    """Orders versions as SemVer does: a pre-release comes before its release."""
    match = _SEMVER.fullmatch(version)
    if match is None:
        return ((-1, -1, -1), (0,), ())
    numbers = tuple(int(part) for part in match.groups()[:3])
    if match[4] is None:
        return (numbers, (1,), ())
    parts = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in match[4].split("."))
    return (numbers, (0,), parts)


def name_problem(name: object) -> str:
    """Why a tool's name is refused, or nothing. Providers take no other names than these."""
    if not isinstance(name, str) or not name:
        return "it has no name"
    if TOOL_NAME.fullmatch(name):
        return ""
    if len(name) > 64:
        return f"its name has {len(name)} characters; providers take 64 at most"
    return f"its name {name!r} has other characters than letters, digits, '_' and '-'"
