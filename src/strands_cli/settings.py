"""One frozen value with everything that a project or a user can set, as far as it is in force.

Read from `strands.toml`, else from `[tool.strands]` of `pyproject.toml`, at the project's root, then from
the user's own `strands.toml` and the environment. The root is the nearest parent of a workflow's file, or of
the current directory where there is no workflow, with one of the two or with `.git`; without such a mark it
is that directory itself. What the project asks for beyond its directory is an Ask, and is in force only if
the user trusts it.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import accumulate
from math import inf
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from strands_cli.documents.files import protected_part, read_regular_file, unread_reason
from strands_cli.documents.shared_servers import SHARED_SERVERS_NAME, entry_problem, read_shared_servers
from strands_cli.errors import Issue, SpecError, UsageError, did_you_mean
from strands_cli.types.asks import Ask
from strands_cli.types.servers import DeclaredServer, McpServer
from strands_cli.types.settings_file import (
    DEFAULT_THREAD_WAIT,
    DEFAULT_THREADS,
    EngineSettings,
    FileSettings,
    HttpSettings,
    LocalSettings,
    McpSettings,
    Price,
    RunSettings,
    SandboxSettings,
    UserSettings,
    check_variables,
    engine_in_force,
    store_in_force,
    users_key_reason,
)

MAX_BYTES = 1_000_000
MAX_ENTRIES = 500
"""In each list of a settings file: every entry may have to be looked up in what the user trusts."""
# The parser compares every part of a dotted key with every other, for each line below it.
_KEY_PART = rb"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
_MAX_DOTS = 30
_DEEPEST = 50
_WITHOUT_BRACKETS = rb'"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*'
"""Texts and comments of TOML, whose brackets do not nest."""
_LONG_KEY = rb"(?<![\w-])%b(?:[ \t]*+\.[ \t]*+%b){%d}" % (_KEY_PART, _KEY_PART, _MAX_DOTS)
_LONGEST_REASON = 500
_VALUE_REMEDY = "Fix the value, or remove the key."
TRUST_VARIABLE = "STRANDS_TRUST"
SETTINGS_NAME = "strands.toml"
_MAX_DECISIONS = 10_000_000
_TRUE_WORDS = frozenset({"1", "true", "yes", "on"})

_PLAIN = ("threads", "thread_wait", "local")
"""What the user's file sets where the project's does not: nobody is protected by these."""
_TABLES = {
    "http": HttpSettings,
    "sandbox": SandboxSettings,
    "local": LocalSettings,
    "runs": RunSettings,
    "engine": EngineSettings,
    "mcp": McpSettings,
}
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
    runs: RunSettings = RunSettings()
    engine: EngineSettings = EngineSettings()
    servers: tuple[DeclaredServer, ...] = ()
    """The MCP servers of the project and of the user, also those that are not trusted."""
    hosts: dict[str, tuple[str, ...]] = {}
    """Only in your own file: the hosts that may get a key, by provider or by environment variable."""
    bypass_consent: bool = False
    asks: tuple[Ask, ...] = ()
    """What the project's files ask for beyond its directory; what is not trusted is not in force."""
    issues: tuple[Issue, ...] = ()
    """Why the file cannot be used. Only who looks gets such settings, and nothing runs with them."""

    @property
    def refused(self) -> tuple[Ask, ...]:
        return tuple(ask for ask in self.asks if not ask.trusted)

    def refuse_unread(self) -> None:
        """SpecError where the file cannot be used: what it would have narrowed is not known."""
        if self.issues:
            reason = f"{self.issues[0].place}: {self.issues[0].reason}"
            raise SpecError(reason, hint=self.issues[0].remediation, issues=self.issues)


def settings_to_look_at(start: Path | None = None) -> Settings:
    """As `load_settings`, but with a file that cannot be used as `issues`: it ends no listing."""
    try:
        return load_settings(start)
    except SpecError as error:
        directory = Path(os.path.realpath(start or Path.cwd()))
        project = marked_project_root(directory) or directory
        return Settings(project=project, workspace=(), issues=error.issues)


