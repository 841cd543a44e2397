"""The registry: every name of a tool leads to it, and what is not a tool is reported."""

import asyncio
import mmap
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strands import tool as sdk_decorator

from strands_cli import CallContext, ToolFailed, call_tool, get_registry, tool
from strands_cli.errors import ToolError
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.decorator import tools_in
from strands_cli.toolkit.info import bare_schema, version_key
from strands_cli.tools.base import NativeTool
from strands_cli.tools.registry import ToolCategory, ToolInfo, ToolRegistry, ToolSpec
from tests.projects import Project

SPEC = (
    'TOOL_SPEC = {"name": "NAME", "description": "d", "inputSchema": {"type": "object", "properties": {}}}\n'
)


def plain(name: str, answer: str = "ok") -> str:
    """A tool module in its smallest form."""
    return f"{SPEC.replace('NAME', name)}\ndef {name}(tool, **kwargs):\n    return {answer!r}\n"


def text_of(made: Tool) -> str:
    return str(made({"toolUseId": "t", "input": {}})["content"][0]["text"])  # type: ignore[operator]


def test_the_guides_snippets_work_as_written() -> None:
    registry = get_registry()
    assert "echo" in [t.id for t in get_registry().list_all()]
    assert all(t.description for t in registry.list_all())
    tool_info = registry.get("echo")
    assert tool_info
    assert tool_info.import_path == "strands_cli.tools.echo"
    assert registry.resolve("echo") == "strands_cli.tools.echo"
    assert {"echo", "strands_cli.tools.echo"} <= registry.get_allowlist()
    assert ToolRegistry() is registry


def test_the_plans_info_and_spec_are_one_class_with_its_paths() -> None:
    info = ToolSpec(
        id="http_request",
        module_path="strands_cli.tools.http_request.tool",
        callable_name="http_request",
        family="http_request",
        category=ToolCategory.HTTP,
        description="d",
        version="1.0.0",
        deprecated=False,
        requires_consent=False,
        timeout_ms=None,
        input_schema=None,
        output_schema=None,
    )
    assert ToolSpec is ToolInfo
    assert info.full_import_path == "strands_cli.tools.http_request.tool.http_request"
    assert info.legacy_path == "strands_tools.http_request.http_request"
    bare = ToolInfo(id="x")
    assert (bare.callable_name, bare.family, bare.version) == ("x", "x", "0.0.0")


def test_the_package_has_the_registrys_classes_too() -> None:
    from strands_cli import tools

    assert (tools.ToolRegistry, tools.ToolSpec, tools.ToolCategory) == (ToolRegistry, ToolSpec, ToolCategory)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        tools.nothing  # noqa: B018


FORMS = {
    "echo": "echo",
    "echo@1.0.0": "echo",
    "native:echo": "echo",
    "native:echo@1.0.0": "echo",
    "native:file_operations.file_read": "file_read",
    "native:file_read": "file_read",
    "strands_cli.tools.echo": "echo",
    "strands_cli.tools.echo.echo": "echo",
    "strands_cli.tools.file_operations.file_read": "file_read",
    "strands_cli.tools.http_request": "http_request",
    "strands_tools.file_read": "file_read",
    "strands_tools.file_read.file_read": "file_read",
    "strands_tools.file_operations.file_read": "file_read",
    "strands_tools.http_request": "http_request",
    "strands_tools:file_read": "file_read",
    "strands_tools:file_read.file_read": "file_read",
    "strands_tools:file_operations.file_read": "file_read",
    "strands_tools.http_request.http_request": "http_request",
    "strands_tools.calculator.calculator": "calculator",
    "strands_tools.current_time": "current_time",
}


@pytest.mark.parametrize(("reference", "tool_id"), FORMS.items())
def test_every_form_of_reference_leads_to_its_tool(reference: str, tool_id: str) -> None:
    registry = get_registry()
    info = registry.get_by_import_path(reference)
    assert info is not None
    assert info.id == tool_id
    assert registry.resolve(reference) == info.import_path
    assert registry.validate_tool_path(reference) == (True, None)
    assert reference in registry.get_allowlist()
    assert registry.load(reference).id == tool_id


@pytest.mark.parametrize(
    "reference",
    ["", "ecko", "native:", "native:ecko", "native:data_tools.file_read", "strands_tools.", "strands_tools.x.file_read",
     "os.system", "echo@9.9.9", "@", "./no_such.py", "a..b", "native:native:echo", "strands_cli.tools.registry"],
)  # fmt: skip
def test_an_unknown_reference_is_none_and_never_an_exception(reference: str) -> None:
    registry = get_registry()
    assert registry.resolve(reference) is None
    assert registry.validate_tool_path(reference) == (False, f"Unknown tool: {reference}")
    with pytest.raises(ToolError, match="Unknown tool"):
        registry.load(reference)


