"""Static discovery: real files in a temporary directory, read and never run."""

import ast
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_cli.errors import Issue
from strands_cli.toolkit.info import ToolCategory, ToolInfo
from strands_cli.tools._discovery import Discovered
from strands_cli.tools._discovery.checking import tool_schema_issues
from strands_cli.tools._discovery.scan import NO_CACHE, Cache, scan_directory
from strands_cli.tools._discovery.static import SourceFile, SourceFiles, Unread
from strands_cli.tools._discovery.tool_files import read_tools
from strands_cli.tools.sources.modules import NOT_TOOLS

NATIVE = Path(__file__).parents[2] / "src" / "strands_cli" / "tools"

SPEC = """
TOOL_SPEC = {
    "name": "greet",
    "description": "Greets somebody",
    "inputSchema": {"json": {"properties": {"name": {"type": "string"}}, "required": ["name"]}},
}
"""
GREET = SPEC + "\ndef greet(tool, **kwargs):\n    return 'hi'\n"


class Tools:
    """A `tools` directory in a project, and what discovery reads there."""

    def __init__(self, root: Path) -> None:
        self.root = root / "tools"
        self.cache = Cache(root / "cache")
        self.root.mkdir(parents=True)

    def write(self, name: str, text: str | bytes = GREET) -> Path:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
        return file

    def scan(self, cache: Cache = NO_CACHE, package: str = "tools") -> Discovered:
        return scan_directory(self.root, package=package, source="project", origin="", cache=cache)

    def settle(self) -> None:
        """Lets the files become older than the time that a change may go unnoticed."""
        time.sleep(0.03)

    def read(self, text: str, name: str = "greet.py") -> Discovered:
        self.write(name, text)
        return self.scan()

    def only(self, text: str, name: str = "greet.py") -> ToolInfo:
        reading = self.read(text, name)
        assert reading.issues == (), reading.issues
        (info,) = reading.infos
        return info

    def refused(self, text: str, name: str = "greet.py") -> Issue:
        reading = self.read(text, name)
        assert reading.infos == ()
        (issue,) = reading.issues
        assert issue.file == str(self.root / name)
        assert issue.severity == "error"
        assert issue.remediation
        return issue


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(tmp_path)


def ids(reading: Discovered) -> list[str]:
    return [info.id for info in reading.infos]


# --- What is read -----------------------------------------------------------------------------------------


def test_a_spec_beside_a_function_is_a_tool(tools: Tools) -> None:
    info = tools.only(GREET)
    assert (info.id, info.description, info.version) == ("greet", "Greets somebody", "0.0.0")
    assert (info.module_path, info.callable_name, info.family) == ("tools.greet", "greet", "greet")
    assert info.input_schema == {"properties": {"name": {"type": "string"}}, "required": ["name"]}
    assert (info.source, info.origin) == ("project", "tools/greet.py")
    assert (info.file, info.line) == (str(tools.root / "greet.py"), 8)


def test_the_decorator_says_what_a_listing_shows(tools: Tools) -> None:
    options = (
        'spec=TOOL_SPEC, version="2.1.0", category="http", timeout=300, requires_consent=True, '
        'deprecated=True, replaced_by="hello", requires={"httpx": ">=0.27", "binaries": ["jq"]}, '
        'output_schema={"type": "string"}, family="people", blocking=False, effects=compute()'
    )
    info = tools.only(f"from strands_cli import tool\n{SPEC}\n@tool({options})\nasync def greet(name): ...\n")
    assert (info.version, info.category, info.timeout_ms) == ("2.1.0", ToolCategory.HTTP, 300_000)
    assert (info.requires_consent, info.deprecated, info.replaced_by) == (True, True, "hello")
    assert info.requires == {"httpx": ">=0.27", "binaries": ["jq"]}
    assert (info.output_schema, info.family, info.line) == ({"type": "string"}, "people", 10)


@pytest.mark.parametrize(
    "callable_text",
    [
        "async def greet(tool, **kwargs): ...",
        "class greet: ...",
        "greet = partial(other, 1)",
        "from elsewhere import greet",
        "from elsewhere import *",
        "try:\n    from fast import greet\nexcept ImportError:\n    def greet(tool): ...",
        "def __getattr__(name): ...",
    ],
)
def test_whatever_may_be_a_callable_of_the_name_will_do(tools: Tools, callable_text: str) -> None:
    assert tools.only(f"{SPEC}\n{callable_text}\n").callable_name == "greet"


def test_a_module_may_hold_several_tools_each_with_its_spec(tools: Tools) -> None:
    reading = tools.read("""
        import strands_cli
        from strands_cli.toolkit.decorator import tool as make
        BASE = {"type": "object"}
        @make(spec={"name": "one", "inputSchema": BASE})
        def one(): ...
        SECOND = dict_like = {"name": "my-second", "inputSchema": {"json": {**BASE, "properties": {}}}}
        @strands_cli.tool(spec=SECOND)
        def second(): ...
    """)
    assert [(info.id, info.callable_name, info.line) for info in reading.infos] == [
        ("one", "one", 6),
        ("my-second", "second", 9),
    ]
    assert reading.issues == ()
    assert reading.infos[1].input_schema == {"type": "object", "properties": {}}


HTTP_TOOL = '''
"""HTTP request tool implementation.

This module-based tool follows the official Strands SDK pattern with explicit
TOOL_SPEC definition and matching function. Compatible with both strands-cli
and direct Strands Agent usage.

Reference: https://strandsagents.com/latest/documentation/docs/user-guide/concepts/tools/python-tools/
"""

from typing import Any
import httpx

# 1. Tool Specification (Strands SDK standard)
TOOL_SPEC = {
    "name": "http_request",
    "description": "Execute HTTP requests with timeout and retry logic.",
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "url": {
                    "type": "string",
                    "format": "uri",
                    "description": "The URL to request"
                },
                "method": {
                    "type": "string",
                    "enum": ["GET", "POST", "PUT", "DELETE", "PATCH"],
                    "description": "HTTP method",
                    "default": "GET"
                },
                "headers": {
                    "type": "object",
                    "description": "Optional HTTP headers"
                },
                "json_data": {
                    "type": "object",
                    "description": "Optional JSON body"
                },
                "timeout_ms": {
                    "type": "integer",
                    "description": "Request timeout in milliseconds",
                    "default": 30000
                }
            },
            "required": ["url"]
        }
    }
}

# 2. Tool Function (Strands SDK standard)
def http_request(tool: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    """Execute an HTTP request.

    Args:
        tool: Tool invocation object with toolUseId and input
        **kwargs: Additional context (unused in module tools)

    Returns:
        ToolResult dict with status, content, and optional toolUseId
    """
    try:
        tool_use_id = tool.get("toolUseId", "")
        tool_input = tool.get("input", {})

        # Extract parameters
        url = tool_input.get("url")
        method = tool_input.get("method", "GET").upper()
        headers = tool_input.get("headers", {})
        json_data = tool_input.get("json_data")
        timeout_ms = tool_input.get("timeout_ms", 30000)

        # Validate
        if not url:
            return {
                "toolUseId": tool_use_id,
                "status": "error",
                "content": [{"text": "Missing required 'url' parameter"}]
            }

        if method not in ("GET", "POST", "PUT", "DELETE", "PATCH"):
            return {
                "toolUseId": tool_use_id,
                "status": "error",
                "content": [{"text": f"Unsupported HTTP method: {method}"}]
            }

        # Execute
        timeout = timeout_ms / 1000  # Convert to seconds
        with httpx.Client(timeout=timeout) as client:
            response = client.request(
                method=method,
                url=url,
                headers=headers,
                json=json_data
            )

        # Return success with response details
        return {
            "toolUseId": tool_use_id,
            "status": "success",
            "content": [
                {
                    "json": {
                        "status_code": response.status_code,
                        "headers": dict(response.headers),
                        "body": response.text,
                    }
                }
            ]
        }

    except Exception as e:
        return {
            "toolUseId": tool.get("toolUseId", ""),
            "status": "error",
            "content": [{"text": f"HTTP request failed: {str(e)}"}]
        }

# 3. Registry Metadata (strands-cli specific)
from strands_cli.tools.registry import ToolSpec, ToolCategory

TOOL_SPECS = ToolSpec(
    id="http_request",
    module_path="strands_cli.tools.http_request.tool",
    callable_name="http_request",
    family="http_request",
    category=ToolCategory.HTTP,
    description="Execute HTTP requests with timeout and retry.",
    version="1.0.0",
    requires_consent=False,
    input_schema=TOOL_SPEC["inputSchema"],
)
'''  # the plan, 2.5, as it stands there
HTTP_INIT = '''
"""HTTP request tool module."""

from strands_cli.tools.http_request.tool import http_request, TOOL_SPECS

__all__ = ["http_request", "TOOL_SPECS"]
'''


