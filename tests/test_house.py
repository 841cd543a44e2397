"""The rules of the house. A rule is a function from a source tree to the sentences about what breaks it."""

import ast
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from strands_cli.patterns import PATTERNS
from tests.standins.ollama import OllamaStandin

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "src" / "strands_cli"

# Where a broad except may stand, as "toolkit/call.py:function" or "toolkit/call.py:Class.method", and why.
BROAD_EXCEPTS: dict[str, str] = {
    "cli/app.py:_run_command": "the last boundary: what arrives here is a bug and exits with 70",
    "cli/event_loop.py:_run_future": "it is raised where it is waited for",
    "exec/journal.py:Journal._write": "a store is other people's code, and its thread must answer who waits",
    "exec/accounts.py:Emitter._send": "a listener that fails is its owner's trouble, not the run's",
    "mcp/connection.py:ServerConnection._live": "whatever the tasks of a transport raise ends the server",
    "runtime/model_requests.py:Retrying.retry": "each client raises classes of its own; what is not known is raised on",
    "sandbox/inside/interpreter.py:Interpreter._flush": "model-written code may have broken its streams",
    "sandbox/inside/interpreter.py:Interpreter._outcome": "whatever model-written code raises is its outcome",
    "sandbox/inside/interpreter.py:_text_or_failure": "repr and str are model-written too",
    "sandbox/launcher.py:_start_zygotes": "it is raised where it is waited for",
    "secrets.py:Redactor._object": "a value's own text is other people's code; what cannot be shown is not shown",
    "telemetry/recorders.py:Recorder.__call__": "a run does not fail because it is watched",
    "toolkit/call.py:_ask_permission": "what cannot be asked is not allowed",
    "toolkit/context.py:emit_event": "listeners are other people's code",
    "toolkit/decorator.py:_decorated_tool": "whatever reading a function raises is told with its place",
    "toolkit/isolation_child.py:_run_isolated_call": "importing a tool and encoding its value run its code too",
    "toolkit/isolation.py:IsolatedBody.outcome": "a worker thread waits, and must come back with something",
    "toolkit/execution.py:call_in_pool.call": "it is raised again where it was waited for",
    "toolkit/execution.py:run_coroutine_in_thread.run": "it is raised again where it was waited for",
    "toolkit/values.py:_exception_text": "an exception whose own text fails is still a crash to report",
    "toolkit/values.py:run_body_inline": "whatever a body raises is its outcome",
    "toolkit/values.py:await_body": "whatever a body raises is its outcome",
    "toolkit/values.py:normalise_result": "a value's own methods run here, and are the tool's code too",
    "tools/sources/modules.py:Source.load": "importing a module runs whatever its author wrote",
}

# Files of more than 600 lines that are one subject, and why a reader wants it whole.
LONG_FILES: dict[str, str] = {}

# Who in cli/ writes past `cli/output.py`, and how what is written there is escaped.
UNESCAPED_OUTPUT: dict[str, str] = {
    "cli/chat/command.py:_run_chat": "the screen cleans all that it is told, and moves the cursor",
    "cli/models.py:_pull_with_progress": "click's bar moves the cursor; its label is a name of our catalogue",
    "cli/progress.py:open_progress": "the board cleans all that it is told, and the block moves the cursor",
}

# Modules under 60 lines that a single other module imports, and why they are not part of it.
SMALL_MODULES: dict[str, str] = {}
# Names that two modules may share: commands, patterns, providers and sources are called what users call them.
NAMED_BY_USERS = (
    "cli",
    "patterns",
    "providers",
    "tools/sources",
    "tools/data_tools",
    "tools/file_operations",
)

MEANINGLESS = {"util", "helper", "common", "manager", "factory", "factorie", "handler"}
REGISTRIES = ["pypi" + ".org", "files.python" + "hosted", "registry.npm" + "js", "deb." + "debian"]