@given(st.text(max_size=40))
def test_resolving_any_text_never_raises(text: str) -> None:
    get_registry().resolve(text)
    get_registry().validate_tool_path(text)


def test_an_unknown_tool_names_the_closest_one() -> None:
    with pytest.raises(ToolError) as caught:
        get_registry().load("native:calculater")
    assert "Did you mean 'native:calculator'?" in caught.value.hint


@pytest.mark.parametrize("name", ["echo", "native:echo", "strands_tools.echo", "strands_cli.tools.echo"])
def test_a_version_that_does_not_exist_is_answered_with_those_that_do(name: str) -> None:
    with pytest.raises(ToolError) as caught:
        get_registry().load(f"{name}@9.9.9")
    assert caught.value.hint == f"{name} exists in version 1.0.0."


def test_tools_are_listed_by_category() -> None:
    ids = {info.id for info in get_registry().list_by_category(ToolCategory.FILE_OPS)}
    named = {"file_list", "file_read", "file_search", "file_write"}
    assert ids == named | {"grep", "head", "search", "tail"}


def test_a_file_in_the_projects_tools_is_a_tool(inside: Project) -> None:
    inside.write("tools/greet.py", plain("greet", "hello"))
    get_registry().refresh()
    assert get_registry().resolve("greet") == "tools.greet"
    assert text_of(get_registry().load("greet")) == "hello"


def test_two_projects_with_a_tool_of_one_name_do_not_meet(tmp_path: Path, inside: Project) -> None:
    from strands_cli.settings import load_settings

    registry, answers = get_registry(), []
    for word in ("one", "two"):
        other = Project(_made(tmp_path / word))
        other.write("tools/greet.py", plain("greet", word))
        registry.refresh(load_settings(other.root))
        answers.append(text_of(registry.load("greet")))
    assert answers == ["one", "two"]


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def test_tools_of_a_project_may_import_their_siblings_and_the_projects_own_modules(inside: Project) -> None:
    inside.write("tools/_words.py", "WORD = 'sibling'\n")
    inside.write("my_project_module_x.py", "WORD = 'project'\n")
    text = "from ._words import WORD\nimport my_project_module_x as other\n" + SPEC.replace("NAME", "greet")
    inside.write("tools/greet.py", text + "def greet(tool):\n    return WORD + ' ' + other.WORD\n")
    get_registry().refresh()
    assert text_of(get_registry().load("greet")) == "sibling project"


def test_several_versions_stand_side_by_side_and_the_highest_that_is_not_deprecated_is_meant(
    inside: Project,
) -> None:
    inside.write(
        "tools/shout/__init__.py",
        "from strands_cli.tools.registry import ToolSpec\n"
        "S = {'type': 'object', 'properties': {}}\n"
        "TOOL_SPECS = [\n"
        "  ToolSpec(id='shout', version='1.0.0', callable_name='one', input_schema=S),\n"
        "  ToolSpec(id='shout', version='2.0.0', callable_name='two', input_schema=S),\n"
        "  ToolSpec(id='shout', version='3.0.0', callable_name='three', input_schema=S, deprecated=True,\n"
        "           replaced_by='shout@2.0.0'),\n"
        "]\n"
        "def one(tool): return '1'\n"
        "def two(tool): return '2'\n"
        "def three(tool): return '3'\n",
    )
    registry = get_registry()
    registry.refresh()
    assert registry.problems == []
    assert [text_of(registry.load(name)) for name in ("shout", "shout@1.0.0", "shout@3.0.0")] == [
        "2",
        "1",
        "3",
    ]
    usable, reason = registry.validate_tool_path("shout@3.0.0")
    assert not usable
    assert str(reason).startswith("Tool shout@3.0.0 is deprecated as of v3.0.0")
    assert registry.load("shout").id == "shout"


def test_the_same_id_and_version_twice_keeps_the_earlier_source_and_names_both(inside: Project) -> None:
    inside.write("tools/a_echo.py", SPEC.replace("NAME", "echo") + "from strands_cli import tool\n"
                 "@tool(spec=TOOL_SPEC, version='1.0.0')\ndef echo() -> str:\n    return 'mine'\n")  # fmt: skip
    registry = get_registry()
    registry.refresh()
    assert registry.resolve("echo") == "strands_cli.tools.echo"
    (problem,) = registry.problems
    assert "strands-cli" in problem.reason
    assert "a_echo.py" in problem.reason
    assert problem.line > 0


