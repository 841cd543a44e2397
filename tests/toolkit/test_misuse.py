"""What hostile or careless tools and callers do: the answer is still a coded result, and nothing leaks."""

import asyncio
import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from strands_cli import CallContext, ToolContext, ToolFailed, as_tool, call_tool, fallback, fan_out, tool
from strands_cli.errors import ToolError
from strands_cli.settings import load_settings
from strands_cli.toolkit.results import error_of
from tests.projects import Project
from tests.toolkit import isolated_tools
from tests.toolkit.test_call import ask, code_of, recorder, spec


class Unprintable:
    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class BadModel:
    def model_dump(self, mode: str) -> Any:
        raise LookupError("no dump")


class Loud(Exception):
    def __str__(self) -> str:
        raise SystemExit(4)


class OwnFailure(ToolFailed):
    def __init__(self) -> None:
        pass


UNTELLABLE = {
    "a number of 5,000 digits": 10**5000,
    "a model inside that fails": {"x": BadModel()},
    "a model that fails": BadModel(),
    "an empty block": {"status": "success", "content": [{}]},
    "an unknown block": {"status": "success", "content": [{"foo": {1}}]},
    "an image that is none": {"status": "success", "content": [{"image": None}]},
    "an image without anything": {"status": "success", "content": [{"image": {}}]},
    "an image without a source": {"status": "success", "content": [{"image": {"format": "png"}}]},
    "an image of text": {
        "status": "success",
        "content": [{"image": {"format": "png", "source": {"bytes": "abc"}}}],
    },
    "a document without bytes": {
        "status": "success",
        "content": [{"document": {"format": "pdf", "name": "a", "source": {"bytes": b""}}}],
    },
    "NaN in a tuple": (1.0, float("nan")),
    "infinity in a tuple deep inside": {"rows": [("a", (float("inf"),))]},
    "NaN in a set": {float("nan")},
}


@pytest.mark.parametrize("name", UNTELLABLE)
def test_a_value_that_cannot_be_told_is_the_tools_fault(name: str) -> None:
    @tool(spec=spec(), blocking=False)
    def probe() -> object:
        return UNTELLABLE[name]

    assert code_of(ask(probe)) == "output_invalid"


@pytest.mark.parametrize(
    "error",
    [
        ToolFailed(ValueError("x")),
        ToolFailed(None),
        ToolFailed("x", hint=5),  # type: ignore[arg-type]
        ToolFailed("x", details=[{"a": object()}]),
        OwnFailure(),
        Loud(),
    ],
)
def test_a_mistake_in_an_error_does_not_hide_the_error(error: BaseException) -> None:
    @tool(spec=spec(), blocking=False)
    def probe() -> None:
        raise error

    result = ask(probe)
    assert code_of(result) in ("failed", "crashed")
    json.dumps(result)


@pytest.mark.long
def test_an_error_does_not_fill_the_models_context() -> None:
    probe, _ = recorder({"xs": {"type": "array", "items": {"type": "integer"}}})
    started = time.process_time()
    result = ask(probe, {"xs": ["a"] * 50_000})
    assert len(json.dumps(result)) < 20_000
    error = error_of(result)  # type: ignore[arg-type]
    assert error is not None
    assert len(error["details"]) + error["details_omitted"] == 50_000
    told = error["message"].count("must be an integer")
    assert error["message"].endswith(f"and {50_000 - told} more")
    assert ask(probe, {"xs": ["1"] * 50_000})["status"] == "success"
    assert time.process_time() - started < 20

    @tool(spec=spec())
    def shout() -> None:
        raise ToolFailed("z" * 10**6)

    assert len(json.dumps(ask(shout))) < 20_000

    @tool(spec=spec())
    def itemize() -> None:
        raise ToolFailed("x", details=[{"a": "z" * 100_000}] * 50)

    error = error_of(ask(itemize))  # type: ignore[arg-type]
    assert error is not None
    assert len(json.dumps(error)) < 20_000
    assert error["details"]
    assert len(error["details"]) + error["details_omitted"] == 50


def test_a_block_with_several_kinds_of_content_becomes_several() -> None:
    @tool(spec=spec())
    def probe() -> Any:
        return {"status": "success", "content": [{"text": "one", "json": {"n": 1}, "type": "text"}]}

    assert ask(probe)["content"] == [{"text": "one"}, {"json": {"n": 1}}]