def test_the_plans_http_request_family_is_read_as_it_stands(tools: Tools) -> None:
    tools.write("http_request/tool.py", HTTP_TOOL)
    tools.write("http_request/__init__.py", HTTP_INIT)
    tools.write("http_request/schema.py", "INPUT_SCHEMA = {}")
    tools.write("http_request/tests.py", "raise SystemExit")
    reading = tools.scan(package="strands_cli.tools")
    (info,) = reading.infos
    assert reading.issues == ()
    assert (info.id, info.family, info.version) == ("http_request", "http_request", "1.0.0")
    assert info.full_import_path == "strands_cli.tools.http_request.tool.http_request"
    assert info.legacy_path == "strands_tools.http_request.http_request"
    assert info.category is ToolCategory.HTTP
    assert info.description == "Execute HTTP requests with timeout and retry."
    assert info.input_schema is not None
    assert info.input_schema["required"] == ["url"]
    assert Path(info.file).name == "tool.py"
    assert "def http_request(" in HTTP_TOOL.splitlines()[info.line - 1]


ML_INIT = '''
"""ML tools module."""

from strands_cli.tools.ml_tools.embeddings import embeddings, EMBEDDINGS_SPEC
from strands_cli.tools.ml_tools.classifier import classifier, CLASSIFIER_SPEC

TOOL_SPECS = [EMBEDDINGS_SPEC, CLASSIFIER_SPEC]

__all__ = ["embeddings", "classifier", "TOOL_SPECS"]
'''  # the plan, 6.1, as it stands there
EMBEDDINGS = """
from strands_cli.tools.registry import ToolSpec, ToolCategory
from .schema import TEXT
EMBEDDINGS_SPEC = ToolSpec(
    id="embeddings", family="ml_tools", category=ToolCategory.COMPUTE, description="Embeds",
    version="1.2.0", input_schema={"json": {"type": "object", "properties": {"text": TEXT}}},
)
def embeddings(tool, **kwargs): ...
"""
CLASSIFIER = """
from strands_cli import tool
CLASSIFIER_SPEC = {"name": "classifier", "description": "Classifies", "inputSchema": {"type": "object"}}
@tool(spec=CLASSIFIER_SPEC, version="0.3.0")
def classifier(): ...
"""


def ml_tools(tools: Tools) -> None:
    tools.write("ml_tools/__init__.py", ML_INIT)
    tools.write("ml_tools/embeddings.py", EMBEDDINGS)
    tools.write("ml_tools/classifier.py", CLASSIFIER)
    tools.write("ml_tools/schema.py", 'TEXT = {"type": "string"}')


@pytest.mark.parametrize("package", ["strands_cli.tools", "tools", "anything.else_"])
def test_the_plans_ml_family_is_read_through_its_siblings(tools: Tools, package: str) -> None:
    ml_tools(tools)
    reading = tools.scan(package=package)
    assert reading.issues == ()
    embeddings, classifier = reading.infos
    assert embeddings.module_path == f"{package}.ml_tools.embeddings"
    assert (embeddings.version, embeddings.category) == ("1.2.0", ToolCategory.COMPUTE)
    assert embeddings.input_schema == {"type": "object", "properties": {"text": {"type": "string"}}}
    assert (classifier.id, classifier.version, classifier.family) == ("classifier", "0.3.0", "ml_tools")
    assert Path(classifier.file).name == "classifier.py"
    names = {Path(file).name for file in reading.files if Path(file).exists()}
    assert names == {"__init__.py", "embeddings.py", "classifier.py", "schema.py"}


def test_two_versions_of_one_tool_stand_side_by_side(tools: Tools) -> None:
    reading = tools.read(f"""{SPEC}
from strands_cli.tools import registry
TOOL_SPECS = [
    registry.ToolSpec(id="greet", version="1.0.0", deprecated=True, replaced_by="greet@2.0.0"),
    registry.ToolSpec(id="greet", version="2.0.0", callable_name="greet_warmly", description="Warmly"),
]
def greet(tool, **kwargs): ...
@registry.tool
def greet_warmly(name: str): ...
""")
    assert reading.issues == ()
    assert [
        (info.version, info.deprecated, info.callable_name, info.description) for info in reading.infos
    ] == [
        ("1.0.0", True, "greet", "Greets somebody"),
        ("2.0.0", False, "greet_warmly", "Warmly"),
    ]


LISTED = "from strands_cli.tools.registry import ToolSpec\nTOOL_SPECS = [{}]\n"


def test_a_spec_may_name_a_callable_that_is_elsewhere(tools: Tools) -> None:
    spec = "ToolSpec(id='ask', module_path='acme.asking', callable_name='run')"
    info = tools.only(LISTED.format(spec))
    assert (info.full_import_path, info.input_schema) == ("acme.asking.run", None)
    assert (Path(info.file).name, info.line) == ("greet.py", 2)


@pytest.mark.parametrize(
    "argument", ["id=f()", "id='greet', callable_name=f()", "id='greet', module_path=f()"]
)
def test_a_listed_tool_whose_identity_is_computed_is_unread(tools: Tools, argument: str) -> None:
    (info,) = tools.read(LISTED.format(f"ToolSpec({argument}, version='1.0.0')")).infos
    assert (info.id, info.version) == ("greet", "1.0.0")
    assert "is computed by a call of f()" in info.unread


def test_an_item_that_cannot_be_read_leaves_the_others(tools: Tools) -> None:
    reading = tools.read(GREET + LISTED.format("f(), ToolSpec(id='greet', version='1.0.0')"))
    assert [(info.id, info.version) for info in reading.infos] == [("greet", "1.0.0")]
    assert [issue.severity for issue in reading.issues] == ["warning"]
    assert "An item of TOOL_SPECS is computed by a call of f()" in reading.issues[0].reason


def test_a_listed_tool_whose_file_is_broken_is_refused_with_that_files_line(tools: Tools) -> None:
    tools.write("people/__init__.py", LISTED.format("ToolSpec(id='greet', module_path='x.people.greet')"))
    tools.write("people/greet.py", "x = 1\n(\n")
    (issue,) = tools.scan().issues
    assert (Path(issue.file).name, issue.line) == ("greet.py", 2)


def test_a_spec_beside_a_decorated_function_of_its_name_is_its_spec(tools: Tools) -> None:
    info = tools.only(f"from strands import tool\n{SPEC}@tool(context=True)\ndef greet(name: int): ...\n")
    assert (info.inferred, info.description) == (False, "Greets somebody")
    assert info.input_schema is not None
    assert info.input_schema["required"] == ["name"]


def test_a_family_without_a_list_is_the_sum_of_its_modules(tools: Tools) -> None:
    tools.write("people/__init__.py", "from .greet import TOOL_SPEC, greet\n")
    tools.write("people/greet.py")
    tools.write("people/wave.py", "from strands import tool\n@tool\ndef wave() -> str: ...\n")
    tools.write("people/schema.py", "X = 1")
    tools.write("people/tests.py", "raise SystemExit")
    tools.write("people/test_wave.py", "raise SystemExit")
    tools.write("people/_private.py", "raise SystemExit")
    reading = tools.scan()
    assert reading.issues == ()
    assert [(info.id, info.family, info.origin) for info in reading.infos] == [
        ("greet", "people", "tools/people/greet.py"),
        ("wave", "people", "tools/people/wave.py"),
    ]


def test_what_a_family_defines_in_its_init_counts_too(tools: Tools) -> None:
    info = tools.only(GREET, "greet/__init__.py")
    assert (info.module_path, info.family, info.origin) == ("tools.greet", "greet", "tools/greet/__init__.py")


