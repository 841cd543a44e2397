"""One frozen value with everything that a project or a user can set.

Read from `strands.toml`, else from `[tool.strands]` of `pyproject.toml`, at the project's root, then from
the environment. The root is the nearest parent of a workflow's file, or of the current directory where there
is no workflow, with one of the two or with `.git`; without such a mark it is that directory itself.
"""

import os
import re
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any, Literal

import msgspec

from strands_cli.errors import Issue, SpecError, UsageError, did_you_mean

DEFAULT_THREADS = 40
DEFAULT_THREAD_WAIT = 600.0
_TRUE_WORDS = frozenset({"1", "true", "yes", "on"})


class HttpSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[http]`: what tools may reach over the network."""

    allow: tuple[str, ...] = ()
    """Hosts, addresses or networks that tools may reach even if they are not public."""
    max_bytes: int = 5_000_000
    """The maximum size of a response body, in bytes."""


class SandboxSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[sandbox]`: how executables are confined."""

    accept: Literal["", "seccomp"] = ""
    """`seccomp` runs executables even without Landlock and namespaces; they can then read all your files."""


class LocalSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[local]`: the embedded model."""

    threads: int | None = None
    """The number of threads; by default one per processor, at most 8."""


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model costs, in US dollars for a million tokens."""

    input: float
    output: float

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        return (self.input * input_tokens + self.output * output_tokens) / 1_000_000


class _FileSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of the settings file, as they are written there."""

    workspace: tuple[str, ...] = (".",)
    allow: tuple[str, ...] = ()
    threads: int = DEFAULT_THREADS
    thread_wait: float = DEFAULT_THREAD_WAIT
    timeout: float | None = None
    prices: dict[str, Price] = {}
    http: HttpSettings = HttpSettings()
    sandbox: SandboxSettings = SandboxSettings()
    local: LocalSettings = LocalSettings()


_TABLES = {"http": HttpSettings, "sandbox": SandboxSettings, "local": LocalSettings}
_TYPES = {
    "object": "a table",
    "array": "an array",
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
}


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    project: Path
    file: Path | None = None
    """The file that the values come from, where there is one."""
    workspace: tuple[Path, ...]
    """The directories that file tools can access."""
    allow: tuple[str, ...] = ()
    """Functions that may be used as tools, by their dotted names."""
    threads: int = DEFAULT_THREADS
    """The maximum number of blocking tool bodies that run at the same time."""
    thread_wait: float = DEFAULT_THREAD_WAIT
    """How many seconds a blocking tool body may wait for a free thread."""
    timeout: float | None = None
    """The maximum duration of every tool call, in seconds."""
    prices: dict[str, Price] = {}
    """US dollars per million tokens, by model: `"gpt-4o-mini" = {input = 0.15, output = 0.6}`."""
    http: HttpSettings = HttpSettings()
    sandbox: SandboxSettings = SandboxSettings()
    local: LocalSettings = LocalSettings()
    bypass_consent: bool = False