def test_another_version_in_a_later_source_is_reached_by_its_version_only(inside: Project) -> None:
    inside.write("tools/my_echo.py", SPEC.replace("NAME", "echo") + "from strands_cli import tool\n"
                 "@tool(spec=TOOL_SPEC, version='9.0.0')\ndef echo() -> str:\n    return 'mine'\n")  # fmt: skip
    registry = get_registry()
    registry.refresh()
    assert registry.resolve("echo") == "strands_cli.tools.echo"
    assert text_of(registry.load("echo@9.0.0")) == "mine"
    assert [info.origin for info in registry.list_all() if info.id == "echo"] == [
        "strands-cli",
        "tools/my_echo.py",
    ]


def test_a_broken_file_breaks_nothing_and_is_reported_with_its_line(inside: Project) -> None:
    inside.write("tools/greet.py", plain("greet"))
    inside.write("tools/broken.py", "x = 1\ndef broken(:\n    pass\n")
    registry = get_registry()
    registry.refresh()
    assert registry.resolve("greet")
    (problem,) = registry.problems
    assert problem.file.endswith("broken.py")
    assert problem.line == 2
    assert problem.remediation


def test_a_module_that_fails_when_it_is_imported_says_where(inside: Project) -> None:
    inside.write("tools/greet.py", "# first\n" + plain("greet") + "\n\n1 / 0\n")
    registry = get_registry()
    registry.refresh()
    with pytest.raises(ToolError) as caught:
        registry.load("greet")
    assert str(caught.value).startswith("Failed to load tool 'greet': ZeroDivisionError: division by zero")
    assert caught.value.issue is not None
    assert caught.value.issue.line == 8


@pytest.mark.parametrize(
    ("helper", "reason"),
    [
        ("# first\n1 / 0\n", "ZeroDivisionError: division by zero, in tools/_words.py:2"),
        ("HELLO = (\n", "SyntaxError: '(' was never closed (_words.py, line 1)"),
        (None, "ModuleNotFoundError: No module named '._words'"),
    ],
)
def test_a_helper_that_fails_when_it_is_imported_is_named_by_its_file(
    helper: str | None, reason: str, inside: Project
) -> None:
    inside.write("tools/greet.py", "from ._words import HELLO\n" + plain("greet"))
    if helper:
        inside.write("tools/_words.py", helper)
    registry = get_registry()
    registry.refresh()
    with pytest.raises(ToolError) as caught:
        registry.load("greet")
    assert caught.value.issue is not None
    assert (caught.value.issue.reason, caught.value.issue.line) == (reason, 1)


def test_a_path_names_a_tool_anywhere(inside: Project) -> None:
    inside.write("elsewhere/my_tool.py", plain("greet", "by path"))
    registry = get_registry()
    for reference in (
        "./elsewhere/my_tool.py",
        "elsewhere/my_tool.py:greet",
        str(inside.root / "elsewhere/my_tool.py"),
    ):
        assert text_of(registry.load(reference)) == "by path"
    assert registry.resolve("./elsewhere/my_tool.py:other") is None