def test_a_family_may_rename_what_it_imports(tools: Tools) -> None:
    tools.write("people/__init__.py", "from .impl import run as greet, TOOL_SPECS\n")
    tools.write(
        "people/impl.py",
        "from strands_cli.tools.registry import ToolSpec\ndef run(tool): ...\n"
        'TOOL_SPECS = ToolSpec(id="greet", input_schema={})\n',
    )
    (info,) = tools.scan().infos
    assert (info.module_path, info.callable_name) == ("tools.people.impl", "run")


INFERRED = '''
    from __future__ import annotations
    from typing import Literal, Optional
    from strands_cli import tool, ToolContext

    LIMIT = 10

    @tool
    def search(
        query: str, context: ToolContext, agent, limit: int = LIMIT, ratio: "float" = -0.5,
        deep: bool = False, tags: list[str] | None = None, sizes: Optional[dict[str, int]] = None,
        mode: Literal["fast", "exact"] = "fast", options: dict = {}, *, names: list,
    ) -> str:
        """Search the archive
        for documents.

        More about it.

        Args:
            query: What to look for,
                in plain words.
            limit (int): At most this many.

        Returns:
            ratio: not a parameter
        """
'''


def test_a_decorated_functions_schema_is_read_from_simple_annotations(tools: Tools) -> None:
    info = tools.only(INFERRED)
    assert (info.id, info.description, info.inferred) == ("search", "Search the archive for documents.", True)
    null = {"type": "null"}
    assert info.input_schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for, in plain words."},
            "limit": {"type": "integer", "description": "At most this many.", "default": 10},
            "ratio": {"type": "number", "default": -0.5},
            "deep": {"type": "boolean", "default": False},
            "tags": {"anyOf": [{"type": "array", "items": {"type": "string"}}, null], "default": None},
            "sizes": {
                "anyOf": [{"type": "object", "additionalProperties": {"type": "integer"}}, null],
                "default": None,
            },
            "mode": {"type": "string", "enum": ["fast", "exact"], "default": "fast"},
            "options": {"type": "object", "default": {}},
            "names": {"type": "array"},
        },
        "required": ["query", "names"],
    }


NOT_SIMPLE = ["x: Path", "x: 'a b'", "*x: int", "x: int = f()", "x, /", "x: 1", "x, x"]
NOT_SIMPLE += ["x: tuple[int]", "x: list[Thing]", "x: Annotated[int]"]
NOT_SIMPLE += [
    f"x: Annotated[int, {note}]"
    for note in ("Field(ge=1)", "Meta(ge=f())", "Meta(**y)", "Meta(pattern='(')", "1")
]


@pytest.mark.parametrize("parameters", NOT_SIMPLE)
def test_a_schema_that_is_not_simple_is_known_on_load(tools: Tools, parameters: str) -> None:
    info = tools.only(f"from strands import tool\n@tool\ndef f({parameters}): ...\n")
    assert (info.id, info.inferred, info.input_schema, info.unread) == ("f", True, None, "")


@pytest.mark.parametrize(
    ("imports", "decorator"),
    [
        ("from strands import tool", "@tool"),
        ("from strands import tool as t", "@t()"),
        ("import strands", "@strands.tool"),
        ("import strands as s", "@s.tools.decorator.tool"),
        ("import strands_cli", "@strands_cli.tool(version='1.0.0')"),
        ("from strands_cli.toolkit.decorator import tool", "@tool"),
        ("from ._ours import make", "@make"),
        (
            "try:\n    from strands_cli import tool\nexcept ImportError:\n    from strands import tool",
            "@tool",
        ),
    ],
)
def test_the_decorator_is_known_under_any_alias(tools: Tools, imports: str, decorator: str) -> None:
    tools.write("_ours.py", "from strands import tool as make")
    assert tools.only(f"{imports}\n@other\n{decorator}\ndef f() -> str: ...\n").id == "f"


def test_the_decorator_may_give_name_description_and_schema(tools: Tools) -> None:
    info = tools.only("""
        from strands import tool
        @tool(name="ask", description="Asks", inputSchema={"json": {"type": "object"}}, context=True, new=1)
        def f(tool_context, x): ...
        @tool
        def dropped(): ...
        del dropped
    """)
    assert (info.id, info.callable_name, info.description, info.inferred) == ("ask", "f", "Asks", False)


def test_the_parameter_of_the_context_is_not_in_the_schema(tools: Tools) -> None:
    reading = tools.read("""
        from strands import tool
        @tool(context=True)
        def f(tool_context, x: int): ...
        @tool(context="ctx")
        def g(ctx, x: int): ...
    """)
    assert [list((info.input_schema or {})["properties"]) for info in reading.infos] == [["x"], ["x"]]


SIGNATURES = [
    "",
    "a: str",
    "a: int, b: float, c: bool",
    "a: list, b: dict = {}, c: list[int] = [1]",
    "a: dict[str, Any], b: dict[str, list[str]]",
    "a: Optional[str] = None, b: int | None = 3, c: str = None, d: Union[str, None] = 'x'",
    "a: Literal['x', 'y'], b: Literal[1, 2] = 2, c: Optional[Literal['z']] = None",
    "a: 'str', b: 'list[str] | None' = None",
    "a: List[str], b: Dict[str, int], *, c: int, d: int = 1",
    "context: ToolContext, a: int",
    "agent, a: int = 1",
    "a, b: Any, c: int | str, d: Literal[1, 'x'], **others: int",
    "a: Annotated[int, Meta(ge=1, le=5)] = 3, b: Annotated[list[str], 'All', msgspec.Meta(min_length=1)] = []",
    "a: Annotated[str, Meta(pattern='^x', extra_json_schema={'examples': ['x']})] | None = None",
]


@pytest.mark.parametrize("signature", SIGNATURES)
def test_the_schema_that_is_read_is_the_one_that_the_loaded_tool_has(tools: Tools, signature: str) -> None:
    docstring = '"""Greets\n    warmly.\n\n    Args:\n        a: The first\n            of all.\n    """'
    text = (
        "from typing import Annotated, Any, Dict, List, Literal, Optional, Union\n"
        "import msgspec\nfrom msgspec import Meta\n"
        "from strands_cli import tool, ToolContext\n"
        f"@tool\ndef greet({signature}) -> str:\n    {docstring}\n"
    )
    info = tools.only(text)
    loaded: dict[str, Any] = {}
    exec(compile(text, "greet.py", "exec"), loaded)
    assert info.input_schema == loaded["greet"].input_schema
    assert info.description == loaded["greet"].description


def test_decorated_methods_are_no_tools_by_themselves(tools: Tools) -> None:
    (issue,) = tools.read("from strands import tool\nclass A:\n    @tool\n    def f(self): ...\n").issues
    assert issue.severity == "warning"
    assert "need an instance" in issue.reason


def test_every_tool_of_this_package_is_read() -> None:
    reading = scan_directory(NATIVE, package="strands_cli.tools", source="native", origin="x", skip=NOT_TOOLS)
    assert reading.issues == ()
    assert {"echo", "calculator", "file_read", "http_request"} <= set(ids(reading))
    assert [info.id for info in reading.infos if info.unread or not info.input_schema] == []
    assert [issue for info in reading.infos for issue in tool_schema_issues(info)] == []


# --- Nothing is run ---------------------------------------------------------------------------------------


