"""What is known of a tool without loading it, and the one table of a tool's fields.

`ToolFields` is that table: a field's line there holds its type, its default, the rule that a value must keep,
the remedy, and what `tool show` calls it. The decorator, ToolSpec, discovery, the loaded Tool, `tool check`
and `tool show` follow from it.
"""

import math
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from strands_cli.errors import did_you_mean

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SEMVER = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")

DEFAULT_TIMEOUT_SECONDS = 30.0
DEFAULT_MAX_OUTPUT_BYTES = 100_000

_SECTIONS = ("packages", "binaries", "env", "platforms")
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

Requires = dict[str, Any]
"""`{"package": ">=1.0"}`, and the keys `packages`, `binaries`, `env`, `platforms`."""


class ToolCategory(StrEnum):
    """What a tool is about, for listings."""

    HTTP = "http"
    FILE_OPS = "file_ops"
    DATA = "data"
    SYSTEM = "system"
    COMPUTE = "compute"


# --- the rules: why a value is refused, with {key} for what the author calls the field --------------------


def tool_name_problem(name: object) -> str:
    """Why a tool's name is refused, or nothing. Providers take no other names than these."""
    if not isinstance(name, str) or not name:
        return "it has no name"
    if TOOL_NAME.fullmatch(name):
        return ""
    if len(name) > 64:
        return f"its name has {len(name)} characters; the limit is 64"
    return f"its name {name!r} has characters other than letters, digits, '_' and '-'"


def _rule(holds: Callable[[Any], bool], problem: str) -> Callable[[object], str]:
    return lambda value: "" if holds(value) else problem


def _is_number(value: object, kind: Any = int | float) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


_text_problem = _rule(lambda value: isinstance(value, str), "{key} must be a string")
_flag_problem = _rule(lambda value: isinstance(value, bool), "{key} must be True or False")
_schema_problem = _rule(lambda value: isinstance(value, dict), "{key} must be a dictionary")
_count_problem = _rule(
    lambda value: _is_number(value, int) and value >= 0, "{key} must be a whole number, zero or more"
)
_seconds_problem = _rule(
    lambda value: _is_number(value) and 0 < value < math.inf, "{key} must be a number greater than zero"
)
_milliseconds_problem = _rule(
    lambda value: _is_number(value, int) and value > 0, "{key} must be a whole number greater than zero"
)
# Effects are templates over the input schema: `parse_effects` holds the two against each other.
_judged_on_load = _rule(lambda _: True, "")


def _family_problem(value: object) -> str:
    problem = tool_name_problem(value) if isinstance(value, str) and value else _text_problem(value)
    return problem.replace("its name", "its family's name")


def version_problem(version: object) -> str:
    if not isinstance(version, str):
        return _text_problem(version)
    return "" if _SEMVER.fullmatch(version) else f"{version!r} is not a version of the form 1.2.3"


def _category_problem(value: object) -> str:
    known = isinstance(value, str) and value in list(ToolCategory)
    return "" if known else f"there is no category {value!r}"


def _category_remedy(value: object) -> str:
    known = [category.value for category in ToolCategory]
    return f"{did_you_mean(str(value), known)} The categories are {', '.join(known)}.".strip()


def _isolate_problem(value: object) -> str:
    return "" if value == "process" else f"{{key}} is {value!r}; it may be 'process'"


def _annotations_problem(value: object) -> str:
    if not isinstance(value, Mapping):
        return "{key} must be a dictionary"
    wrong = [name for name, hint in value.items() if name not in HINTS or not isinstance(hint, bool)]
    return f"its annotation {wrong[0]!r} is not one of {', '.join(HINTS)} with True or False" if wrong else ""


def _input_schema_problem(value: object) -> str:
    if not isinstance(value, dict):
        return _schema_problem(value)
    takes_object = bare_schema(value).get("type", "object") == "object"
    return "" if takes_object else "{key} is not of type object"


def requirements_problem(requires: object) -> str:
    """Why a `requires` is refused at registration, or nothing."""
    if requires is None:
        return ""
    if not isinstance(requires, dict):
        return "requires must be a dictionary, such as {'httpx': '>=0.27'}"
    packages = requires.get("packages", {})
    if not isinstance(packages, dict):
        return "requires['packages'] must map package names to version ranges"
    for section in _SECTIONS[1:]:
        names = requires.get(section, [])
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            return f"requires[{section!r}] must be a list of names"
    for name, versions in {**requires, **packages}.items():
        if name not in _SECTIONS and not _is_version_range(versions):
            return f"requires[{name!r}] must be a version range such as '>=1.0', or '*'"
    return ""


def _is_version_range(versions: object) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    if not isinstance(versions, str):
        return False
    try:
        SpecifierSet("" if versions == "*" else versions)
    except InvalidSpecifier:
        return False
    return True


# --- the table --------------------------------------------------------------------------------------------