def test_an_allowed_callable_can_be_used_by_its_dotted_name(
    inside: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside.write("acme_tools_a/__init__.py", "")
    inside.write("acme_tools_a/texts.py", plain("shout", "allowed"))
    registry = get_registry()
    assert registry.resolve("acme_tools_a.texts.shout") is None
    monkeypatch.setenv("STRANDS_CUSTOM_TOOL_ALLOWLIST", "acme_tools_a.texts.shout, no.such.thing")
    registry.refresh()
    assert "acme_tools_a.texts.shout" in registry.get_allowlist()
    assert text_of(registry.load("acme_tools_a.texts.shout")) == "allowed"
    assert ["no.such" in problem.reason for problem in registry.problems] == [True]


def test_a_tool_can_be_registered_at_run_time_and_only_once(inside: Project) -> None:
    @tool(spec={"name": "made_here", "inputSchema": {"type": "object", "properties": {}}})
    def made_here() -> str:
        return "made"

    registry = get_registry()
    registry.register(made_here)
    assert registry.load("made_here") is made_here
    with pytest.raises(ToolError, match="already"):
        registry.register(made_here)
    inside.write("tools/_hidden.py", plain("by_spec", "spec"))
    registry.register(ToolSpec(id="by_spec", module_path="strands_cli.tools.echo", callable_name="echo"))
    assert registry.load("by_spec").id == "by_spec"


def test_what_was_registered_at_run_time_outlives_a_refresh_until_it_is_taken_back(inside: Project) -> None:
    @tool
    def made_here() -> str:
        """Made here."""
        return "made"

    registry = get_registry()
    registry.register(made_here)
    registry.refresh()
    assert registry.load("made_here") is made_here
    with pytest.raises(ToolError, match="it comes from strands-cli"):
        registry.unregister("echo")
    registry.unregister("made_here")
    assert registry.get("made_here") is None
    registry.refresh()
    assert registry.get("made_here") is None


# --- what changes while a program runs --------------------------------------------------------------------

EDITED = """
from strands_cli import tool
IMPORT

@tool(version="VERSION")
def greet() -> str:
    \"\"\"Greet.\"\"\"
    return WORD
"""


def edited(word: str, version: str = "1.0.0", imports: str = "") -> str:
    return EDITED.replace("WORD", word).replace("VERSION", version).replace("IMPORT", imports)


def test_an_edited_tool_is_loaded_again_after_a_refresh(inside: Project) -> None:
    registry = get_registry()
    for word in ("aa", "bb", "cc"):  # of one size, within one second
        inside.write("tools/greet.py", edited(repr(word)))
        registry.refresh()
        assert text_of(registry.load("greet")) == word
    inside.write("tools/new.tmp", edited("'renamed'")).replace(inside.root / "tools/greet.py")
    registry.refresh()
    assert text_of(registry.load("greet")) == "renamed"
    (inside.root / "tools/greet.py").unlink()
    registry.refresh()
    assert registry.get("greet") is None


@pytest.mark.parametrize(
    ("helper", "imports"),
    [
        ("tools/_words.py", "from ._words import word"),
        ("tools/_words.py", "from . import _words\nword = _words.word"),
        ("tools/_phrases.py", "from tools._phrases import word"),
        ("wording.py", "from wording import word"),
        ("phrasing/__init__.py", "import phrasing\nword = phrasing.word"),
    ],
)
def test_a_module_that_a_tool_imports_counts_as_part_of_it(
    helper: str, imports: str, inside: Project
) -> None:
    inside.write("tools/greet.py", edited("word()", imports=imports))
    registry = get_registry()
    for word in ("aa", "bb"):
        inside.write(helper, f"def word():\n    return {word!r}\n")
        registry.refresh()
        assert text_of(registry.load("greet")) == word


def test_a_module_that_was_missing_is_found_once_it_is_there(inside: Project) -> None:
    inside.write("tools/greet.py", edited("word()", imports="from ._greetings import word"))
    registry = get_registry()
    registry.refresh()
    with pytest.raises(ToolError, match="No module named"):
        registry.load("greet")
    inside.write("tools/_greetings.py", "def word():\n    return 'there'\n")
    registry.refresh()
    assert text_of(registry.load("greet")) == "there"


def test_an_edit_that_leaves_the_dates_of_a_file_alone_counts_within_a_tick_of_the_clock(
    inside: Project,
) -> None:
    registry, tried = get_registry(), 0
    for number in range(20):
        inside.write(f"tools/greet_{number}.py", edited("WORD", imports=f"from ._words_{number} import WORD"))
    registry.refresh()
    for number in range(20):
        info = registry.require(f"./tools/greet_{number}.py")
        helper = inside.write(f"tools/_words_{number}.py", "WORD = 'aa'\n")
        with helper.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            memory[8:10] = b"xx"  # the first such write is dated, the next one is not
            before = helper.stat()
            registry.load(info)
            is_young = time.time_ns() - before.st_ctime_ns < 10_000_000
            memory[8:10] = b"bb"
            is_same = helper.stat().st_ctime_ns == before.st_ctime_ns
        if is_young and is_same:
            tried += 1
            registry.refresh()
            assert text_of(registry.load(info)) == "bb"
    if not tried:
        pytest.skip("This machine is too slow, or dates every write.")


def test_what_is_kept_of_deleted_tools_is_forgotten(inside: Project) -> None:
    registry = get_registry()
    file = inside.write("tools/greet.py", edited("'good'"))
    registry.refresh()
    info = registry.require("greet")
    registry.load(info)
    file.unlink()
    registry.refresh()
    assert not registry.has_loaded(info)
    inside.write("tools/greet.py", "def greet(:\n")
    registry.refresh()
    assert registry.get("greet") is None


def test_a_tool_keeps_its_state_where_nothing_has_changed(inside: Project) -> None:
    inside.write("tools/greet.py", edited("str(COUNT.append(1) or len(COUNT))", imports="COUNT = []"))
    registry = get_registry()
    registry.refresh()
    assert text_of(registry.load("greet")) == "1"
    registry.refresh()
    assert text_of(registry.load("greet")) == "2"


def test_a_call_in_flight_ends_on_the_version_that_it_began_with(inside: Project) -> None:
    inside.write("tools/greet.py", edited("'old'"))
    registry = get_registry()
    registry.refresh()
    held = registry.load("greet")
    inside.write("tools/greet.py", edited("'new'"))
    registry.refresh()
    assert text_of(registry.load("greet")) == "new"
    assert text_of(held) == "old"


@pytest.mark.parametrize(
    ("broken", "line", "why"),
    [
        ("def greet(:\n", 1, "Syntax error"),
        ("TOOL_SPEC = {'name': 'greet'}\n", 1, "it has no inputSchema"),
        (edited("'new'", imports="import nowhere_at_all"), 3, "No module named 'nowhere_at_all'"),
        (edited("'new'", version="1.1.0", imports="1 / 0"), 3, "ZeroDivisionError"),
    ],
)
def test_a_file_that_is_broken_keeps_its_last_good_version_and_is_reported(
    broken: str, line: int, why: str, inside: Project
) -> None:
    inside.write("tools/greet.py", edited("'good'"))
    registry = get_registry()
    registry.refresh()
    registry.load("greet")
    inside.write("tools/greet.py", broken)
    for _ in range(2):
        registry.refresh()
        assert text_of(registry.load("greet")) == "good"
        (problem,) = registry.problems
        assert (problem.file.endswith("greet.py"), problem.line) == (True, line)
        assert why in problem.reason
        assert "Until then, greet stays as it was last loaded." in problem.remediation
    inside.write("tools/greet.py", edited("'better'"))
    registry.refresh()
    assert text_of(registry.load("greet")) == "better"
    assert registry.problems == []


# --- tools that are not there -----------------------------------------------------------------------------


def test_a_tool_whose_file_is_refused_is_answered_with_file_line_and_cause(inside: Project) -> None:
    inside.write("tools/greet.py", "x = 1\ndef greet(:\n")
    inside.write("tools/words.py", plain("shout").replace('"type": "object"', '"type": "array"'))
    inside.write("tools/family/__init__.py", "TOOL_SPECS = [1]\n")
    registry = get_registry()
    registry.refresh()
    for reference, place, why in [
        ("greet", "greet.py:2", "Syntax error"),
        ("greet@1.0.0", "greet.py:2", "Syntax error"),
        ("tools.greet", "greet.py:2", "Syntax error"),
        ("./tools/greet.py", "greet.py:2", "Syntax error"),
        ("shout", "words.py:1", "not of type object"),
        ("family", "__init__.py:1", "neither a ToolSpec nor a dictionary"),
    ]:
        with pytest.raises(ToolError) as caught:
            registry.require(reference)
        assert caught.value.code == "unavailable"
        assert str(caught.value).startswith(f"Failed to load tool '{reference}': ")
        assert why in str(caught.value)
        assert place in str(caught.value)
        assert caught.value.hint
    with pytest.raises(ToolError) as caught:
        registry.require("weather")
    assert caught.value.code == "unknown_tool"
    assert "Some tools cannot be used: 'strands tool check' shows why." in caught.value.hint


def test_a_file_with_two_tools_names_the_references_to_each(inside: Project) -> None:
    two = "from strands_cli import tool\n@tool\ndef one() -> int: ...\n@tool\ndef two() -> int: ...\n"
    inside.write("deco.py", two)
    with pytest.raises(ToolError, match="The file has 2 tools") as caught:
        get_registry().require("./deco.py")
    assert caught.value.hint == "Name one of them: ./deco.py:one, ./deco.py:two."
    with pytest.raises(ToolError, match="The file has no tool 'tow'") as caught:
        get_registry().require("./deco.py:tow")
    assert caught.value.hint == "Did you mean 'two'?"
    assert get_registry().require("./deco.py:two").id == "two"


@pytest.mark.parametrize("version", ["1.0.0", "0.3.0"])
def test_a_tool_that_a_native_one_hides_is_an_error_and_names_the_reference_that_reaches_it(
    version: str, inside: Project
) -> None:
    mine = (
        f"from strands_cli import tool\n@tool(version='{version}')\ndef echo() -> str:\n    return 'mine'\n"
    )
    inside.write("tools/echo.py", mine)
    registry = get_registry()
    registry.refresh()
    assert registry.resolve("echo") == "strands_cli.tools.echo"
    assert text_of(registry.load("./tools/echo.py")) == "mine"
    (problem,) = registry.problems
    assert problem.severity == "error"
    used = "the one from strands-cli is used, not the one from tools/echo.py"
    assert problem.reason == f"Two tools are named 'echo'; {used}."
    assert problem.remediation == "Give it another name, or refer to it as ./tools/echo.py."
    (hidden,) = registry.shadowed_by("echo")
    assert hidden.warning_in(inside.root / "flows") == (
        "Two tools are named 'echo'; the one from strands-cli is used. "
        "For the one from tools/echo.py, write ../tools/echo.py."
    )
    assert registry.shadowed_by("native:echo") == registry.shadowed_by("echo@1.0.0") == []


def test_what_a_spec_declares_holds_for_the_call(inside: Project) -> None:
    inside.write(
        "tools/slow/__init__.py",
        "from strands_cli.tools.registry import ToolSpec, ToolCategory\n"
        "TOOL_SPECS = ToolSpec(id='slow', version='1.2.0', category=ToolCategory.SYSTEM, timeout_ms=1500,\n"
        "    requires_consent=True, requires={'binaries': ['no-such-program']},\n"
        "    input_schema={'type': 'object', 'properties': {}})\n"
        "def slow(tool): return 'x'\n",
    )
    registry = get_registry()
    registry.refresh()
    made = registry.load("slow")
    assert (made.version, made.category, made.timeout, made.requires_consent) == (
        "1.2.0",
        "system",
        1.5,
        True,
    )
    assert made.requires == {"binaries": ["no-such-program"]}


def test_discovery_leaves_no_trace_of_a_modules_side_effects(project: Project) -> None:
    project.write("tools/loud.py", "open('trace.txt', 'w').close()\nprint('loud')\n" + plain("loud"))
    for command in (["list-tools"], ["tool", "show", "loud"], ["tool", "check"], ["doctor"]):
        outcome = project.strands(*command)
        assert outcome.exit_code == 0, outcome
        assert not (project.root / "trace.txt").exists()
    assert project.strands("tool", "call", "loud").exit_code == 0
    assert (project.root / "trace.txt").exists()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=2))