def test_side_effects_at_import_leave_no_trace(tools: Tools, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    effect = f"open({str(trace)!r}, 'w').close()\n"
    tools.write("greet.py", effect + GREET)
    tools.write("family/__init__.py", effect + "from .a import TOOL_SPECS\n")
    tools.write("family/a.py", effect + "TOOL_SPECS = []\n")
    reading = tools.scan()
    assert ids(reading) == ["greet"]
    assert [tool_schema_issues(info) for info in reading.infos] == [[]]
    assert not trace.exists()
    assert not list(tools.root.rglob("__pycache__"))
    assert not any(name.startswith("tools.") for name in sys.modules)


# --- What cannot be read is listed, with line and reason --------------------------------------------------

MODULE = """
CHANGED = {}
CHANGED["x"] = 1
if something:
    DECIDED = {}
from elsewhere.x import FOREIGN
from ..up import OUTSIDE
from ._broken import BROKEN
from ._lacking import LACKING
def function(): ...
EMPTY = []
UNPACKED, B = f()
for LOOPED in (): ...
GROWN = []
GROWN.append(1)
ROUND = ROUND
TWICE = {}
TWICE = {"x": 1}
AUGMENTED = {}
AUGMENTED |= {}
DELETED = {}
del DELETED["x"]
SHARED = {}
def share():
    global SHARED
FILLED = {}
def fill():
    FILLED["x"] = 1
BEHIND = {}
ALIAS = BEHIND
ALIAS["x"] = 1
READ = {}
READ.update(x=1)
def innocent(EMPTY):
    EMPTY["x"] = 1
"""
SPEC_LINE = MODULE.count("\n") + 3
UNREAD = [
    (
        "make_schema()",
        0,
        "'inputSchema' is computed by a call of make_schema(), which only running the module",
    ),
    ("{'json': {'properties': p.q()}}", 0, "'inputSchema.json.properties' is computed by a call of p.q()"),
    ("[f][0]()", 0, "'inputSchema' is computed by an expression, which"),
    ("NOWHERE", 0, "'inputSchema' uses 'NOWHERE', which the file neither assigns nor imports"),
    ("X if Y else Z", 0, "'inputSchema' is computed by an expression"),
    ("{k: 1 for k in K}", 0, "'inputSchema' is computed by an expression"),
    ("os.environ", 0, "'inputSchema' uses 'os', which the file neither assigns"),
    ("f()['x']", 0, "'inputSchema' is computed by a call of f()"),
    ("f().x", 0, "'inputSchema' is computed by a call of f()"),
    ("{**f()}", 0, "'inputSchema' is computed by a call of f()"),
    ("{**EMPTY}", 0, "'inputSchema' is computed by an expression"),
    ("{'a': [*1]}", 0, "'inputSchema.a' is computed by an expression"),
    ("{'a': 'x' * 9}", 0, "'inputSchema.a' is computed by an expression"),
    ("{'a': 9 ** 9}", 0, "'inputSchema.a' is computed by an expression"),
    ("{'a': not 1}", 0, "'inputSchema.a' is computed by an expression"),
    ("{'a': 5 * 60}", 0, "'inputSchema.a' is computed by an expression"),
    ("{'a': f'{1:x}'}", 0, "'inputSchema.a' is computed by an expression"),
    ("{'a': {1}}", 0, "'inputSchema.a' is computed by an expression"),
    ("{'a': 3 - 1}", 0, "'inputSchema.a' is computed by an expression"),
    ("{'a': f'{1}'}", 0, "'inputSchema.a' is computed by an expression"),
    ("{'a': -EMPTY}", 0, "'inputSchema.a' is computed by an expression"),
    ("{'a': [*{}]}", 0, "'inputSchema.a' is computed by an expression"),
    ("CHANGED", 3, "'inputSchema' uses 'CHANGED', which is set or changed on line 3"),
    ("DECIDED", 5, "'inputSchema' uses 'DECIDED', which is set or changed on line 5"),
    (
        "FOREIGN",
        6,
        "'inputSchema' uses 'FOREIGN', which comes from elsewhere.x, which is not a readable file",
    ),
    ("OUTSIDE", 7, "'inputSchema' uses 'OUTSIDE', which comes from ..up, which is not a readable file"),
    (
        "BROKEN",
        8,
        "'inputSchema' uses 'BROKEN', which comes from ._broken, which is not a readable file",
    ),
    ("LACKING", 9, "'inputSchema' uses 'LACKING', which comes from ._lacking, which does not have 'LACKING'"),
    ("function", 10, "'inputSchema' uses 'function', which is a function or a class"),
    ("EMPTY[0]", 0, "'inputSchema' is computed by an expression"),
    ("EMPTY[:]", 0, "'inputSchema' is computed by an expression"),
    ("{}['x']", 0, "'inputSchema' is computed by an expression"),
    ("{[]: 1}", 0, "'inputSchema' is computed by an expression"),
    ("UNPACKED", 12, "'inputSchema' uses 'UNPACKED', which is set or changed on line 12"),
    ("LOOPED", 13, "'inputSchema' uses 'LOOPED', which is set or changed on line 13"),
    ("GROWN", 15, "'inputSchema' uses 'GROWN', which is set or changed on line 15"),
    ("ROUND", 16, "'inputSchema' uses 'ROUND', which is defined by itself"),
    ("TWICE", 18, "'inputSchema' uses 'TWICE', which is set or changed on line 18"),
    ("AUGMENTED", 20, "'inputSchema' uses 'AUGMENTED', which is set or changed on line 20"),
    ("DELETED", 22, "'inputSchema' uses 'DELETED', which is set or changed on line 22"),
    ("SHARED", 25, "'inputSchema' uses 'SHARED', which is set or changed on line 25"),
    ("FILLED", 28, "'inputSchema' uses 'FILLED', which is set or changed on line 28"),
    ("BEHIND", 31, "'inputSchema' uses 'BEHIND', which is set or changed on line 31"),
    ("READ", 33, "'inputSchema' uses 'READ', which is set or changed on line 33"),
]


@pytest.mark.parametrize(("expression", "line", "reason"), UNREAD)
def test_a_computed_schema_is_listed_as_unread(tools: Tools, expression: str, line: int, reason: str) -> None:
    tools.write("_broken.py", "(")
    tools.write("_lacking.py", "")
    start = '"name": "greet", "description": "Greets"'
    spec = f'TOOL_SPEC = {{\n    {start},\n    "inputSchema": {expression},\n}}\n'
    reading = tools.read(f"{MODULE}{spec}def greet(tool): ...\n")
    (info,), (issue,) = reading.infos, reading.issues
    assert (info.id, info.description, info.input_schema) == ("greet", "Greets", None)
    assert info.unread.startswith(reason)
    assert (issue.severity, Path(issue.file).name) == ("warning", "greet.py")
    assert issue.line == (line or SPEC_LINE)
    assert info.unread in issue.reason


def test_files_that_import_each_other_in_a_circle_end_in_a_reason(tools: Tools) -> None:
    tools.write("_circle.py", "from .greet import SCHEMA\n")
    spec = 'TOOL_SPEC = {"name": "greet", "inputSchema": SCHEMA}\ndef greet(tool): ...\n'
    (info,) = tools.read(f"from ._circle import SCHEMA\n{spec}").infos
    assert info.unread == "'inputSchema' is defined by itself: its imports form a circle"


@pytest.mark.parametrize(
    "text",
    [
        "A0 = [1]\n" + "".join(f"A{n + 1} = [*A{n}, *A{n}]\n" for n in range(60)),
        "A0 = [1]\n" + "".join(f"A{n + 1} = [A{n}, A{n}]\n" for n in range(60)),
        "A0 = 'x'\n" + "".join(f"A{n + 1} = A{n} + A{n}\n" for n in range(60)),
        f"A0 = '{'x' * 200_000}'\n" + "".join(f"A{n + 1} = A{n} + A{n}\n" for n in range(60)),
        "A0 = {'a': 1}\n" + "".join(f"A{n + 1} = {{'x': A{n}, 'y': A{n}}} | A{n}\n" for n in range(60)),
        "A60 = " + "[" * 150 + "]" * 150,
        "A60 = " + "+".join(["1"] * 2000),
        "B0 = 1\n" + "".join(f"B{n + 1} = B{n}\n" for n in range(2000)) + "A60 = B2000",
    ],
)
def test_names_that_double_each_other_are_given_up_soon(tools: Tools, text: str) -> None:
    started = time.process_time()
    spec = 'TOOL_SPEC = {"name": "greet", "inputSchema": {"x": A60}}\ndef greet(tool): ...\n'
    (info,) = tools.read(f"{text}\n{spec}").infos
    assert "'inputSchema.x' is" in info.unread
    assert time.process_time() - started < 10


def test_an_unread_spec_is_listed_under_the_name_of_its_file(tools: Tools) -> None:
    reading = tools.read("TOOL_SPEC = load()\n")
    (info,), (issue,) = reading.infos, reading.issues
    assert (info.id, info.line) == ("greet", 1)
    assert info.unread.startswith("'TOOL_SPEC' is computed by a call of load()")
    assert (issue.severity, issue.line) == ("warning", 1)


@pytest.mark.parametrize("text", ["TOOL_SPECS = load()", "TOOL_SPECS = []\nTOOL_SPECS += load()"])
@pytest.mark.parametrize("name", ["greet.py", "greet/__init__.py"])
def test_an_unread_list_of_specs_is_listed_under_the_name_of_its_file(
    tools: Tools, name: str, text: str
) -> None:
    reading = tools.read(text, name)
    (info,), (issue,) = reading.infos, reading.issues
    assert (info.id, info.module_path) == ("greet", "tools.greet")
    assert "TOOL_SPECS" in info.unread
    assert issue.severity == "warning"


def test_an_unread_list_takes_nothing_from_what_can_be_read(tools: Tools) -> None:
    reading = tools.read(GREET + "TOOL_SPECS = load()\n")
    assert [(info.id, info.unread) for info in reading.infos] == [("greet", "")]
    assert ["TOOL_SPECS is computed by a call of load()" in issue.reason for issue in reading.issues] == [
        True
    ]


def test_a_tool_that_is_made_by_a_call_is_listed_as_unread(tools: Tools) -> None:
    reading = tools.read("from strands_cli import tool\ngreet = tool(version='1.0.0')(print)\n")
    assert [(info.id, bool(info.unread)) for info in reading.infos] == [("greet", True)]


@pytest.mark.parametrize(
    ("decorator", "reason"),
    [
        ("@tool(version=VERSION)", "'version' uses 'VERSION', which the file neither"),
        ("@tool(**options())", "'@tool' is computed by a call of options()"),
        ("@tool(name=f())", "'name' is computed by a call of f()"),
        ("@tool(spec=load())", "'spec' is computed by a call of load()"),
    ],
)
def test_a_computed_argument_of_the_decorator_is_told(tools: Tools, decorator: str, reason: str) -> None:
    (info,) = tools.read(f"from strands_cli import tool\n{decorator}\ndef greet() -> str: ...\n").infos
    assert info.id == "greet"
    assert info.unread.startswith(reason)


VALUES = [
    ("X = {'a': 1} | {'b': [*(1, 2), 3]}", {"a": 1, "b": [1, 2, 3]}),
    ("X = ('a' 'b' + 'c', -1, +2, b'x' + b'y', [1] + [2], (1,) + (2,))", None),
    ("A = B = [1]\nX = A, {'k': B}['k']", ([1], [1])),
    ("from . import _other\nX = _other.SHARED['shared']", True),
    ("from ._other import SHARED as S\nX = {**S, 'more': 1}", {"shared": True, "more": 1}),
    ("import _other as o\nX = o.SHARED", {"shared": True}),
    ("import any.tools._other as o\nX = o.SHARED", {"shared": True}),
    ("from any.tools import _other\nX = _other.SHARED", {"shared": True}),
    ("from tools._deep.inner import DEEP as X", "deep"),
    ("from ._deep import inner\nX = inner.UP", {"shared": True}),
    ("from strands_cli.tools import registry as r\nX = r.ToolCategory.FILE_OPS", "file_ops"),
    ("if __name__ == '__main__':\n    X = 1\nX = 2\nif __name__ == '__main__':\n    X = 3", 2),
    ("def f():\n    X = 1\nX = 2", 2),
    ("X = {}\ndef f(y):\n    y.update(X.get('a'), b=X.copy())", {}),
    ("X = {}\ndef f(X):\n    X.update(a=1)", {}),
    ("X: dict\nX = {}", {}),
]


@pytest.mark.parametrize(("text", "expected"), VALUES)
def test_a_value_is_what_the_module_would_say(tools: Tools, text: str, expected: object) -> None:
    tools.write("_other.py", "SHARED = {'shared': True}\n")
    tools.write("_deep/__init__.py", "")
    tools.write("_deep/inner.py", "from .._other import SHARED as UP\nDEEP = 'deep'\n")
    found = value_in(tools.root, text)
    if expected is None:
        expected = eval(text.removeprefix("X = "))
    assert found == expected


UNDECIDED = [
    "try:\n    X = 1\nexcept* E:\n    X = 2",
    "try:\n    X = 1\nfinally:\n    pass",
    "with a as X: ...",
    "with a:\n    X = 1",
    "while a:\n    X = 1",
    "match a:\n    case 1:\n        X = 1",
    "for a in b:\n    if c:\n        X = 1",
    "X, *Y = 1, 2",
    "X, Y = *a, 1",
    "(X := 1)",
    "X = 1\ndel X",
    "X = {}\ndel X['a']",
    "X = {}\nX.a = 1",
    "X = {}\nX['a']['b'] = 1",
    "X: int",
    "from nowhere import *",
    "from .module import *",
    "A, (X, C) = 1, [2, 3]",
    "X = 1\nX = 2",
    "X = {1, 2}",
    "X = f'{1}'",
    "X = 2 * 3",
    "X = 2 + 3",
    "X = [1][0]",
    "X = {}\nX.update(a=1)",
    "X = {}\nprint(X.get('a'))",
    "X = {'a': {}}\nX.get('a').update(b=1)",
    "X = {'a': {}}\nfor y in X.values():\n    y['b'] = 1",
    "X = {}\nfor Y in X:\n    X[Y] = 1",
    "X = []\nwith a:\n    X += [1]",
    "X = 1\nif a:\n    del X",
    "X = {}\ndef f():\n    global X\n    X = 1",
    "X = {}\ndef f():\n    X['a'] = 1",
    "X = {}\nclass C:\n    X.a = 1",
    "X = {}\ndef f():\n    X['a'].update(b=1)",
    "X = []\ndef f():\n    X.append(1)",
    "X = {}\nY = X\nY['a'] = 1",
    "X = {}\nZ = X\nY = Z\nY['a'] = 1",
    "X = {}\n[X := 1]",
    "from . import X",
    "import X",
    f"from .{'x' * 300} import X",
    "X = registry.ToolSpec(id='a')",
    "from strands_cli.tools.registry import ToolSpec\nX = ToolSpec('a')",
    "from strands_cli.tools.registry import ToolSpec\nX = ToolSpec(**[1])",
]


@pytest.mark.parametrize("text", UNDECIDED)
def test_what_only_running_decides_is_unread(tmp_path: Path, text: str) -> None:
    assert isinstance(value_in(tmp_path, text), Unread)


def test_a_spec_that_is_changed_after_its_assignment_is_unread_and_not_listed_wrongly(tools: Tools) -> None:
    (info,) = tools.read(GREET + 'TOOL_SPEC["description"] = "Something else"\n').infos
    assert (info.id, info.description) == ("greet", "")
    assert info.unread.startswith("'TOOL_SPEC' is set or changed on line 10")


def test_the_docstring_may_be_the_description(tools: Tools) -> None:
    text = '"""Greets."""\nTOOL_SPEC = {"name": "greet", "description": __doc__, "inputSchema": {}}\n'
    assert tools.only(f"{text}def greet(tool): ...\n").description == "Greets."


# --- Every refusal has file, line, reason and remedy ------------------------------------------------------

USES = "from strands_cli import tool\nfrom strands_cli.tools.registry import ToolSpec, ToolCategory\n"
DEF = "def greet(name): ...\n"

REFUSED: list[tuple[str | bytes, int, str]] = [
    ("x = 1\ndef f(:\n", 2, "Syntax error: invalid syntax."),
    ("x = (\n", 1, "Syntax error: '(' was never closed."),
    (b"x = 1\ny = '\xff'\n", 2, "It is not UTF-8: the byte 0xff on line 2 cannot be decoded."),
    (b"# coding: nonsense\n", 1, "nonsense"),
    (b"x = 1\n\0\n", 2, "null bytes"),
    ("x = " + "(" * 1000, 1, "Syntax error: too many nested parentheses."),
    ("# " + "x" * 250_001, 0, "the limit is 250000."),
    (SPEC, 2, "Tool 'greet' is invalid: greet.py has no function 'greet'."),
    (SPEC + "def gret(tool): ...\n", 2, "greet.py has no function 'greet'."),
    (SPEC.replace('"greet"', '"gr-eet"') + DEF, 2, "greet.py has no function 'gr-eet'."),
    (SPEC + "greet = 'hello'\n", 7, "Tool 'greet' is invalid: 'greet' on line 7 is not a function."),
    ("TOOL_SPEC = 1\n" + DEF, 1, "TOOL_SPEC is invalid: it is not a dictionary."),
    ('TOOL_SPEC = {"inputSchema": {}}\n' + DEF, 1, "TOOL_SPEC is invalid: it has no name."),
    ('TOOL_SPEC = {"name": "greet"}\n' + DEF, 1, "TOOL_SPEC is invalid: it has no inputSchema."),
    ('TOOL_SPEC = {\n"name": "greet",\n"inputSchema": 1}\n' + DEF, 3, "it has no inputSchema."),
    ('TOOL_SPEC = {\n"inputSchema": {},\n"name": "a b"}\n' + DEF, 3, "its name 'a b' has characters other"),
    ('TOOL_SPEC = {"inputSchema": {}, "name": "' + "x" * 65 + '"}\n' + DEF, 1, "its name has 65 characters"),
    ('TOOL_SPEC = {"name": "greet",\n"inputSchema": {},\n"input": 1}\n' + DEF, 3, "the unknown key 'input'"),
    ('TOOL_SPEC = {"name": "greet",\n"inputSchema": {"type": "string"}}\n' + DEF, 2, "is not of type object"),
    ('TOOL_SPEC = {"name": "greet",\n"inputSchema": {"a": b"x"}}\n' + DEF, 2, "there is a bytes at /a"),
    (
        'TOOL_SPEC = {"name": "greet",\n"inputSchema": {"a": {1: 2}}}\n' + DEF,
        2,
        "keys are not all strings at /a",
    ),
    (USES + SPEC + "@tool(spec=TOOL_SPEC)\ndef hello(name): ...\n", 4, "has no function 'greet'."),
    (USES + SPEC + "@tool(spec=TOOL_SPEC,\nversion='one')\n" + DEF, 10, "'one' is not a version of the form"),
    (USES + SPEC + "@tool(spec=TOOL_SPEC, version=1)\n" + DEF, 9, "version must be a string."),
    (USES + SPEC + "@tool(spec=TOOL_SPEC, category='htp')\n" + DEF, 9, "there is no category 'htp'."),
    (USES + SPEC + "@tool(spec=TOOL_SPEC, category=ToolCategory.HTPP)\n" + DEF, 9, "no category 'htpp'."),
    (USES + SPEC + "@tool(spec=TOOL_SPEC, requires=['x'])\n" + DEF, 9, "requires must be a dictionary"),
    (USES + SPEC + "@tool(spec=TOOL_SPEC, requires={'x': 'new'})\n" + DEF, 9, "must be a version range"),
    (
        USES + SPEC + "@tool(spec=TOOL_SPEC, timeout=0)\n" + DEF,
        9,
        "timeout must be a number greater than zero.",
    ),
    (USES + SPEC + "@tool(spec=TOOL_SPEC, deprecated='no')\n" + DEF, 9, "deprecated must be True or False."),
    (
        USES + SPEC + "@tool(spec=TOOL_SPEC, family='a b')\n" + DEF,
        9,
        "its family's name 'a b' has characters other",
    ),
    (
        USES + SPEC + "@tool(spec=TOOL_SPEC, output_schema=1)\n" + DEF,
        9,
        "output_schema must be a dictionary.",
    ),
    (USES + SPEC + "@tool(spec=TOOL_SPEC,\nvresion='1.0.0')\n" + DEF, 10, "@tool has no argument 'vresion'."),
    (USES + "@tool(name=7)\n" + DEF, 4, "Tool 7 is invalid: it has no name."),
    (USES + "TOOL_SPECS = [ToolSpec(version='1.0.0')]\n", 3, "A ToolSpec has no id."),
    (USES + "TOOL_SPECS = [ToolSpec(id='greet',\nidd=1)]\n", 4, "ToolSpec has no field 'idd'."),
    (USES + "TOOL_SPECS = [1]\n", 3, "neither a ToolSpec nor a dictionary"),
    (USES + "TOOL_SPECS = [ToolSpec(id=5)]\n", 3, "Tool 5 is invalid: it has no name."),
    (USES + "TOOL_SPECS = [ToolSpec(id='greet', timeout_ms=1.5)]\n" + DEF, 3, "timeout_ms must be a whole"),
    (USES + "TOOL_SPECS = [ToolSpec(id='gret', input_schema={})]\n" + DEF, 3, "has no function 'gret'."),
    (
        USES + "TOOL_SPECS = [ToolSpec(id='a', module_path='tools.gone')]\n",
        3,
        "there is no file for its module",
    ),
    (
        "import os\n",
        1,
        "greet.py has no tool: it needs a TOOL_SPEC and a function of that name, or a function",
    ),
]


@pytest.mark.parametrize(("text", "line", "reason"), REFUSED)
def test_a_refusal_says_where_and_why(tools: Tools, text: str | bytes, line: int, reason: str) -> None:
    tools.write("greet.py", text)
    reading = tools.scan()
    assert reading.infos == ()
    (issue,) = reading.issues
    assert reason in issue.reason
    assert (issue.file, issue.line, issue.severity) == (str(tools.root / "greet.py"), line, "error")
    assert issue.remediation


def test_a_refusal_names_what_was_probably_meant(tools: Tools) -> None:
    assert "'gret'" in tools.refused(SPEC + "def gret(tool): ...\n").remediation
    decorated = f"{USES}{SPEC}@tool(spec=TOOL_SPEC, category='htp')\n{DEF}"
    assert "Did you mean 'http'?" in tools.refused(decorated).remediation
    assert "_greet.py" in tools.refused("import os\n").remediation


def test_a_broken_file_breaks_nothing_beside_it(tools: Tools) -> None:
    tools.write("broken.py", "def (")
    tools.write("greet.py")
    reading = tools.scan()
    assert ids(reading) == ["greet"]
    assert [(Path(issue.file).name, issue.line, issue.column) for issue in reading.issues] == [
        ("broken.py", 1, 5)
    ]


def test_the_same_version_twice_in_a_file_is_refused_once(tools: Tools) -> None:
    one = "ToolSpec(id='greet', version='1.0.0', input_schema={})"
    reading = tools.read(f"{USES}TOOL_SPECS = [{one},\n{one}]\n{DEF}")
    assert ids(reading) == ["greet"]
    (issue,) = reading.issues
    assert issue.line == 4
    assert "version 1.0.0 of it is declared before, at" in issue.reason


def test_a_family_whose_init_is_broken_or_empty_is_told(tools: Tools) -> None:
    tools.write("broken/__init__.py", "(")
    tools.write("broken/greet.py")
    tools.write("empty/__init__.py", "")
    first, second = tools.scan().issues
    assert "Syntax error" in first.reason
    assert "The family 'empty' has no tool" in second.reason
    assert tools.scan().infos == ()


def test_a_directory_of_modules_without_init_is_a_likely_mistake(tools: Tools) -> None:
    tools.write("people/greet.py")
    tools.write("data/notes.txt", "")
    tools.write("tests/test_x.py", "")
    tools.write("more/test_x.py", "")
    (issue,) = tools.scan().issues
    assert (issue.severity, issue.file) == ("warning", str(tools.root / "people"))
    assert "__init__.py" in issue.remediation


def test_a_module_beside_a_package_of_its_name_is_told(tools: Tools) -> None:
    tools.write("greet.py")
    tools.write("greet/__init__.py")
    reading = tools.scan()
    assert ids(reading) == ["greet"]
    assert "Python prefers the package greet/" in reading.issues[0].reason


def test_a_name_that_cannot_be_imported_is_told(tools: Tools) -> None:
    tools.write("my.tool.py")
    tools.write("my.family/__init__.py")
    assert ["a dot in its name" in issue.reason for issue in tools.scan().issues] == [True, True]


def test_files_that_are_not_tools_by_name_are_left_alone(tools: Tools) -> None:
    for name in (
        "_own.py",
        "conftest.py",
        "test_x.py",
        ".hidden.py",
        "notes.txt",
        "__init__.py",
        "skipped.py",
    ):
        tools.write(name, "(")
    tools.write("greet.py")
    skip = frozenset({"skipped"})
    reading = scan_directory(tools.root, package="t", source="s", origin="o", skip=skip)
    assert (ids(reading), reading.issues) == (["greet"], ())


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a user that permissions hold for")
def test_a_file_without_permission_is_told_and_noticed_when_it_gets_it(tools: Tools) -> None:
    file = tools.write("greet.py")
    file.chmod(0)
    (issue,) = tools.scan(tools.cache).issues
    assert "Permission denied" in issue.reason
    file.chmod(0o644)
    assert ids(tools.scan(tools.cache)) == ["greet"]


def test_what_is_no_file_at_all_is_told(tools: Tools) -> None:
    (tools.root / "gone.py").symlink_to(tools.root / "nowhere.py")
    (tools.root / "dir.py").mkdir()
    os.mkfifo(tools.root / "pipe.py")
    first, second, third = tools.scan().issues
    assert "This is not a file" in first.reason
    assert "gone.py not found" in second.reason
    assert "This is not a file" in third.reason


def test_a_directory_that_is_not_there_has_no_tools(tmp_path: Path) -> None:
    def scan(directory: Path) -> Discovered:
        return scan_directory(directory, package="t", source="s", origin="o")

    (tmp_path / "file").touch()
    assert scan(tmp_path / "nowhere") == Discovered()
    assert "Not a directory" in scan(tmp_path / "file").issues[0].reason


# --- What only `tool check` asks --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "signature", "reason"),
    [
        (
            '{"type": "object", "properties": {"a": {"type": "strin"}}}',
            "a=1",
            "its input schema is not a valid JSON",
        ),
        ('{"properties": {"a": {}}}', "*, b: int = 1", "it has no parameter for the property 'a'"),
        ('{"properties": {"a": {}}}', "a", "its parameter 'a' needs a default"),
        ('{"properties": {"a": {}}}', "a, a", "duplicate parameter name: 'a'"),
        ('{"properties": {"a": {}}, "required": ["a"]}', "a, b", "its parameter 'b' is not among"),
        ('{"properties": {"a": {}}}', "a=1, /, *x, b=2, **y", ""),
        ('{"properties": {"a": {}}}', "tool, **kwargs", ""),
        ('{"properties": {"a": {}}}', "context: 'ToolContext', a: int = 1", ""),
        ("{}", "", ""),
    ],
)
def test_a_function_is_held_against_its_schema(
    tools: Tools, schema: str, signature: str, reason: str
) -> None:
    spec = f'TOOL_SPEC = {{"name": "greet", "inputSchema": {schema}}}'
    info = tools.only(f"{USES}{spec}\n@tool(spec=TOOL_SPEC)\ndef greet({signature}): ...\n")
    issues = tool_schema_issues(info)
    assert [reason in issue.reason for issue in issues] == ([True] if reason else [])
    assert [(issue.file, issue.line) for issue in issues] == [(info.file, 5)] * len(issues)