def load_settings(start: Path | None = None, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings in force in a directory (by default the current one).

    A directory without a mark sets no workspace: that is the current directory then, chosen by the user.
    """
    try:
        current = Path.cwd()
        directory = (start or current).resolve()
    except OSError:
        raise UsageError(
            "The current directory no longer exists.", hint="Change to another directory."
        ) from None
    marked = marked_project_root(directory)
    project = marked or directory
    file, table = _read_table(project)
    values = _convert_settings(table, file)
    custom = [item.strip() for item in environment.get("STRANDS_CUSTOM_TOOL_ALLOWLIST", "").split(",")]
    return Settings(
        project=project,
        file=file,
        workspace=tuple(_workspace_root(marked or current, root, file) for root in values.workspace),
        allow=(*values.allow, *(item for item in custom if item)),
        threads=values.threads,
        thread_wait=values.thread_wait,
        timeout=values.timeout,
        prices=values.prices,
        http=values.http,
        sandbox=values.sandbox,
        local=values.local,
        bypass_consent=environment.get("BYPASS_TOOL_CONSENT", "").strip().lower() in _TRUE_WORDS,
    )


def _workspace_root(project: Path, root: str, file: Path | None) -> Path:
    try:
        return (project / root).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise SpecError(f"{file}: workspace has an unusable path {root!r}: {error}") from None


def marked_project_root(directory: Path) -> Path | None:
    """The nearest directory that says of itself that it is a project's root."""
    for candidate in (directory, *directory.parents):
        if (candidate / "strands.toml").is_file() or (candidate / ".git").exists():
            return candidate
        if _strands_table(candidate / "pyproject.toml") is not None:
            return candidate
    return None


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where derived data is kept; everything in it may be deleted at any time."""
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "strands-cli"


def config_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a user keeps what holds for every project: plugins, and what was decided about them."""
    base = environment.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "strands-cli"


def answers_directory() -> Path:
    """Where answers go that are too long for a model; tools may read there, and what is a week old goes."""
    return cache_directory() / "answers"


def _read_table(project: Path) -> tuple[Path | None, dict[str, Any]]:
    own = project / "strands.toml"
    if own.is_file():
        return own, _read_toml(own)
    shared = project / "pyproject.toml"
    table = _strands_table(shared)
    return (shared, table) if table is not None else (None, {})


def _strands_table(file: Path) -> dict[str, Any] | None:
    """`[tool.strands]`; parsed only where the text speaks of it, since many a pyproject is large."""
    try:
        if not file.is_file() or b"tool.strands" not in file.read_bytes():
            return None
    except OSError:
        return None
    tool = _read_toml(file).get("tool")
    table = tool.get("strands") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None


def _read_toml(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        issue = Issue(file=str(file), reason=str(error), remediation="Fix the file, or remove it.")
        raise SpecError(f"{file} cannot be read: {error}", issues=[issue]) from None


def _convert_settings(table: dict[str, Any], file: Path | None) -> _FileSettings:
    try:
        values = msgspec.convert(table, _FileSettings)
    except msgspec.ValidationError as error:
        raise _settings_error(str(error), table, file) from None
    timeout_fits = values.timeout is None or values.timeout > 0  # not so for NaN
    local_fits = values.local.threads is None or values.local.threads > 0
    threads_fit = values.threads > 0 and values.thread_wait > 0
    if not (threads_fit and timeout_fits and local_fits) or values.http.max_bytes < 1:
        names = "threads, thread_wait, timeout, http.max_bytes and local.threads"
        raise SpecError(f"{file}: {names} must be greater than zero")
    for model, price in values.prices.items():
        if not (0 <= price.input < inf and 0 <= price.output < inf):
            raise SpecError(f"{file}: the prices of {model!r} must be numbers of US dollars, zero or more")
    return values


def _settings_error(reason: str, table: dict[str, Any], file: Path | None) -> SpecError:
    """With the nearest key for the first one that does not exist; else with the key of the wrong type."""
    known, key, remedy = _FileSettings.__struct_fields__, "", "Fix the value, or remove the key."
    wrong = re.fullmatch(r"Expected `(.+)`, got `(.+)` - at `\$\.(.+)`", reason)
    if wrong:
        wanted, got = (
            " or ".join(_TYPES.get(kind, kind) for kind in wrong[i].removesuffix(" | null").split(" | "))
            for i in (1, 2)
        )
        name = wrong[3].replace("[...]", ".*")
        reason = f"{name!r} must be {wanted}, got {got.partition(' ')[2] or got}."
        key = name.removesuffix(".*").rpartition(".")[2].partition("[")[0]
    tables: dict[str, tuple[Any, tuple[str, ...]]] = {"": (table, known)}
    tables |= {f" in [{name}]": (table.get(name), kind.__struct_fields__) for name, kind in _TABLES.items()}
    for where, (part, known) in tables.items():
        unknown = next((key for key in part if key not in known), "") if isinstance(part, dict) else ""
        if unknown:
            key, reason = unknown, f"There is no key {unknown!r}{where}."
            listed = f"The keys are {', '.join(known)}." if len(known) > 1 else f"The only key is {known[0]}."
            remedy = did_you_mean(unknown, known) or listed
            break
    # The first line that begins with the key, since tomllib keeps no positions.
    lines = file.read_text("utf-8").splitlines() if file and key else []
    line = next((number for number, text in enumerate(lines, 1) if text.lstrip(" [").startswith(key)), 0)
    issue = Issue(file=str(file), line=line, reason=reason, remediation=remedy)
    return SpecError(f"{issue.place}: {reason}", hint=remedy, issues=[issue])