def test_versions_are_ordered_by_their_numbers(numbers: list[tuple[int, int, int]]) -> None:
    texts = [".".join(map(str, parts)) for parts in numbers]
    assert sorted(texts, key=version_key) == [".".join(map(str, parts)) for parts in sorted(numbers)]
    assert version_key("1.0.0-rc.2") < version_key("1.0.0-rc.10") < version_key("1.0.0")


def test_importing_the_package_imports_nothing_heavy() -> None:
    program = (
        "import sys; from strands_cli import tool, ToolContext, get_registry; get_registry().list_all();"
        "heavy = {'strands', 'pydantic', 'asyncio', 'httpx', 'boto3', 'mcp'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_context_without_an_agent_says_so() -> None:
    from strands_cli.toolkit.context import ToolContext

    echo = get_registry().load("echo")
    context = ToolContext(echo, {"toolUseId": "t"}, CallContext())
    with pytest.raises(ToolFailed, match="needs an agent"):
        _ = context.agent
    with pytest.raises(ToolFailed, match="no tools are available here"):
        context.call("echo", message="x")
    with pytest.raises(ToolFailed, match="nobody can be asked"):
        context.interrupt("why")


# --- classes and objects ----------------------------------------------------------------------------------

AGENT_TOOL = """
from strands.types.tools import AgentTool
from strands.types._events import ToolResultEvent


class Weather(AgentTool):
    @property
    def tool_name(self):
        return "weather"

    @property
    def tool_type(self):
        return "python"

    @property
    def tool_spec(self):
        properties = {"city": {"type": "string"}}
        schema = {"json": {"type": "object", "properties": properties, "required": ["city"]}}
        return {"name": "weather", "description": "Tell the weather.", "inputSchema": schema}

    async def stream(self, tool_use, invocation_state, **kwargs):
        content = [{"text": f"sunny in {tool_use['input']['city']}"}]
        result = {"toolUseId": tool_use["toolUseId"], "status": "success", "content": content}
        yield ToolResultEvent(result)


class Warmer(Weather):
    pass

"""
NATIVE_CLASS = """
from strands_cli.tools.base import NativeTool

TOOL_SPEC = {"name": "weather", "description": "Tell the weather.", "inputSchema": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


class Weather(NativeTool):
    def execute(self, tool, **kwargs):
        return f"sunny in {tool['input']['city']}"

"""


@pytest.mark.parametrize(
    "text",
    [
        AGENT_TOOL + "__all__ = ['Weather']\n",
        AGENT_TOOL + "weather = Warmer()\n",
        AGENT_TOOL + "weather_tool = Weather()\n__all__ = ['weather_tool', 'Weather']\n",
        NATIVE_CLASS + "__all__ = ['Weather']\n",
        NATIVE_CLASS + "weather = Weather()\n",
    ],
)
def test_a_class_of_tools_and_an_object_of_one_are_tools(text: str, inside: Project) -> None:
    inside.write("tools/forecast.py", text)
    registry = get_registry()
    registry.refresh()
    assert [issue for issue in registry.problems if issue.severity == "error"] == []
    weather = registry.load("weather")
    assert weather.input_schema["required"] == ["city"]
    assert answer_of(weather, city="Ulm") == "sunny in Ulm"
    assert answer_of(weather) == "Invalid input: /city is missing"
    module = next(module for name, module in sys.modules.items() if name.endswith(".forecast"))
    assert {made.id for made in tools_in(module)} == {"weather"}


def test_a_hidden_tool_stays_known_when_others_are_registered_and_taken_back(inside: Project) -> None:
    file = inside.tool("echo", "def echo(message: str):\n    return 'mine'", options="version='1.0.0'")
    registry = get_registry()
    registry.refresh()
    before = [tool.info.file for tool in registry.shadowed]
    assert before == [str(file)]
    registry.register(Tool(id="late", description="D", input_schema={}, invoke=lambda _, __: "x"))
    assert [tool.info.file for tool in registry.shadowed] == before
    registry.unregister("late")
    assert [tool.info.file for tool in registry.shadowed] == before
    assert registry.problems


def test_a_broken_manifest_is_not_the_reason_for_an_unknown_tool_called_plugin(inside: Project) -> None:
    inside.write("plugins/p/plugin.json", "{")
    registry = get_registry()
    registry.refresh()
    with pytest.raises(ToolError, match="Unknown tool: plugin"):
        registry.require("plugin")


@pytest.mark.parametrize("line", ["weather = Weather()", "__all__ = ['Weather']"])
def test_a_tool_that_only_loading_shows_is_listed_with_a_remedy_that_fits(line: str, inside: Project) -> None:
    inside.write("tools/forecast.py", f"{AGENT_TOOL}{line}\n")
    registry = get_registry()
    registry.refresh()
    (problem,) = registry.problems
    assert problem.severity == "warning"
    assert "'strands tool show weather --load' shows its arguments" in problem.remediation
    assert "literal" not in problem.remediation


def answer_of(made: Tool, **sent: Any) -> str:
    result = asyncio.run(call_tool(made, {"toolUseId": "t", "input": sent}))
    return str(result["content"][0]["text"])


def test_a_class_of_tools_that_nobody_makes_is_reported_with_what_to_do(inside: Project) -> None:
    inside.write("tools/forecast.py", AGENT_TOOL)
    registry = get_registry()
    registry.refresh()
    (problem,) = registry.problems
    assert "Make an object of Weather, or write __all__ = ['Weather']." in problem.remediation


def test_a_module_without_a_tool_is_an_error_where_tools_are_wanted() -> None:
    with pytest.raises(ToolError, match="The module empty has no tool"):
        tools_in(ModuleType("empty"))


class Shout(NativeTool):
    TOOL_SPEC: ClassVar[dict[str, Any]] = {
        "name": "shout",
        "description": "Shout.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    }

    def execute(self, tool: dict[str, Any], **kwargs: Any) -> str:
        return str(tool["input"]["text"]).upper()


class Yell(Shout):
    TOOL_SPEC: ClassVar[dict[str, Any]] = {**Shout.TOOL_SPEC, "name": "yell"}


@sdk_decorator
def twice(n: int) -> int:
    """Double a number."""
    return 2 * n


def test_every_form_of_tool_can_be_registered(inside: Project) -> None:
    space: dict[str, Any] = {"__name__": "here"}
    exec(AGENT_TOOL, space)
    registry = get_registry()
    registry.register(space["Weather"], Shout, Yell(), twice)
    assert answer_of(registry.load("weather"), city="Ulm") == "sunny in Ulm"
    assert answer_of(registry.load("shout"), text="hi") == answer_of(registry.load("yell"), text="hi") == "HI"
    assert answer_of(registry.load("twice"), n="21") == "42"


class NoSpec(NativeTool):
    def execute(self, tool: dict[str, Any], **kwargs: Any) -> str:
        return ""


class NeedsMore(NoSpec):
    def __init__(self, more: str) -> None: ...


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (42, "42 is not a tool"),
        ("echo", "'echo' is not a tool"),
        (NoSpec, "NoSpec has no TOOL_SPEC"),
        (NoSpec(), "NoSpec has no TOOL_SPEC"),
        (NeedsMore, r"NeedsMore\(\) failed: TypeError"),
    ],
)
def test_what_cannot_be_registered_is_refused_with_the_reason(
    value: object, why: str, inside: Project
) -> None:
    with pytest.raises(ToolError, match=why) as caught:
        get_registry().register(value)
    assert caught.value.hint