class Field(msgspec.Struct, frozen=True):
    """What holds for one field of a tool, wherever it is declared."""

    problem: Callable[[Any], str]
    remedy: str | Callable[[Any], str]
    label: str = ""
    """The label in `tool show`, for values that are shown as they are."""
    listed: bool = True
    """Whether a listing is incomplete without it. What is not listed, and computed, is known on load."""

    def remedy_for(self, value: object) -> str:
        return self.remedy if isinstance(self.remedy, str) else self.remedy(value)


_NAME = "Use up to 64 letters, digits, '_' and '-'."
_STRING = "Write it as a string in quotes."
_FLAG = "Write True or False."
_JSON = "Use strings, numbers, True, False, None, lists and dictionaries only."
_COUNT = "Give a whole number, such as 3."
_EFFECTS = "See 'effects' in TOOL_DEVELOPMENT.md."


class ToolFields(msgspec.Struct, kw_only=True):
    """The fields that an author can set for a tool. A new field of tools is a new line here."""

    id: Annotated[str, Field(tool_name_problem, _NAME)]
    """`name` in the decorator and in a TOOL_SPEC."""
    description: Annotated[str, Field(_text_problem, _STRING)] = ""
    family: Annotated[str, Field(_family_problem, _NAME)] = ""
    """Its family; by default its package, or its own name."""
    category: Annotated[ToolCategory | None, Field(_category_problem, _category_remedy)] = None
    version: Annotated[str, Field(version_problem, 'Write it as in version="1.0.0".')] = "0.0.0"
    """A SemVer version."""

    deprecated: Annotated[bool, Field(_flag_problem, _FLAG)] = False
    replaced_by: Annotated[str, Field(_text_problem, _STRING)] = ""
    """The tool to use instead of a deprecated one."""
    requires_consent: Annotated[bool, Field(_flag_problem, _FLAG)] = False
    """Whether to ask for consent before each call."""
    requires: Annotated[
        Requires | None,
        Field(requirements_problem, "See 'requires' in TOOL_DEVELOPMENT.md.", "requires"),
    ] = None
    """Packages, programs, environment variables and platforms that it needs."""

    timeout: Annotated[float, Field(_seconds_problem, "Give the seconds, such as 30.")] = (
        DEFAULT_TIMEOUT_SECONDS
    )
    """Seconds for one attempt."""
    retries: Annotated[int, Field(_count_problem, _COUNT, "retries", listed=False)] = 0
    """How often to retry a retryable failure. Only for idempotent or read-only tools."""
    max_output: Annotated[int, Field(_count_problem, _COUNT, "output limit", listed=False)] = (
        DEFAULT_MAX_OUTPUT_BYTES
    )
    """The bytes of an answer that a model gets. A longer answer goes to a file. 0 means no limit."""
    blocking: Annotated[bool, Field(_flag_problem, _FLAG, listed=False)] = True
    """Whether a sync body runs in a worker thread. False for a quick pure function, which runs inline."""
    isolate: Annotated[
        Literal["process"] | None,
        Field(_isolate_problem, 'Write isolate="process".', "isolation", listed=False),
    ] = None
    """`"process"` runs the body in a separate process, which can be killed."""
    effects: Annotated[Any, Field(_judged_on_load, _EFFECTS, "effects", listed=False)] = None
    """What it reads and writes, as templates over its input, or `"exclusive"`."""
    annotations: Annotated[
        Mapping[str, bool], Field(_annotations_problem, _FLAG, "annotations", listed=False)
    ] = {}
    """MCP's hints, such as `readOnlyHint`."""

    input_schema: Annotated[
        dict[str, Any] | None, Field(_input_schema_problem, f"A tool takes an object. {_JSON}")
    ] = None
    """`inputSchema` in the decorator and in a TOOL_SPEC."""
    output_schema: Annotated[dict[str, Any] | None, Field(_schema_problem, _JSON)] = None


class ToolInfo(ToolFields, frozen=True, kw_only=True, omit_defaults=True):  # type: ignore[misc]  # msgspec can
    """One tool of one version, as discovery found it.

    `ToolSpec` is the same class: you write it in the `TOOL_SPECS` of a family, and discovery fills in the
    rest.
    """

    module_path: Annotated[str, Field(_text_problem, _STRING)] = ""
    callable_name: Annotated[str, Field(_text_problem, _STRING)] = ""
    timeout_ms: Annotated[
        int | None, Field(_milliseconds_problem, "Give the milliseconds, such as 30000.")
    ] = None
    """The timeout in milliseconds, if it is not the default."""

    source: str = ""
    """The source that found it."""
    origin: str = ""
    """The package or the project's file that it comes from, for display."""
    file: str = ""
    line: int = 0
    manifest: str = ""
    """The `plugin.json` that declares it, if it belongs to a plugin."""
    unread: str = ""
    """Why its definition cannot be read without running it, or empty."""
    inferred: bool = False
    """Whether its schema comes from the function's annotations, so it may be known only after loading."""

    def __post_init__(self) -> None:
        if not self.callable_name:
            msgspec.structs.force_setattr(self, "callable_name", self.id)
        if not self.family:
            msgspec.structs.force_setattr(self, "family", self.id)
        if self.timeout_ms is not None:
            msgspec.structs.force_setattr(self, "timeout", self.timeout_ms / 1000)
        elif self.timeout != DEFAULT_TIMEOUT_SECONDS:
            msgspec.structs.force_setattr(self, "timeout_ms", max(1, round(self.timeout * 1000)))

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
        """The name that refers to exactly this tool and version."""
        return f"{self.id}@{self.version}"