def load_settings(start: Path | None = None, environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings in force in a directory (by default the current one).

    A directory without a mark sets no workspace: that is the current directory then, chosen by the user.
    """
    try:
        current = Path.cwd()
        directory = Path(os.path.realpath(start or current))  # Path.resolve fails over links in a circle
    except OSError:
        raise UsageError(
            "The current directory no longer exists.", hint="Change to another directory."
        ) from None
    marked, marks, foreign = _project_marks(directory, environment)
    project = marked or directory
    if marked != directory:
        foreign += _unread_marks(directory, environment)
    ignored = {ask.file for ask in foreign if not ask.trusted}
    file, table = _read_table(marked, marks, ignored)
    user_file, user_table = _user_table(environment)
    user = _convert_settings(user_table, user_file, UserSettings)
    plain = {name: value for name, value in user_table.items() if name in _PLAIN}
    values = _convert_settings(plain | table, file, FileSettings)
    if "max_bytes" not in table.get("http", {}):
        http = replace(values.http, max_bytes=user.http.max_bytes)
        values = replace(values, http=http)
    asking = _Asking(project, file, environment, foreign)
    base = marked or current
    added = [_workspace_root(base, root, user_file, expands=True) for root in user.workspace]
    roots = [_workspace_root(base, root, file) for root in values.workspace]
    for index, (root, path) in enumerate(zip(values.workspace, roots, strict=True)):
        if is_inside(path, [base, *added]):
            continue
        if not asking.grants("workspace", str(path), "workspace", root):
            roots[index] = base if base.is_relative_to(path) else Path()
    workspace = dict.fromkeys(root for root in (*roots, *added) if root != Path())
    custom = [item.strip() for item in environment.get("STRANDS_CUSTOM_TOOL_ALLOWLIST", "").split(",")]
    named = (*user.allow, *(item for item in custom if item))
    own = (item for item in values.allow if item not in named)
    allow = [
        item for item in own if _is_own_callable(item, project) or asking.grants("callable", item, "allow")
    ]
    return Settings(
        project=project,
        file=file,
        workspace=tuple(workspace),
        allow=(*allow, *named),
        threads=values.threads,
        thread_wait=values.thread_wait,
        timeout=min((limit for limit in (values.timeout, user.timeout) if limit is not None), default=None),
        prices=user.prices | values.prices,
        http=_http_in_force(values.http, user.http, asking),
        sandbox=_sandbox_in_force(values.sandbox, user.sandbox, asking),
        local=values.local,
        runs=_runs_in_force(values.runs, store_in_force(user.runs, environment)),
        engine=engine_in_force(user.engine, environment),
        servers=asking.servers(values.mcp, marked, user.mcp, user_file),
        hosts=user.hosts,
        bypass_consent=environment.get("BYPASS_TOOL_CONSENT", "").strip().lower() in _TRUE_WORDS,
        asks=tuple(asking.asks),
    )


def _workspace_root(project: Path, root: str, file: Path | None, *, expands: bool = False) -> Path:
    try:
        return (project / (Path(root).expanduser() if expands else root)).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        reason = f"The workspace has an unusable path {root[:200]!r}: {error}."
        raise _refused_settings(file, reason, "Fix the path, or remove it.") from None


def is_inside(path: Path, places: Iterable[Path]) -> bool:
    """Whether a root of a workspace is in one of these, and in nothing protected there.

    What a root has in it is judged by names below the root, so `.git` must not become one by itself.
    """
    return any(path.is_relative_to(place) and not protected_part(path, place) for place in places)


def _http_in_force(values: HttpSettings, user: HttpSettings, asking: "_Asking") -> HttpSettings:
    new = (item for item in values.allow if item not in user.allow)
    allow = [item for item in new if asking.grants("network", item, "allow")]
    size = values.max_bytes
    if size > user.max_bytes and not asking.grants("limit", f"HTTP responses of {size} bytes", "max_bytes"):
        size = user.max_bytes
    return HttpSettings(allow=(*user.allow, *allow), max_bytes=size)


def _sandbox_in_force(values: SandboxSettings, user: SandboxSettings, asking: "_Asking") -> SandboxSettings:
    is_asked = values.accept and not user.accept
    return values if is_asked and asking.grants("sandbox", values.accept, "accept") else user


def _runs_in_force(values: RunSettings, user: RunSettings) -> RunSettings:
    return user if values.durability == "normal" else replace(user, durability=values.durability)


class _Asking:
    """Collects what a settings file asks for, and says of each whether it is granted."""

    def __init__(
        self, project: Path, file: Path | None, environment: Mapping[str, str], asks: list[Ask]
    ) -> None:
        self._project, self._file, self._environment, self.asks = project, file, environment, asks

    def grants(self, kind: str, value: str, key: str, written: str = "") -> bool:
        line = _line_in(_lines_of(self._file), key, written or value)
        file = self._file.name if self._file else ""
        return self._add(Ask(kind=kind, value=value, file=file, line=line))

    def _add(self, ask: Ask) -> bool:
        trusted = is_trusted(self._project, ask, self._environment)
        self.asks.append(replace(ask, trusted=trusted))
        return trusted

    def servers(
        self, values: McpSettings, marked: Path | None, user: McpSettings, user_file: Path | None
    ) -> tuple[DeclaredServer, ...]:
        """Those of the project's settings, of its `.mcp.json`, and the user's: the first of a name counts."""
        found = dict[str, DeclaredServer]()
        if self._file:
            self._declare(values.servers, self._file, found)
        shared = self._project / SHARED_SERVERS_NAME
        # Whose a project is was looked at before; anyone can put a file into a directory such as /tmp.
        is_own = marked or foreign_owner((self._project, shared), self._environment) is None
        if is_own and os.path.lexists(shared):
            others, problems = read_shared_servers(shared, project=self._project)
            self._declare(others, shared, found)
            for problem in problems:
                self._add(Ask(kind="unread", value=problem, file=str(shared)))
        for name, server in user.servers.items():
            found.setdefault(name, DeclaredServer(name=name, server=server, file=str(user_file)))
        return tuple(found.values())

    def _declare(self, servers: dict[str, McpServer], file: Path, found: dict[str, DeclaredServer]) -> None:
        lines = _lines_of(file) if servers else []
        for name, server in ((name, one) for name, one in servers.items() if name not in found):
            line = _line_in(lines, f'"{name}"' if file.suffix == ".json" else f"mcp.servers.{name}")
            text = f"{name}: {server.text}"
            trusted = self._add(Ask(kind="server", value=text, file=file.name, line=line))
            found[name] = DeclaredServer(
                name=name, server=server, scope=str(self._project), file=str(file), line=line, trusted=trusted
            )


def _is_own_callable(dotted: str, project: Path) -> bool:
    """Whether a function is of a module of the project, and of no other that would be imported instead."""
    import sys
    from importlib.machinery import PathFinder

    top = dotted.partition(".")[0]
    if top in sys.stdlib_module_names:
        return False
    paths = [Path(entry or os.curdir).resolve() for entry in sys.path]
    inside = [str(project), *(str(path) for path in paths if path.is_relative_to(project))]
    elsewhere = [str(path) for path in paths if not path.is_relative_to(project)]
    is_inside = PathFinder.find_spec(top, inside) is not None
    return is_inside and PathFinder.find_spec(top, elsewhere) is None


# --- Whose files they are -----------------------------------------------------------------------------------


def _project_marks(
    directory: Path, environment: Mapping[str, str]
) -> tuple[Path | None, list[Path], list[Ask]]:
    """The nearest directory that says of itself that it is a project's root, and the files that say so.

    Marks that belong to another user do not count, as long as they are not trusted: anyone can put one into
    a directory such as /tmp, above the directories of others.
    """
    foreign: list[Ask] = []
    for candidate in (directory, *directory.parents):
        marks = []
        for mark in _marks_in(candidate):
            owner = foreign_owner((candidate, mark), environment)
            if owner is not None:
                ask = Ask(kind="owner", value=_user_name(owner), file=str(mark))
                trusted = is_trusted(candidate, ask, environment)
                foreign.append(replace(ask, trusted=trusted))
            if owner is None or foreign[-1].trusted:
                marks.append(mark)
        if marks:
            return candidate, marks, foreign
    return None, [], foreign


def marked_project_root(directory: Path) -> Path | None:
    return _project_marks(directory, os.environ)[0]


def _marks_in(directory: Path) -> Iterator[Path]:
    for name in (SETTINGS_NAME, ".git", "pyproject.toml"):
        mark = directory / name
        # A link into nowhere, a pipe or a directory of that name is a mistake in a mark, and told as one.
        if _is_mark(mark) if name == "pyproject.toml" else os.path.lexists(mark):
            yield mark


def _is_mark(file: Path) -> bool:
    try:
        return _strands_table(file) is not None
    except OSError:
        return False  # the file of another tool, unless this turns out to be the root
    except SpecError:
        return True


def _unread_marks(directory: Path, environment: Mapping[str, str]) -> Iterator[Ask]:
    """A pyproject that cannot be read, where it marks no project: it is ignored, and the user is told."""
    file = directory / "pyproject.toml"
    try:
        _strands_table(file)
    except OSError as error:
        ask = Ask(kind="unread", value=unread_reason(error).rstrip("."), file=str(file))
        yield replace(ask, trusted=is_trusted(directory, ask, environment))
    except SpecError:
        pass  # of another user, which is told


def foreign_owner(paths: tuple[Path, ...], environment: Mapping[str, str]) -> int | None:
    """The user that one of them belongs to, who is neither this one nor root. As git, sudo's user counts."""
    if not hasattr(os, "geteuid"):
        return None
    own = {0, os.geteuid()}
    if os.geteuid() == 0 and environment.get("SUDO_UID", "").isdecimal():
        own.add(int(environment["SUDO_UID"]))
    owners: list[int] = []
    for path in paths:
        with suppress(OSError):  # a link into nowhere has an owner too
            owners.append(path.lstat().st_uid)
            owners.append(path.stat().st_uid)
    return next((owner for owner in owners if owner not in own), None)


def _user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _user_table(environment: Mapping[str, str]) -> tuple[Path | None, dict[str, Any]]:
    """The user's own file, where the variables are in order. One of somebody else is not the user's."""
    check_variables(environment)
    try:
        file = config_directory(environment) / SETTINGS_NAME
    except RuntimeError:  # there is no home directory
        return None, {}
    if not os.path.lexists(file) or foreign_owner((file,), environment) is not None:
        return None, {}
    return file, _read_toml(file)


# --- What the user trusts -----------------------------------------------------------------------------------


def is_trusted(
    project: Path, ask: Ask, environment: Mapping[str, str] = os.environ, *, looks_up: bool = True
) -> bool:
    """Whether the user has granted an ask: in the environment or, with `looks_up`, by `strands trust`."""
    named = {item.strip().lower() for item in environment.get("STRANDS_TRUST", "").split(",")}
    if named & _TRUE_WORDS or ask.id in named:
        return True
    return looks_up and ask.id in trusted_projects(environment).get(project_key(project), {})


def project_key(project: Path) -> str:
    """The name of a project in the user's decisions: its path, or its bytes where that is not text."""
    name = os.fsencode(project.resolve())
    try:
        return name.decode()
    except UnicodeDecodeError:
        return repr(name)


def decisions_file(environment: Mapping[str, str] = os.environ) -> Path:
    return data_directory(environment) / "trust.json"


def trusted_projects(environment: Mapping[str, str] = os.environ) -> dict[str, dict[str, str]]:
    """What the user has trusted: by project, the id of each ask with its sentence.

    A file that cannot be read, or that another user owns, grants nothing.
    """
    try:
        file = decisions_file(environment)
        if foreign_owner((file,), environment) is not None:
            return {}
        return msgspec.json.decode(read_regular_file(file, _MAX_DECISIONS), type=dict[str, dict[str, str]])
    except (OSError, RuntimeError, msgspec.DecodeError, msgspec.ValidationError):
        return {}


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where derived data is kept; everything in it may be deleted at any time."""
    return _base_directory(environment.get("XDG_CACHE_HOME", ""), ".cache") / "strands-cli"


def config_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a user keeps what holds for every project: plugins, and what was decided about them."""
    return _base_directory(environment.get("XDG_CONFIG_HOME", ""), ".config") / "strands-cli"


def data_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a user's decisions are kept: what was trusted, and the plugins that were approved."""
    return _base_directory(environment.get("XDG_DATA_HOME", ""), ".local", "share") / "strands-cli"


def _base_directory(given: str, *default: str) -> Path:
    """A path that is not absolute is ignored, as the standard has it: it would lead into the project."""
    return Path(given) if Path(given).is_absolute() else Path.home().joinpath(*default)


def answers_directory() -> Path:
    """Where answers go that are too long for a model; tools may read there, and what is a week old goes."""
    return cache_directory() / "answers"


def _read_table(
    project: Path | None, marks: list[Path], ignored: set[str]
) -> tuple[Path | None, dict[str, Any]]:
    """The table of the first mark that has one. A pyproject that cannot be read might have one."""
    own = {mark.name: mark for mark in marks}
    if SETTINGS_NAME in own:
        return own[SETTINGS_NAME], _read_toml(own[SETTINGS_NAME])
    shared = own.get("pyproject.toml") or (project / "pyproject.toml" if project else None)
    if shared is None or str(shared) in ignored:
        return None, {}
    try:
        table = _strands_table(shared)
    except OSError as error:
        raise _refused_settings(shared, unread_reason(error)) from None
    return (shared, table) if table is not None else (None, {})


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return _parsed_toml(file, read_regular_file(file, MAX_BYTES))
    except OSError as error:
        raise _refused_settings(file, unread_reason(error)) from None


def _strands_table(file: Path) -> dict[str, Any] | None:
    """`[tool.strands]`; parsed only where the text speaks of it, since many a pyproject is large."""
    try:
        data = read_regular_file(file, MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    tool = _parsed_toml(file, data).get("tool") if b"tool.strands" in data else None
    table = tool.get("strands") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else None


def _parsed_toml(file: Path, data: bytes) -> dict[str, Any]:
    import tomllib

    # Most files have fewer dots, and need no expression compiled.
    if data.count(b".") >= _MAX_DOTS and (found := re.search(_LONG_KEY, data)):
        line = data.count(b"\n", 0, found.start()) + 1
        raise _refused_settings(file, f"The key on line {line} has too many parts.")
    try:
        # The parser's own limit is the stack that its caller has left, so one file could get two answers.
        if data.count(b"[") + data.count(b"{") > _DEEPEST:
            brackets = re.findall(rb"[][{}]", re.sub(_WITHOUT_BRACKETS, b"", data))
            if max(accumulate(1 if one in b"[{" else -1 for one in brackets), default=0) > _DEEPEST:
                raise RecursionError
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise _refused_settings(file, unread_reason(error)) from None
    except RecursionError:
        raise _refused_settings(file, f"It is nested more than {_DEEPEST} levels deep.") from None
    except ValueError as error:  # also of a number with thousands of digits
        raise _refused_settings(file, f"{error}.") from None


def _refused_settings(
    file: Path | None, reason: str, remedy: str = "Fix the file, or remove it."
) -> SpecError:
    issue = Issue(file=str(file or ""), reason=reason, remediation=remedy)
    return SpecError(f"{file} cannot be used: {reason}", hint=remedy, issues=[issue])


_F = TypeVar("_F", bound=FileSettings)


def _convert_settings(table: dict[str, Any], file: Path | None, kind: type[_F]) -> _F:
    try:
        values = msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise _settings_error(str(error), table, file, kind) from None
    timeout_fits = values.timeout is None or values.timeout > 0  # not so for NaN
    local_fits = values.local.threads is None or values.local.threads > 0
    threads_fit = values.threads > 0 and values.thread_wait > 0
    sizes_fit = values.http.max_bytes > 0 and values.runs.keep_days > 0
    if not (threads_fit and timeout_fits and local_fits and sizes_fit):
        names = "threads, thread_wait, timeout, http.max_bytes, local.threads and runs.keep_days"
        raise _refused_settings(file, f"{names} must be greater than zero.", _VALUE_REMEDY)
    if kind is FileSettings and (reason := users_key_reason(table)):
        raise _refused_settings(file, reason, "Remove it, or move it to ~/.config/strands-cli/strands.toml.")
    for name, entries in {
        "workspace": values.workspace,
        "allow": values.allow,
        "http.allow": values.http.allow,
    }.items():
        if len(entries) > MAX_ENTRIES:
            reason = f"{name} has {len(entries)} entries; the maximum is {MAX_ENTRIES}."
            raise _refused_settings(file, reason, "Remove some of them.")
    for model, price in values.prices.items():
        if not (0 <= price.input < inf and 0 <= price.output < inf):
            reason = f"The prices of {model!r} must be numbers of US dollars, zero or more."
            raise _refused_settings(file, reason, _VALUE_REMEDY)
    return values


def _settings_error(
    reason: str, table: dict[str, Any], file: Path | None, kind: type[FileSettings]
) -> SpecError:
    """With the nearest key for the first one that does not exist; else with the key of the wrong type."""
    known, key, remedy = kind.__struct_fields__, "", _VALUE_REMEDY
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
    key, reason, remedy = _server_reason(table) or (key, reason, remedy)
    reason = reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}…"
    issue = Issue(file=str(file), line=_line_in(_lines_of(file), key), reason=reason, remediation=remedy)
    return SpecError(f"{issue.place}: {reason}", hint=remedy, issues=[issue])


def _server_reason(table: dict[str, Any]) -> tuple[str, str, str] | None:
    """The key of the first MCP server that is not in order, why, and what to do: the error names none."""
    servers = table["mcp"].get("servers") if isinstance(table.get("mcp"), dict) else None
    for name, server in servers.items() if isinstance(servers, dict) else ():
        if reason := entry_problem(server):
            return f"mcp.servers.{name}", f"The MCP server {name!r}{reason[0]}.", reason[1] or _VALUE_REMEDY
    return None


def _lines_of(file: Path | None) -> list[str]:
    try:
        return read_regular_file(file, MAX_BYTES).decode("utf-8-sig").splitlines() if file else []
    except (OSError, ValueError):
        return []  # changed in the meantime


def _line_in(lines: list[str], key: str, value: str = "") -> int:
    """The line of a value, else of the first line that begins with its key: tomllib keeps no positions."""
    numbered = enumerate(lines if key else (), 1)
    first = next((number for number, line in numbered if line.lstrip(" [").startswith(key)), 0)
    below = (number for number, line in enumerate(lines, 1) if number >= first and value in line)
    return next(below, first) if first and value else first