HEAVY = {"boto3", "httpcore", "httpx", "jinja2", "mcp", "opentelemetry", "pydantic", "strands", "wcwidth"}
LIGHT_COMMANDS = {
    ("--version",): HEAVY | {"asyncio", "click", "jsonschema_rs", "msgspec", "yaml"},
    ("--help",): HEAVY | {"asyncio"},
    ("list-tools",): HEAVY | {"asyncio"},
    ("tool", "show", "echo"): HEAVY | {"asyncio"},
    ("tool", "call", "echo", '{"message": "hi"}'): HEAVY,
    ("validate", str(REPOSITORY / "examples" / "echo-demo.yaml")): (HEAVY | {"asyncio"}) - {"jinja2"},
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While
Block = ast.If | Loop | ast.With | ast.AsyncWith | ast.Try | ast.TryStar | ast.Match
Rule = Callable[[Path], Iterator[str]]


# --- Reading a tree ---------------------------------------------------------------------------------------


def parsed(root: Path) -> Sequence[tuple[str, ast.Module]]:
    """The modules below a directory; our own are read once."""
    return _parsed_once(root) if root.is_relative_to(REPOSITORY) else _parsed(root)


def _parsed(root: Path) -> Sequence[tuple[str, ast.Module]]:
    files = sorted(root.rglob("*.py"))
    return [(path.relative_to(root).as_posix(), ast.parse(path.read_text("utf-8"))) for path in files]


_parsed_once = cache(_parsed)


def scoped(node: ast.AST, scope: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yields every node with the qualified name of the function or class around it."""
    for child in ast.iter_child_nodes(node):
        yield scope, child
        inner = [scope, child.name] if isinstance(child, Function | ast.ClassDef) else [scope]
        yield from scoped(child, ".".join(filter(None, inner)))


def functions(root: Path) -> Iterator[tuple[str, Function]]:
    for file, tree in parsed(root):
        for scope, node in scoped(tree):
            if isinstance(node, Function):
                yield f"{file}:{node.lineno} {scope}.{node.name}".replace(" .", " "), node


def run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Yields what runs when the module is imported: all but the bodies of functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.Lambda):
            arguments = child.args
            own = [*arguments.defaults, *arguments.kw_defaults, *getattr(child, "decorator_list", [])]
            for part in filter(None, own):
                yield from ast.walk(part)
        else:
            yield child
            yield from run_at_import(child)


def root_name(node: ast.AST | None) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def names_from(tree: ast.Module, package: str) -> set[str]:
    """The names that a module binds by importing from the package."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {item.asname or package for item in node.names if item.name.split(".")[0] == package}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == package:
            names |= {item.asname or item.name for item in node.names}
    return names


# --- The rules --------------------------------------------------------------------------------------------


def oversized_files(root: Path) -> Iterator[str]:
    for file, _ in parsed(root):
        lines = len((root / file).read_text("utf-8").splitlines())
        if lines > 600 and file not in LONG_FILES:
            yield f"{file} has {lines} lines: divide it by subject, or add it to LONG_FILES with the reason"


def oversized_functions(root: Path) -> Iterator[str]:
    for where, node in functions(root):
        if (lines := (node.end_lineno or 0) - node.lineno + 1) > 60:
            yield f"{where} has {lines} lines, at most 60 are allowed: name its parts"


def deep_nesting(root: Path) -> Iterator[str]:
    def deepest(node: ast.AST, level: int) -> int:
        levels = [level]
        for child in ast.iter_child_nodes(node):
            if isinstance(child, Function | ast.ClassDef):
                continue
            same = isinstance(node, ast.If) and child in node.orelse and child.col_offset == node.col_offset
            levels.append(deepest(child, level + (isinstance(child, Block) and not same)))
        return max(levels)

    for where, node in functions(root):
        if (level := deepest(node, 0)) > 3:
            yield f"{where} nests {level} blocks, at most 3 are allowed: return early, or name a part"


def untyped_signatures(root: Path) -> Iterator[str]:
    for where, node in functions(root):
        given = node.args
        positional = [*given.posonlyargs, *given.args]
        if positional and positional[0].arg in ("self", "cls"):
            positional.pop(0)
        for argument in filter(None, [*positional, *given.kwonlyargs, given.vararg, given.kwarg]):
            if argument.annotation is None:
                yield f"{where}: the parameter {argument.arg!r} has no type"
        if node.returns is None:
            yield f"{where}: the result has no type"


def meaningless_names(root: Path) -> Iterator[str]:
    for path in sorted(root.rglob("*")):
        words = {word.rstrip("s") for word in path.stem.split("_")}
        if (path.suffix == ".py" or path.is_dir()) and words & MEANINGLESS:
            yield f"{path.relative_to(root)} is a name for anything: name it after what it holds"


def shared_names(root: Path) -> Iterator[str]:
    """Modules, and public classes, that a search for their name does not tell apart."""
    modules: dict[str, list[str]] = {}
    classes: dict[str, list[str]] = {}
    for file, tree in parsed(root):
        path = Path(file)
        if path.stem not in ("__init__", "__main__") and path.parent.as_posix() not in NAMED_BY_USERS:
            modules.setdefault(path.stem, []).append(file)
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes.setdefault(node.name, []).append(file)
    for kind, found in (("module", modules), ("class", classes)):
        for name, files in found.items():
            if len(files) > 1:
                yield f"The {kind} name {name} stands for {len(files)} things: {', '.join(files)}"


def small_modules(root: Path) -> Iterator[str]:
    graph = grimp.build_graph(root.name, exclude_type_checking_imports=True, cache_dir=None)
    for module in sorted(graph.modules):
        file = Path(*module.split(".")[1:]).with_suffix(".py") if "." in module else Path("__init__.py")
        if not (root / file).is_file() or file.as_posix() in SMALL_MODULES:
            continue
        lines = len((root / file).read_text("utf-8").splitlines())
        if 0 < lines < 60 and len(graph.find_modules_that_directly_import(module)) == 1:
            yield f"{file} has {lines} lines and one importer: make it part of that, or say why not"


def broad_excepts(root: Path) -> Iterator[str]:
    def is_broad(node: ast.AST) -> bool:
        if isinstance(node, ast.ExceptHandler):
            caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("suppress", "contextlib.suppress"):
            caught = node.args
        else:
            return False
        return any(kind is None or root_name(kind) in ("Exception", "BaseException") for kind in caught)

    for file, tree in parsed(root):
        yield from sorted({f"{file}:{scope or '<module>'}" for scope, node in scoped(tree) if is_broad(node)})


def prints_and_exits(root: Path) -> Iterator[str]:
    for file, tree in parsed(root):
        if file.startswith("cli/") or file == "__main__.py":
            continue
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call | ast.Raise)):
            does = ast.unparse(call.func) if isinstance(call, ast.Call) else f"raise {root_name(call.exc)}"
            if does in ("print", "pprint", "pprint.pprint"):
                yield f"{file}:{call.lineno} prints, as only cli does: emit an event, or return a value"
            elif does in ("sys.exit", "exit", "quit", "SystemExit", "raise SystemExit"):
                yield f"{file}:{call.lineno} exits, as only cli does: raise one of the errors in errors.py"