def test_an_output_schema_is_compiled_too(tools: Tools) -> None:
    text = f"{USES}{SPEC}@tool(spec=TOOL_SPEC, output_schema={{'type': 7}})\n{DEF}"
    (issue,) = tool_schema_issues(tools.only(text))
    assert "its output schema is not a valid JSON Schema" in issue.reason


def test_the_decorators_context_is_no_parameter_of_the_schema(tools: Tools) -> None:
    decorator = "@tool(inputSchema={'properties': {'x': {}}, 'required': ['x']}, context='ctx')"
    assert tool_schema_issues(tools.only(f"{USES}{decorator}\ndef greet(x, ctx): ...\n")) == []


@pytest.mark.parametrize(
    "shape", ["{}", "list[{}]", "dict[str, {}]", "Literal[{}]", "list[Literal[{}]]", "int | {}"]
)
@pytest.mark.parametrize("is_text", [True, False])
@pytest.mark.parametrize(
    "head", [f"{USES}@tool\n", "TOOL_SPEC = {'name': 'greet', 'inputSchema': {'properties': {'x': {}}}}\n"]
)
def test_no_annotation_and_no_default_is_evaluated(
    tools: Tools, shape: str, is_text: bool, head: str
) -> None:
    trace = tools.root.parent / "trace"
    call = f"open({str(trace)!r}, 'w')"
    for inner, default in product((call, repr(call)), (call, "1")):
        annotation = shape.format(inner)
        written = repr(annotation) if is_text else annotation
        found = tools.read(f"{head}def greet(x: {written} = {default}) -> {written}: ...\n")
        for info in found.infos:
            tool_schema_issues(info)
    assert not trace.exists()