def test_a_spec_may_leave_its_schema_to_the_function(inside: Project) -> None:
    inside.write(
        "tools/family/__init__.py",
        "from strands_cli.tools.registry import ToolSpec\n"
        "TOOL_SPECS = [ToolSpec(id='anything'), ToolSpec(id='repeat', version='2.0.0')]\n"
        "def anything(tool, **kwargs):\n    return sorted(tool['input'])\n"
        "def repeat(text: str, times: int = 2):\n    '''Repeat a text.'''\n    return text * times\n",
    )
    registry = get_registry()
    registry.refresh()
    assert registry.problems == []
    anything, repeat = registry.require("anything"), registry.require("repeat")
    assert anything.input_schema == {"type": "object"}
    assert (repeat.description, repeat.version) == ("Repeat a text.", "2.0.0")
    loaded: Any = registry.load("anything")
    assert loaded.input_schema == anything.input_schema
    assert loaded({"toolUseId": "t", "input": {"b": 1, "a": 2}})["content"] == [{"json": ["a", "b"]}]
    loaded = registry.load("repeat")
    assert loaded.input_schema == repeat.input_schema
    assert loaded({"toolUseId": "t", "input": {"text": "ab"}})["content"] == [{"text": "abab"}]


@pytest.mark.parametrize("name", ["echo", "http_request", "python_exec", "file_operations", "data_tools"])
def test_every_native_module_and_family_exports_its_specs(name: str) -> None:
    package = import_module(f"strands_cli.tools.{name}")
    specs: list[ToolSpec] = package.TOOL_SPECS
    assert [spec.id for spec in specs] == [
        info.id for info in get_registry().list_all() if name in (info.id, info.family)
    ]
    for spec in specs:
        module = import_module(spec.module_path)
        assert spec in module.TOOL_SPECS
        declared = getattr(module, f"{spec.id.upper()}_SPEC", None) or module.TOOL_SPEC
        assert spec.input_schema == bare_schema(declared["inputSchema"])
    with pytest.raises(AttributeError, match=f"module 'strands_cli.tools.{name}' has no attribute 'nothing'"):
        package.nothing  # noqa: B018