def loop_objects_at_import(root: Path) -> Iterator[str]:
    for file, tree in parsed(root):
        names = names_from(tree, "asyncio")
        for node in run_at_import(tree):
            if isinstance(node, ast.Call) and root_name(node.func) in names:
                yield f"{file}:{node.lineno} makes {ast.unparse(node)} at import, before there is a loop"


def import_cycles(root: Path) -> Iterator[str]:
    graph = grimp.build_graph(root.name, exclude_type_checking_imports=True, cache_dir=None)
    needs = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as cycle:
        yield "Modules import each other: " + " -> ".join(cycle.args[1])


def mocks(root: Path) -> Iterator[str]:
    for file, tree in parsed(root):
        ours = names_from(tree, "strands_cli")
        for node in ast.walk(tree):
            line = getattr(node, "lineno", 0)
            if imports_a_mock(node) or (isinstance(node, ast.arg) and node.arg == "mocker"):
                yield f"{file}:{line} uses a mock: use the real part, or a real subclass at its seam"
            elif patches(node, ours):
                yield f"{file}:{line} patches our own code: pass in what has to differ"


def unescaped_output(root: Path) -> Iterator[str]:
    """Yields what does not go through the functions of `cli/output.py`, which escape what is not ours."""
    printing = {
        "echo",
        "secho",
        "style",
        "prompt",
        "confirm",
        "progressbar",
        "pause",
        "clear",
        "edit",
        "launch",
    }
    past = {"own_stream", "print", "input", *(f"click.{name}" for name in (*printing, "echo_via_pager"))}
    attributes = {"unescaped", "__stdout__", "__stderr__"}
    for file, tree in parsed(root):
        if not file.startswith("cli/") or file in ("cli/output.py", "cli/terminal.py"):
            continue
        for scope, node in scoped(tree):
            if f"{file}:{scope}" in UNESCAPED_OUTPUT:
                continue
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            found = (
                called in past or called == "os.write" or called.startswith(("sys.stdout.w", "sys.stderr.w"))
            )
            if isinstance(node, ast.Attribute):
                written = ast.unparse(node)
                found = node.attr in attributes or written in ("sys.stdout.buffer", "sys.stderr.buffer")
            if isinstance(node, ast.ImportFrom | ast.Import):
                found = bool(names_from(ast.Module([node], []), "rich")) or (
                    isinstance(node, ast.ImportFrom)
                    and (node.module or "").split(".")[0] == "click"
                    and any(alias.name in printing for alias in node.names)
                )
            if found:
                yield f"{file}:{node.lineno} prints past cli/output.py: {ast.unparse(node)}"