ToolSpec = ToolInfo

FIELDS: dict[str, Field] = {
    name: annotation.__metadata__[0]
    for owner in (ToolFields, ToolInfo)
    for name, annotation in owner.__annotations__.items()
    if hasattr(annotation, "__metadata__")
}
"""Everything that an author can say in a ToolSpec."""

OPTIONS = {
    {"id": "name", "input_schema": "inputSchema"}.get(name, name): name for name in ToolFields.__annotations__
}
"""The fields by the names of the decorator's arguments; two of them keep the SDK's spelling."""

DEFAULTS: dict[str, Any] = {
    name: getattr(ToolInfo(id=""), name) for name in ToolFields.__struct_fields__ if name != "id"
}


def declared_fields(info: ToolInfo) -> dict[str, Any]:
    """The fields that are not at their defaults."""
    return {name: getattr(info, name) for name in DEFAULTS if getattr(info, name) != DEFAULTS[name]}


def bare_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema itself, with or without the `{"json": …}` around it."""
    inner = schema.get("json")
    return inner if len(schema) == 1 and isinstance(inner, dict) else schema


def instead_of(tool: ToolFields) -> str:
    """`; use other` for a deprecated tool whose author says what to use."""
    return f"; use {tool.replaced_by}" if tool.replaced_by else ""


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


def free_tool_name(taken: Collection[str], *names: str) -> str:
    """The first of the names that no tool of an agent has yet, else the last one with a number."""
    numbered = (f"{names[-1]}_{number}" for number in range(2, len(taken) + 3))
    return next(name for name in (*names, *numbered) if name not in taken)


SPEC_KEYS = ("name", "description", "inputSchema", "outputSchema")


def tool_spec_problem(spec: object) -> str:
    """Why a TOOL_SPEC is refused, or nothing."""
    if not isinstance(spec, dict):
        return "it is not a dictionary"
    if tool_name_problem(spec.get("name")):
        return tool_name_problem(spec.get("name"))
    if not isinstance(spec.get("inputSchema"), dict):
        return "it has no inputSchema"
    if not isinstance(spec.get("description", ""), str):
        return "its description is not a string"
    unknown = [key for key in spec if key not in SPEC_KEYS]
    return f"it has the unknown key {unknown[0]!r}; the keys are {', '.join(SPEC_KEYS)}" if unknown else ""


# --- what a tool needs of the machine ---------------------------------------------------------------------


def is_deferrable(info: ToolInfo) -> bool:
    """Whether all that a model must know of a Python tool is known without running its file."""
    return not (info.manifest or info.unread or info.isolate or info.input_schema is None)


def missing_requirements(requires: Mapping[str, Any] | None) -> list[str]:
    """One sentence for each thing that is not there; empty if the tool can run."""
    return list(_unmet_requirements(requires)) if requires else []


def required_packages(requires: Mapping[str, Any] | None) -> dict[str, str]:
    """Returns the version range of each Python package that a tool requires; `*` for any."""
    requires = requires or {}
    packages = {name: versions for name, versions in requires.items() if name not in _SECTIONS}
    return {**packages, **requires.get("packages", {})}


def _unmet_requirements(requires: Mapping[str, Any]) -> Iterator[str]:
    for name, versions in required_packages(requires).items():
        yield from _package_problem(name, versions)
    for name in requires.get("binaries", ()):
        from shutil import which

        if which(name) is None:
            yield f"the program {name} is not on the PATH"
    for name in requires.get("env", ()):
        if not os.environ.get(name):
            yield f"the environment variable {name} is not set"
    platforms = requires.get("platforms", ())
    if platforms and not any(sys.platform.startswith(name) for name in platforms):
        yield f"it runs on {', '.join(platforms)} only, and this is {sys.platform}"


def _package_problem(name: str, versions: str) -> Iterator[str]:
    from importlib.metadata import PackageNotFoundError, version

    from packaging.specifiers import SpecifierSet

    try:
        installed = version(name)
    except PackageNotFoundError:
        yield f"the Python package {name} is not installed (pip install '{name}{versions.strip('*')}')"
        return
    if versions not in ("", "*") and not SpecifierSet(versions).contains(installed, prereleases=True):
        yield f"the Python package {name} is {installed}, and it needs {versions}"