def test_a_native_tool_needs_no_entry_elsewhere_and_no_exception_from_the_linter() -> None:
    root = Path(__file__).parents[2]
    settings = (root / "pyproject.toml").read_text("utf-8")
    assert not [info.id for info in get_registry().list_all() if f"tools.{info.id}" in settings]
    plan = (
        '"""Shout."""\n\nfrom typing import Any\n\nTOOL_SPEC = {"name": "shout", "inputSchema": {}}\n\n\n'
        'def shout(tool: dict[str, Any], **kwargs: Any) -> dict[str, Any]:\n    return tool["input"]\n'
    )
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--stdin-filename",
        "src/strands_cli/tools/shout.py",
        "-",
    ]
    done = subprocess.run(command, cwd=root, input=plan, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


FORMS = {
    "decorated": (
        "from strands_cli import tool\n\n"
        '@tool(version="1.0.0")\ndef decorated(n: int = 1) -> int:\n    """Count."""\n    return n\n'
    ),
    "module": plain("module"),
    "foreign": 'from strands import tool\n\n@tool\ndef foreign(n: int) -> int:\n    """Count."""\n    return n\n',
    "listed": (
        "from strands_cli.tools import registry\n\n"
        'TOOL_SPECS = [registry.ToolSpec(id="listed", description="d", timeout=5, '
        'input_schema={"type": "object", "properties": {}})]\n\n'
        "def listed(tool, **kwargs):\n    return 'ok'\n"
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_loaded_tool_is_made_and_its_schemas_are_compiled_once(name: str, project: Project) -> None:
    file = project.write(f"tools/{name}.py", FORMS[name])
    program = project.write(
        "count.py",
        "import sys\n"
        "from strands_cli import get_registry\n"
        "from strands_cli.schema import validator\n"
        "from strands_cli.toolkit.contract import Tool\n"
        "codes = [Tool.__post_init__.__code__, validator._compile_schema.__code__]\n"
        "seen = []\n"
        "registry = get_registry()\n"
        "sys.setprofile(lambda frame, event, _: seen.append(frame.f_code) if event == 'call' else None)\n"
        "made = registry.load(sys.argv[1])\n"
        "assert registry.load(sys.argv[1]) is made\n"
        "sys.setprofile(None)\n"
        "schemas = 1 if made.output_schema is None else 2\n"
        "print([seen.count(code) for code in codes] == [1, schemas])\n",
    )
    for reference in (name, str(file)):
        command = [sys.executable, str(program), reference]
        done = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=True)
        assert done.stdout == "True\n"


@pytest.mark.parametrize("name", ["echo", "file_read", "current_time", "grep", "web_fetch"])
def test_a_native_tool_is_found_in_our_package_without_its_family(name: str) -> None:
    info = get_registry().get_by_import_path(f"strands_cli.tools.{name}")
    assert info is not None
    assert (info.id, info.source) == (name, "native")