def imports_a_mock(node: ast.AST) -> bool:
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    return any(f"{name}.".startswith(("unittest.mock.", "mock.", "pytest_mock.")) for name in names)


def patches(node: ast.AST, ours: set[str]) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Attribute) and root_name(target) in ours for target in node.targets)
    if not isinstance(node, ast.Call) or not node.args:
        return False
    if ast.unparse(node.func).split(".")[-1] not in ("setattr", "delattr", "setitem", "delitem"):
        return False
    by_name = isinstance(node.args[0], ast.Constant) and str(node.args[0].value).startswith("strands_cli.")
    return by_name or root_name(node.args[0]) in ours


def registry_hosts(root: Path) -> Iterator[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    for file in filter(None, listed.split("\0")):
        text = (root / file).read_bytes().lower() if (root / file).is_file() else b""
        for host in REGISTRIES:
            if host.encode() in text:
                yield f"{file} names {host}: packages are named, the places they come from are not"


# --- The rules, held against this house -------------------------------------------------------------------

RULES_FOR_SOURCE: list[Rule] = [
    oversized_files,
    oversized_functions,
    deep_nesting,
    untyped_signatures,
    meaningless_names,
    prints_and_exits,
    unescaped_output,
    loop_objects_at_import,
    import_cycles,
    shared_names,
    small_modules,
]


@pytest.mark.parametrize("rule", RULES_FOR_SOURCE)
def test_the_source_has_no(rule: Rule) -> None:
    assert list(rule(PACKAGE)) == []


@pytest.mark.parametrize("kind", PATTERNS)
def test_a_pattern_is_one_file_and_a_line_in_the_table(kind: str) -> None:
    words = re.compile(rf"\b({kind}|{PATTERNS[kind].__name__})\b")
    named = {file for file, _ in parsed(PACKAGE) if words.search((PACKAGE / file).read_text("utf-8"))}
    # A chain is also what a chat is made of, an entry of its own, and a word; so are some others.
    assert {f"patterns/{kind}.py", "patterns/__init__.py"} <= named
    if "_" in kind or kind in ("routing",):
        assert named == {f"patterns/{kind}.py", "patterns/__init__.py"}
    imported = {
        file
        for file, tree in parsed(PACKAGE)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").endswith(f"patterns.{kind}")
    }
    assert imported <= ({"exec/chain.py", "cli/chat/command.py"} if kind == "chain" else set())


def test_tests_use_real_parts() -> None:
    assert list(mocks(REPOSITORY / "tests")) == []


def test_no_file_names_the_host_of_a_package_registry() -> None:
    assert list(registry_hosts(REPOSITORY)) == []


def test_a_broad_except_stands_only_where_the_table_says_so() -> None:
    found = set(broad_excepts(PACKAGE))
    unlisted, gone = sorted(found - set(BROAD_EXCEPTS)), sorted(set(BROAD_EXCEPTS) - found)
    assert not unlisted, f"Catch what you expect, or add to BROAD_EXCEPTS in {__file__}: {unlisted}"
    assert not gone, f"No longer there, so take it out of BROAD_EXCEPTS in {__file__}: {gone}"
    assert all(BROAD_EXCEPTS.values()), "An entry of BROAD_EXCEPTS says why it has to be broad"


def test_who_writes_past_the_output_functions_is_needed_and_has_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for place, reason in [*UNESCAPED_OUTPUT.items()]:
        monkeypatch.delitem(UNESCAPED_OUTPUT, place)
        assert [broken for broken in unescaped_output(PACKAGE) if broken.startswith(place.split(":")[0])], (
            place
        )
        assert reason


@pytest.mark.parametrize(("rule", "table"), [(oversized_files, LONG_FILES), (small_modules, SMALL_MODULES)])
def test_an_exception_from_a_size_rule_is_needed_and_has_a_reason(
    rule: Rule, table: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = dict(table)
    for file in listed:
        monkeypatch.delitem(table, file)
    needed = {broken.split()[0] for broken in rule(PACKAGE)}
    assert sorted(listed) == sorted(needed)
    assert all(listed.values()), "An entry says why the file is as it is"


FIELD_FILES = {"replaced_by": 5, "isolate": 6, "max_output": 10}
"""How many files name a field of tools: its line in `toolkit/info.py`, the decorator's typed parameter, and who uses
it. A number may become smaller; one that grows says that a field is written down again."""


@pytest.mark.parametrize("field", FIELD_FILES)
def test_a_field_of_tools_is_written_down_once(field: str) -> None:
    files = [file for file in PACKAGE.rglob("*.py") if re.search(rf"\b{field}\b", file.read_text("utf-8"))]
    assert len(files) <= FIELD_FILES[field], sorted(str(file.relative_to(PACKAGE)) for file in files)


def test_the_decorator_takes_every_field_of_tools() -> None:
    from strands_cli.toolkit.info import OPTIONS

    tree = ast.parse((PACKAGE / "toolkit/decorator.py").read_text("utf-8"))
    overloads = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "tool"]
    typed = {argument.arg for node in overloads for argument in node.args.kwonlyargs}
    assert typed == {*OPTIONS, "spec", "context"}


# --- Light commands ---------------------------------------------------------------------------------------

PROBE = """
import os, sys
log = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
def note(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        os.write(log, (arguments[0] + chr(10)).encode("utf-8", "replace"))
sys.addaudithook(note)
from strands_cli.__main__ import main
sys.exit(main())
"""

GREET = """
TOOL_SPEC = {"name": "greet", "description": "Greet.", "inputSchema": {"json": {"type": "object"}}}
def greet(tool, **kwargs):
    return "hi"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / "tools").mkdir(parents=True)
    (tmp_path / "project" / "tools" / "greet.py").write_text(GREET, "utf-8")
    return tmp_path / "project"


def opened_by(command: tuple[str, ...], project: Path) -> list[Path]:
    """Runs 'strands' with the arguments and returns the files that it opened."""
    log = project.parent / "opened"
    kept = {"PATH", "LANG", "LC_ALL", "SYSTEMROOT", "VIRTUAL_ENV"}
    env = {name: value for name, value in os.environ.items() if name in kept} | {"HOME": str(project.parent)}
    argv = [sys.executable, "-c", PROBE, str(log), *command]
    child = subprocess.run(argv, cwd=project, env=env, input="", capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    return [Path(line) for line in log.read_text("utf-8").splitlines()]


def imported_from(files: list[Path], root: Path) -> set[str]:
    """The names, right below the root, of the packages and modules whose files were opened."""
    below = [file.relative_to(root).parts for file in files if file.is_relative_to(root)]
    return {(parts[1] if parts[0] == "__pycache__" else parts[0]).split(".")[0] for parts in below}


@pytest.mark.parametrize("command", LIGHT_COMMANDS, ids=" ".join)
def test_a_light_command_imports_nothing_heavy(command: tuple[str, ...], project: Path) -> None:
    files = opened_by(command, project)
    roots = {Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")}
    imported = {name for root in roots for name in imported_from(files, root)}
    assert imported & LIGHT_COMMANDS[command] == set()


def test_version_is_answered_before_anything_of_ours_is_imported(project: Path) -> None:
    assert imported_from(opened_by(("--version",), project), PACKAGE) <= {"__init__", "__main__"}


def test_a_second_listing_reads_no_tool_file_again(project: Path) -> None:
    opened_by(("list-tools",), project)
    again = {(project / file).parent for file in opened_by(("list-tools",), project) if file.suffix == ".py"}
    assert again & {project / "tools", PACKAGE / "tools", PACKAGE / "tools" / "data_tools"} == set()


def test_a_run_without_terminal_and_collector_imports_neither_questions_nor_exporter(project: Path) -> None:
    with OllamaStandin() as ollama:
        ollama.enqueue("Hello.")
        flow = str(REPOSITORY / "examples" / "echo-demo.yaml")
        opened = opened_by(("run", flow, "--host", ollama.url), project)
    assert imported_from(opened, PACKAGE / "cli") >= {"run", "progress"}
    assert "questions" not in imported_from(opened, PACKAGE / "cli")
    assert "collector" not in imported_from(opened, PACKAGE / "telemetry")


# --- The rules, held against houses that are known to be crooked or straight ------------------------------

STRAIGHT = {
    "__init__.py": "",
    "cli/__init__.py": "import sys\ndef leave() -> None:\n    sys.exit(0)\n",
    "cli/output.py": "def say() -> None:\n    print('bye')\n",
    "errors.py": "class Wrong(Exception):\n    def say(self, *words: str) -> str: ...\n" + "\n" * 60,
    "loops.py": "import asyncio\ndef lock() -> asyncio.Lock:\n    return asyncio.Lock()\n",
    "flat.py": "def f(x: int) -> None:\n if x: pass\n" + " elif x: pass\n" * 5,
    "tools/__init__.py": "",
    "tools/small.py": "from crooked import errors\nTOOL_SPEC = {}\n" + "x = 1\n" * 100,
}
CROOKED: list[tuple[Rule, str, str]] = [
    (oversized_files, "a.py", "x = 1\n" * 601),
    (oversized_functions, "a.py", "def f() -> None:\n" + "    x = 1\n" * 60),
    (deep_nesting, "a.py", "def f() -> None:\n if 1:\n  for x in y:\n   with x:\n    while 1: pass\n"),
    (deep_nesting, "a.py", "def f() -> None:\n if 1: pass\n else:\n  if 2:\n   if 3:\n    if 4: pass\n"),
    (untyped_signatures, "a.py", "def f(x) -> None: ...\n"),
    (untyped_signatures, "a.py", "class A:\n    async def f(self, *, x: int): ...\n"),
    (meaningless_names, "http_utils.py", ""),
    (meaningless_names, "helpers/a.py", ""),
    (broad_excepts, "a.py", "try: x\nexcept: pass\n"),
    (broad_excepts, "a.py", "class A:\n def f(s):\n  try: x\n  except (KeyError, BaseException): pass\n"),
    (broad_excepts, "a.py", "import contextlib\nwith contextlib.suppress(Exception): x\n"),
    (prints_and_exits, "tools/a.py", "print(1)\n"),
    (prints_and_exits, "tools/a.py", "import sys\nsys.exit(1)\n"),
    (prints_and_exits, "tools/a.py", "raise SystemExit\n"),
    (unescaped_output, "cli/a.py", "import click\nclick.echo('x')\n"),
    (unescaped_output, "cli/chat/a.py", "from click import secho\n"),
    (unescaped_output, "cli/a.py", "import sys\ndef f() -> None:\n    sys.stderr.write('x')\n"),
    (unescaped_output, "cli/a.py", "def f() -> None:\n    own_stream(x).write('x')\n"),
    (unescaped_output, "cli/a.py", "from rich.console import Console\n"),
    (loop_objects_at_import, "a.py", "from asyncio import Event as E\nclass A:\n    ready = E()\n"),
    (loop_objects_at_import, "a.py", "import asyncio\ndef f(x=asyncio.Lock()) -> None: ...\n"),
    (shared_names, "tools/errors.py", ""),
    (shared_names, "faults.py", "class Wrong: ...\n"),
    (small_modules, "tools/tiny.py", "from crooked import loops\n"),
    (import_cycles, "errors.py", "def f() -> None:\n    from crooked.tools import small\n"),
    (mocks, "test_a.py", "from unittest import mock\n"),
    (mocks, "test_a.py", "from unittest.mock import patch\n"),
    (mocks, "test_a.py", "def test_x(mocker) -> None: ...\n"),
    (mocks, "test_a.py", "from strands_cli import tools as t\nmonkeypatch.setattr(t, 'x', 1)\n"),
    (mocks, "test_a.py", "monkeypatch.setattr('strands_cli.tools.x', 1)\n"),
    (mocks, "test_a.py", "import strands_cli.tools\nstrands_cli.tools.x = 1\n"),
    (registry_hosts, "README.md", f"https://{REGISTRIES[0]}/simple"),
]


def build_house(parent: Path, files: dict[str, str]) -> Path:
    house = parent / "crooked"
    for name, source in files.items():
        (house / name).parent.mkdir(parents=True, exist_ok=True)
        (house / name).write_text(source, "utf-8")
    subprocess.run(["git", "init", "-q", house], check=True)
    return house


@pytest.mark.parametrize("rule", [*RULES_FOR_SOURCE, broad_excepts, mocks, registry_hosts])
def test_a_straight_house_breaks_no_rule(rule: Rule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    assert list(rule(build_house(tmp_path, STRAIGHT))) == []


@pytest.mark.parametrize(("rule", "file", "source"), CROOKED)
def test_a_crooked_house_is_told_what_is_wrong(
    rule: Rule, file: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    assert len(list(rule(build_house(tmp_path, STRAIGHT | {file: source})))) == 1