# --- The cache --------------------------------------------------------------------------------------------


def test_a_second_scan_answers_the_same_from_the_cache(tools: Tools) -> None:
    ml_tools(tools)
    tools.write("greet.py")
    tools.write("broken.py", "(")
    tools.write("unread.py", "TOOL_SPEC = f()")
    tools.settle()
    first, second, plain = tools.scan(tools.cache), tools.scan(tools.cache), tools.scan()
    assert second == first == plain
    assert len(first.infos) == 4


def test_a_number_that_the_cache_cannot_hold_keeps_only_its_own_file_out_of_it(tools: Tools) -> None:
    tools.write("greet.py")
    spec = f"TOOL_SPEC = {{'name': 'large', 'inputSchema': {{'maximum': {10**100}}}}}\n"
    tools.write("large.py", spec + "def large(tool, **kw): ...\n")
    tools.settle()
    tools.scan(tools.cache)
    (file,) = (tools.root.parent / "cache").iterdir()
    assert b"greet.py" in file.read_bytes()
    assert b"large.py" not in file.read_bytes()


HIT = """
import sys
before = set(sys.modules)
from pathlib import Path
from strands_cli.tools._discovery.scan import Cache, scan_directory
root, cache = map(Path, sys.argv[1:])
reading = scan_directory(root, package="tools", source="project", origin="", cache=Cache(cache))
print([info.id for info in reading.infos], "strands_cli.tools._discovery.declarations" in sys.modules)
print(sorted({"importlib.metadata", "hashlib", "pkgutil", "asyncio"} & set(sys.modules) - before))
"""