@pytest.mark.parametrize("kind", ["text", "json"])
def test_the_limit_is_for_all_blocks_of_an_answer_together(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    blocks = [{kind: "x" * 100} for _ in range(1999)]

    @tool(spec=spec(), max_output=5000)
    def probe() -> Any:
        return {"status": "success", "content": [{"text": "first"}, *blocks]}

    content = ask(probe)["content"]
    assert len(json.dumps(content)) < 6000
    (file,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert file.read_text().count("x" * 100) == 1999
    assert str(file) in json.dumps(content)


def test_a_listener_or_a_permission_that_fails_is_not_the_calls_trouble() -> None:
    def broken(_event: object) -> None:
        raise RuntimeError("listener")

    async def unsure(_tool: object, _arguments: object) -> None:
        raise RuntimeError("permit")

    probe, seen = recorder({})
    assert ask(probe, context=CallContext(emit=broken))["status"] == "success"
    assert code_of(ask(probe, context=CallContext(permit=unsure))) == "denied"
    assert len(seen) == 1


def test_the_calls_own_id_is_on_every_answer() -> None:
    @tool(spec=spec())
    def probe(tool: Any) -> Any:
        return {"toolUseId": "OTHER", "status": "success", "content": [{"text": "a"}]}

    assert ask(probe)["toolUseId"] == "t1"


def test_a_body_cannot_change_what_the_caller_sent() -> None:
    @tool(spec=spec({"xs": {"type": "array"}, "d": {"type": "object"}}, additionalProperties=True))
    def probe(tool: Any) -> str:
        tool["input"]["xs"].append("INJECTED")
        tool["input"]["d"]["z"] = object()
        tool["input"]["new"] = 1
        return "done"

    sent = {"xs": [1], "d": {"a": {}}}
    ask(probe, sent)
    assert sent == {"xs": [1], "d": {"a": {}}}


def test_an_async_generator_that_never_waits_is_answered_at_its_deadline() -> None:
    @tool(spec=spec(), timeout=0.3)
    async def probe() -> Any:
        while True:
            yield 1

    started = time.monotonic()
    assert code_of(ask(probe)) == "timeout"
    assert time.monotonic() - started < 5


def test_a_long_answer_with_an_image_keeps_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    picture = b"\x89PNG\r\n\x1a\n" + b"0" * 200_000

    @tool(spec=spec(), max_output=1000)
    def probe() -> Any:
        return {"status": "success", "content": [{"text": "x" * 5000}, {"image": picture}]}

    text, image = ask(probe)["content"]
    assert len(text["text"]) < 1000
    assert image["image"]["source"]["bytes"] == picture


def test_a_long_answer_that_cannot_be_kept_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nope")

    @tool(spec=spec(), max_output=100)
    def probe() -> str:
        return "x" * 1000

    assert "could not be written" in ask(probe)["content"][0]["text"]


@pytest.mark.parametrize("depth", [250, 900, 5000, None])
@pytest.mark.parametrize("part", [{}, {"$ref": "#"}])
def test_a_dictionary_that_is_too_deep_or_contains_itself_is_refused(
    depth: int | None, part: dict[str, Any]
) -> None:
    probe, seen = recorder({"a": part})
    sent: dict[str, Any] = {}
    if depth is None:
        sent["a"] = sent
    for _ in range(depth or 0):
        sent = {"a": sent}
    assert code_of(ask(probe, sent)) in ("input_malformed", "input_invalid")
    assert code_of(probe({"toolUseId": "t1", "input": sent})) in ("input_malformed", "input_invalid")
    assert seen == []


@pytest.mark.parametrize(
    "text", ['{"a": 1e400}', '{"a": "\\ud800"}', '{"a": ' + "[" * 3000 + "]" * 3000 + "}"]
)
def test_input_that_no_history_could_hold_is_malformed(text: str) -> None:
    probe, seen = recorder({"a": {}})
    assert code_of(ask(probe, text)) == "input_malformed"
    assert seen == []


@pytest.mark.parametrize(
    "text", ["12345678901234567890.5", "0.1000000000000000055511151231257827", "007", "٥"]
)
def test_what_a_coercion_would_lose_is_refused(text: str) -> None:
    probe, _ = recorder({"a": {"type": "number"}})
    assert code_of(ask(probe, {"a": text})) == "input_invalid"


def test_a_value_that_fits_several_alternatives_of_one_is_explained() -> None:
    probe, _ = recorder({"a": {"oneOf": [{"type": "integer"}, {"type": "number"}, {"type": "string"}]}})
    error = error_of(ask(probe, {"a": 5}))  # type: ignore[arg-type]
    assert error is not None
    assert error["details"][0]["expected"] == "exactly one alternative to fit"


def test_isolated_bodies_take_and_give_numbers_of_any_size() -> None:
    big = 2**70
    result = ask(isolated_tools.same, {"value": {"n": big, "s": "😀"}})
    assert result["content"] == [{"json": {"n": big, "s": "😀"}}]


def test_a_tool_without_arguments_can_be_composed() -> None:
    @tool
    def now() -> str:
        return "noon"

    @tool
    def ok(a: int = 1) -> int:
        return a

    assert ask(fan_out(ok, now), {"a": 2})["content"] == [{"json": {"ok": 2, "now": "noon"}}]
    assert ask(fallback(now, ok), {"a": 2})["content"] == [{"text": "noon"}]


def test_bodies_that_call_tools_do_not_wait_for_each_others_threads(tmp_path: Path) -> None:
    @tool
    def inner() -> str:
        return "inner"

    @tool(timeout=10)
    def outer(context: ToolContext) -> str:
        time.sleep(0.1)
        return str(context.call("inner"))

    (tmp_path / "strands.toml").write_text("threads = 1")
    context = CallContext(settings=load_settings(tmp_path), resolve=lambda _: inner)

    async def many() -> list[Any]:
        return await asyncio.gather(*(call_tool(outer, {"toolUseId": str(n)}, context) for n in range(5)))

    assert [result["content"] for result in asyncio.run(many())] == [[{"text": "inner"}]] * 5


def test_a_call_inside_a_call_ends_with_it() -> None:
    ended: list[bool] = []

    @tool
    async def inner() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(True)

    @tool(timeout=0.2)
    def outer(context: ToolContext) -> Any:
        return context.call("inner")

    assert code_of(ask(outer, context=CallContext(resolve=lambda _: inner))) == "timeout"
    deadline = time.monotonic() + 5
    while not ended and time.monotonic() < deadline:
        time.sleep(0.02)
    assert ended == [True]


def test_plain_wrappers_partials_and_callable_objects_are_tools() -> None:
    def logged(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return wrapper

    @tool
    @logged
    async def waits(n: int) -> int:
        return n

    @tool
    @logged
    def counts(n: int) -> Any:
        yield "half"
        yield n

    class Adder:
        def __call__(self, n: int) -> int:
            return n + 1

    def add(m: int, n: int) -> int:
        return m + n

    assert ask(waits, {"n": 1})["content"] == [{"text": "1"}]
    assert ask(counts, {"n": 2})["content"] == [{"text": "2"}]
    assert ask(tool(name="adder")(Adder()), {"n": 1})["content"] == [{"text": "2"}]
    assert ask(tool(name="add_one")(functools.partial(add, 1)), {"n": 1})["content"] == [{"text": "2"}]


def make_async(function: Any) -> Any:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def wait_for(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(function(*args, **kwargs))

    return wrapper


def collect(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return list(function(*args, **kwargs))

    return wrapper


def collect_async(function: Any) -> Any:
    @functools.wraps(function)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        return [item async for item in function(*args, **kwargs)]

    return wrapper


def announce(function: Any) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        yield "about to begin"
        yield function(*args, **kwargs)

    return wrapper


def plain(n: int) -> int:
    return n + 1


async def waiting(n: int) -> int:
    await asyncio.sleep(0)
    return n + 1


def yielding(n: int) -> Any:
    yield n
    yield n + 1


async def yielding_async(n: int) -> Any:
    yield n
    yield n + 1


@pytest.mark.parametrize(
    ("wrap", "function", "content"),
    [
        (make_async, plain, {"text": "2"}),
        (make_async, waiting, {"text": "2"}),
        (make_async, yielding, {"text": "2"}),
        (wait_for, waiting, {"text": "2"}),
        (collect, yielding, {"json": [1, 2]}),
        (collect_async, yielding_async, {"json": [1, 2]}),
        (announce, plain, {"text": "2"}),
    ],
)
def test_a_wrapper_that_changes_the_kind_of_a_function_is_taken_for_what_it_is(
    wrap: Any, function: Any, content: dict[str, Any]
) -> None:
    class Classic:
        execute = staticmethod(wrap(lambda use, **_: function(use["input"]["n"])))

        def validate_inputs(self, _inputs: dict[str, Any]) -> tuple[bool, str]:
            return True, ""

    classic_spec = spec({"n": {"type": "integer"}})
    made = tool(name="probe")(wrap(function))
    assert ask(made, {"n": 1})["content"] == [content]
    assert made({"toolUseId": "t1", "input": {"n": 1}})["content"] == [content]
    assert ask(as_tool(Classic(), classic_spec), {"n": 1})["content"] == [content]


@pytest.mark.parametrize(
    "options",
    [{"timeout": "5"}, {"max_output": "10"}, {"version": 1}, {"annotations": ["x"]}, {"retries": 2.5},
     {"timeout": float("nan")}, {"inputSchema": "x"}],
)  # fmt: skip
def test_an_option_of_another_type_is_refused_with_its_place(options: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match=r"test_misuse\.py"):

        @tool(**options)
        def probe() -> None:
            pass


@pytest.mark.parametrize(
    ("kind", "default"),
    [("integer", True), ("number", float("nan")), ("array", (1, 2)), (["string", "null"], "x")],
)
def test_a_default_that_python_takes_for_the_type_is_accepted(kind: Any, default: Any) -> None:
    recorder({"n": {"type": kind, "default": default}})


def test_a_default_of_another_type_and_a_parameter_of_another_name_are_refused() -> None:
    with pytest.raises(ToolError, match="default of 'n'"):
        recorder({"n": {"type": "integer", "default": "abc"}})
    with pytest.raises(ToolError, match="does not fit") as refused:

        @tool(spec=spec({"x": {"type": "integer"}}, required=["x"]))
        def probe(xx: int) -> None:
            pass

    assert "have the same names" in refused.value.hint

    @tool(spec=spec({"x": {"type": "integer"}}, required=["x"]), context=True)
    def fine(x: int, tool_context: Any) -> str:
        return str(tool_context.tool_use["toolUseId"])

    assert ask(fine, {"x": 1})["content"] == [{"text": "t1"}]


def test_consent_that_cannot_be_read_from_the_file_is_still_asked_for(project: Project) -> None:
    project.write(
        "tools/hidden.py",
        "from strands_cli import tool\n"
        "TOOL_SPEC = {'name': 'hidden', 'inputSchema': {'type': 'object', 'properties': {}}}\n"
        "def _options(): return {'requires_consent': True}\n"
        "@tool(spec=TOOL_SPEC, **_options())\ndef hidden() -> str:\n    return 'ran'\n",
    )
    outcome = project.strands("tool", "call", "hidden", "--json")
    assert outcome.json["error"]["code"] == "consent_required"


def test_a_module_that_exits_when_it_is_imported_is_a_failure_to_load(project: Project) -> None:
    project.tool("quits", "def quits(tool): pass\nraise SystemExit(5)")
    outcome = project.strands("tool", "call", "quits", "--json")
    assert outcome.exit_code == 18
    assert "SystemExit: 5" in outcome.json["error"]["message"]
    assert project.strands("tool", "check", "--load", "--json").exit_code == 3


def test_a_callable_in_a_packages_init_can_be_allowed(project: Project) -> None:
    project.write(
        "acme_b/__init__.py", "def top(word: str) -> str:\n    'Shouts.'\n    return word.upper()\n"
    )
    allowed = {"STRANDS_CUSTOM_TOOL_ALLOWLIST": "acme_b.top"}
    assert project.strands("tool", "call", "acme_b.top", "word=hi", **allowed).out == "HI\n"


@pytest.mark.parametrize("text", ["http = 5", 'workspace = ["a\\u0000b"]', "timeout = nan"])
def test_odd_settings_are_told_as_such(project: Project, text: str) -> None:
    project.write("strands.toml", text)
    outcome = project.strands("tool", "call", "echo", "message=hi", "--json")
    assert outcome.exit_code == 3, outcome
    assert outcome.json["error"]["code"] == "invalid_file"
    listed = project.strands("list-tools", "--json")
    assert listed.exit_code == 0, listed
    assert listed.json["problems"][0]["file"].endswith("strands.toml")


def run_in_shell(project: Project, command: str) -> subprocess.CompletedProcess[str]:
    full = command.replace("strands ", f"{sys.executable} -m strands_cli ", 1)
    return subprocess.run(
        ["bash", "-c", full],
        cwd=project.root,
        env=project.environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_closed_and_full_streams_are_told_without_a_traceback(project: Project) -> None:
    closed = run_in_shell(project, "strands tool call echo - <&-")
    assert (closed.returncode, "Traceback" in closed.stderr) == (2, False)
    for command in ("tool call echo message=hi", "list-tools", "list-tools --json", "--help", "--version"):
        full = run_in_shell(project, f"strands {command} > /dev/full")
        assert full.returncode == 12, (command, full)
        assert full.stderr == "error: No space left on device: standard output\n"
        unread = run_in_shell(project, f"strands {command} | true; exit ${{PIPESTATUS[0]}}")
        assert (unread.returncode, unread.stderr) == (0, "")
    gone = run_in_shell(project, "cd $(mktemp -d) && rmdir $PWD && strands list-tools --json")
    assert gone.returncode == 2, gone
    assert json.loads(gone.stdout)["error"]["code"] == "usage"


def test_a_tool_that_closes_standard_output_does_not_lose_its_result(project: Project) -> None:
    project.tool("shuts", "def shuts(tool):\n    sys.stdout.close()\n    return 'still told'")
    assert project.strands("tool", "call", "shuts").out == "still told\n"


def test_an_interrupted_async_call_ends_without_noise(project: Project) -> None:
    project.tool("waits", "async def waits(tool):\n    print('on', flush=True)\n    await asyncio.sleep(30)")
    with subprocess.Popen(
        [sys.executable, "-m", "strands_cli", "tool", "call", "waits", "--json"],
        cwd=project.root, env=project.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        assert child.stderr is not None
        assert child.stderr.readline() == "on\n"
        time.sleep(0.3)
        child.send_signal(2)
        out, err = child.communicate(timeout=20)
    assert child.returncode == 130
    assert json.loads(out)["error"]["code"] == "interrupted"
    assert err.strip() == ""


def test_a_removed_current_directory_does_not_end_an_isolated_call(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    program = (
        "import asyncio, os; from strands_cli import call_tool; from tests.toolkit.isolated_tools import same\n"
        "os.chdir(os.environ['GONE']); os.rmdir(os.environ['GONE'])\n"
        "print(asyncio.run(call_tool(same, {'toolUseId': 't', 'input': {'value': {}}}))['status'])"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "GONE": str(gone), "PYTHONPATH": str(root)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout in ("success\n", "error\n"), done.stderr


def test_a_property_beside_the_keywords_of_a_schema_is_refused() -> None:
    """JSON Schema ignores it there, so the tool would accept anything."""
    spec = {"name": "probe", "description": "d", "inputSchema": {"json": {"dir": {"type": "string"}}}}
    with pytest.raises(ToolError, match="'dir' is a property where a keyword belongs"):

        @tool(spec=spec)
        def probe(**arguments: Any) -> str:
            return str(arguments)


def test_annotations_of_a_schema_that_hold_objects_are_accepted() -> None:
    noted = {"type": "object", "x-note": {"type": "string"}, "default": {"type": "a"}}
    other = {"type": "string", "ui": {"description": "A box"}, "errorMessage": {"type": "must be text"}}
    schema = {
        "type": "object",
        "properties": {"a": noted, "b": other},
        "examples": [{"type": "b"}],
        "errorMessage": {"type": "must be an object", "properties": {"a": "is wrong"}},
    }

    @tool(spec={"name": "probe", "description": "d", "inputSchema": {"json": schema}})
    def probe(a: dict[str, Any], b: str = "") -> str:
        return str(a)

    assert ask(probe, {})["content"] == [{"text": "{'type': 'a'}"}]