def test_a_hit_neither_parses_nor_imports_what_would(tools: Tools, tmp_path: Path) -> None:
    ml_tools(tools)
    tools.settle()
    command = [sys.executable, "-c", HIT, str(tools.root), str(tmp_path / "cache")]
    outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    names = "['embeddings', 'classifier']"
    assert outputs == [f"{names} True\n[]\n", f"{names} False\n[]\n"]


def replace_in(file: Path, old: str, new: str) -> None:
    file.write_text(file.read_text().replace(old, new))


CHANGES: dict[str, Callable[[Path], object]] = {
    "an edit": lambda root: replace_in(root / "greet.py", "somebody", "everybody"),
    "an edit of the same size": lambda root: replace_in(root / "greet.py", "somebody", "everyone"),
    "a new file": lambda root: (root / "wave.py").write_text(GREET.replace("greet", "wave")),
    "a deleted file": lambda root: (root / "greet.py").unlink(),
    "a replaced file": lambda root: (root / "new").rename(root / "greet.py"),
    "a sibling": lambda root: replace_in(root / "ml_tools/schema.py", "string", "number"),
    "an init": lambda root: replace_in(root / "ml_tools/__init__.py", "EMBEDDINGS_SPEC, C", "C"),
    "a new module of a family": lambda root: (root / "people/wave.py").write_text(GREET),
    "a sibling that was missing": lambda root: (root / "_late.py").write_text("S = {}"),
    "a deleted sibling": lambda root: (root / "ml_tools/schema.py").unlink(),
    "a new init": lambda root: (root / "plain/__init__.py").write_text(""),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_noticed(tools: Tools, change: str) -> None:
    ml_tools(tools)
    tools.write("greet.py")
    tools.write("new", GREET.replace("Greets", "Hugs"))
    late = 'from ._late import S\nTOOL_SPEC = {"name": "late", "inputSchema": S}\ndef late(t): ...\n'
    tools.write("late.py", late)
    tools.write("people/__init__.py", "")
    tools.write("people/one.py", GREET.replace("greet", "one"))
    tools.write("plain/greet.py")
    tools.settle()
    before = tools.scan(tools.cache)
    CHANGES[change](tools.root)
    after = tools.scan(tools.cache)
    assert after == tools.scan()
    assert (after.infos, after.issues) != (before.infos, before.issues)


def test_an_edit_that_keeps_size_and_date_is_noticed(tools: Tools) -> None:
    file = tools.write("greet.py")
    tools.settle()
    tools.scan(tools.cache)
    status = file.stat()
    file.write_text(GREET.replace("Greets", "Greats"))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    (info,) = tools.scan(tools.cache).infos
    assert info.description.startswith("Greats")


def test_edits_in_quick_succession_are_all_noticed(tools: Tools) -> None:
    for number in range(100, 150):
        tools.write("greet.py", GREET.replace("Greets", f"Greets {number}"))
        (info,) = tools.scan(tools.cache).infos
        assert str(number) in info.description


def cache_file_of(tmp_path: Path) -> Path:
    (file,) = (tmp_path / "cache").iterdir()
    return file


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"\0" * 50,
        lambda data: data[:-1],
        lambda data: data[:4],
        lambda data: data.replace(b"Greets", b"Greats"),
        lambda data: data + b"x",
    ],
)
def test_a_damaged_cache_is_ignored(tools: Tools, tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    tools.write("greet.py")
    tools.settle()
    good = tools.scan(tools.cache)
    file = cache_file_of(tmp_path)
    intact = file.read_bytes()
    file.write_bytes(damage(intact))
    assert tools.scan(tools.cache) == good
    assert file.read_bytes() == intact


def test_a_cache_that_cannot_be_written_is_no_error(tools: Tools, tmp_path: Path) -> None:
    tools.write("greet.py")
    tools.settle()
    (tmp_path / "file").touch()
    (tmp_path / "locked").mkdir(mode=0o500)
    for place in (tmp_path / "file" / "below", tmp_path / "locked" / "below", Path("/dev/null/below")):
        assert ids(tools.scan(Cache(place))) == ["greet"]
        assert ids(tools.scan(Cache(place))) == ["greet"]


def test_a_cache_that_is_a_directory_where_a_file_should_be_is_no_error(tools: Tools, tmp_path: Path) -> None:
    tools.write("greet.py")
    tools.settle()
    tools.scan(tools.cache)
    file = cache_file_of(tmp_path)
    file.unlink()
    file.mkdir()
    assert ids(tools.scan(tools.cache)) == ["greet"]
    assert list((tmp_path / "cache").iterdir()) == [file]


def test_what_msgpack_cannot_hold_is_read_again_each_time(tools: Tools) -> None:
    tools.write("greet.py")
    big = f'TOOL_SPEC = {{"name": "big", "inputSchema": {{"maximum": {10**30}}}}}\n'
    tools.write("big.py", f"{big}def big(tool): ...\n")
    tools.write("odd.py", GREET.replace("greet", "odd").replace("Greets", "\\ud800"))
    tools.settle()
    assert tools.scan(tools.cache) == tools.scan(tools.cache) == tools.scan()


def test_writers_at_the_same_time_leave_a_whole_cache(tools: Tools, tmp_path: Path) -> None:
    for number in range(30):
        tools.write(f"greet{number}.py", GREET.replace("greet", f"greet{number}"))
    tools.settle()
    command = [sys.executable, "-c", HIT, str(tools.root), str(tmp_path / "cache")]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = {run.communicate()[0].partition("]")[0] for run in runs}
    assert len(outputs) == 1
    assert "greet29" in outputs.pop()
    assert cache_file_of(tmp_path).suffix == ".msgpack"
    assert "False" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_cache_does_not_grow_without_end(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    (tmp_path / "cache").mkdir()
    for number in range(300):
        (tmp_path / "cache" / f"{number}.msgpack").touch()
    tools = Tools(tmp_path / "project")
    tools.write("greet.py")
    tools.settle()
    tools.scan(cache)
    assert len(list((tmp_path / "cache").iterdir())) < 256


def test_a_thousand_files_are_listed_quickly_the_second_time(tools: Tools) -> None:
    for number in range(1000):
        tools.write(f"greet{number}.py", GREET.replace("greet", f"greet{number}"))
    tools.settle()
    first = tools.scan(tools.cache)
    started = time.thread_time()
    assert tools.scan(tools.cache) == first
    assert time.thread_time() - started < 0.2
    assert len(first.infos) == 1000


# --- Properties -------------------------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.binary()
    | st.floats(allow_nan=False)
    | st.just(...)
)
literals = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(scalars, inner, max_size=4)
    ),
    max_leaves=20,
)


def value_in(directory: Path, text: str) -> object:
    file = directory / "module.py"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    found = SourceFiles(directory).open(file)
    return found.value("X") if isinstance(found, SourceFile) else found


@given(literals)
def test_the_evaluator_agrees_with_literal_eval(tmp_path: Path, value: object) -> None:
    text = repr(value).replace("inf", "1e999").replace("Ellipsis", "...")
    expected = ast.literal_eval(text)
    found = value_in(tmp_path, f"X = {text}\n")
    assert repr(found) == repr(expected)


names = st.sampled_from(["A", "B", "TOOL_SPEC", "TOOL_SPECS", "greet", "ToolSpec", "tool", "make"])
expressions = st.recursive(
    st.sampled_from(["1", "'x'", "{}", "[]", "f()", "A", "B", "TOOL_SPEC", "{'name': 'greet'}", "..."]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} + {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} | {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"{{'name': {pair[0]}, 'inputSchema': {pair[1]}}}"),
        st.tuples(inner, inner).map(lambda pair: f"[*{pair[0]}, {{**{pair[1]}}}]"),
        st.tuples(inner, inner).map(lambda pair: f"ToolSpec(id={pair[0]}, version={pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"{pair[0]}[{pair[1]}]"),
        inner.map(lambda text: f"({text}).attribute"),
        inner.map(lambda text: f"f'{{{text}}}'" if "'" not in text else text),
    ),
    max_leaves=12,
)
statements = st.one_of(
    st.tuples(names, expressions).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    st.tuples(names, expressions).map(lambda pair: f"{pair[0]} += {pair[1]}"),
    st.tuples(names, names).map(lambda pair: f"from .{pair[0]} import {pair[1]}"),
    st.tuples(names, expressions).map(lambda pair: f"@tool(spec={pair[1]})\ndef {pair[0]}(x): ..."),
    st.tuples(names, expressions).map(
        lambda pair: f"@tool(version={pair[1]}, name=A)\ndef {pair[0]}(x: int): ..."
    ),
    st.just("from strands_cli import tool"),
    st.just("from strands_cli.tools.registry import ToolSpec"),
    st.just("from .module import *"),
)


def survives(directory: Path, source: bytes) -> Discovered:
    file = directory / "module.py"
    file.write_bytes(source)
    reading = read_tools(file, module_path="tools.module", source="project", origin="")
    assert reading.infos or reading.issues
    assert all(issue.file and issue.reason for issue in reading.issues)
    for info in reading.infos:
        tool_schema_issues(info)
    return reading


@given(st.lists(statements, max_size=8).map("\n".join))
def test_no_module_makes_the_reading_fail(tmp_path: Path, source: str) -> None:
    survives(tmp_path, source.encode())


@given(
    st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass"))
)
def test_no_bytes_make_the_reading_fail(tmp_path: Path, source: bytes) -> None:
    survives(tmp_path, source)


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.binary(max_size=3))
def test_no_damage_to_a_good_file_makes_the_reading_fail(
    tmp_path: Path, at: int, to: int, new: bytes
) -> None:
    good = dedent(INFERRED + EMBEDDINGS + CLASSIFIER + GREET).encode()
    start, end = sorted((at % len(good), to % len(good)))
    survives(tmp_path, good[:start] + new + good[min(end, start + 40) :])


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
def test_no_damage_to_the_cache_changes_an_answer(tmp_path: Path, at: int, new: bytes) -> None:
    intact = tmp_path / "intact"
    if not intact.exists():
        tools = Tools(tmp_path)
        tools.write("greet.py")
        tools.settle()
        tools.scan(tools.cache)
        intact.write_bytes(cache_file_of(tmp_path).read_bytes())
    file, data = cache_file_of(tmp_path), intact.read_bytes()
    start = at % len(data)
    file.write_bytes(data[:start] + new + data[start + len(new) :])
    (info,) = scan_directory(
        tmp_path / "tools", package="tools", source="project", origin="", cache=Cache(tmp_path / "cache")
    ).infos
    assert info.description == "Greets somebody"


def test_an_unread_value_says_its_place(tmp_path: Path) -> None:
    unread = value_in(tmp_path, "\nX = f()\n")
    assert isinstance(unread, Unread)
    assert (unread.file, unread.line) == (str(tmp_path / "module.py"), 2)
