"""Our tools, served over stdio to the official client in both eras of the protocol."""

import asyncio
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.mcp.serving import ANY_ERA, BOTH_ERAS, Person, connected, eventually
from tests.projects import Project

ADD = """
from dataclasses import dataclass

from strands_cli import tool


@dataclass
class Sum:
    value: int


@tool(annotations={"readOnlyHint": True})
def add(a: int, b: int = 1) -> Sum:
    "Adds two numbers."
    print("never in the protocol")
    return Sum(a + b)


@tool
def count(text: str) -> int:
    "Counts the letters of a text."
    return len(text)
"""


def error_of(result: Any) -> dict[str, Any]:
    assert result.is_error
    error: dict[str, Any] = result.meta["strands-cli/error"]
    return error


@pytest.mark.asyncio
@ANY_ERA
async def test_tools_are_listed_with_schemas_and_hints(project: Project, mode: str) -> None:
    project.write("tools/numbers.py", ADD)
    async with connected(project, mode=mode) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert {"add", "count", "echo", "file_write"} <= {*listed}
    add = listed["add"]
    assert add.description == "Adds two numbers."
    assert add.input_schema["required"] == ["a"]
    assert add.annotations is not None
    assert add.annotations.read_only_hint is True
    assert add.output_schema is not None
    assert add.output_schema["type"] == "object"
    assert add.output_schema["$defs"]["Sum"]["properties"]["value"]["type"] == "integer"
    assert listed["count"].output_schema == {
        "type": "object",
        "properties": {"result": {"type": "integer"}},
        "required": ["result"],
    }


@pytest.mark.asyncio
@ANY_ERA
async def test_an_answer_is_text_and_data(project: Project, mode: str) -> None:
    project.write("tools/numbers.py", ADD)
    async with connected(project, mode=mode) as client:
        added = await client.call_tool("add", {"a": 2})
        counted = await client.call_tool("count", {"text": "four"})
        echoed = await client.call_tool("echo", {"message": "hi"})
    assert added.structured_content == {"value": 3}
    assert added.content[0].text == '{"value": 3}'  # type: ignore[union-attr]
    assert counted.structured_content == {"result": 4}
    assert (echoed.content[0].text, echoed.structured_content) == ("hi", None)  # type: ignore[union-attr]
    assert "never in the protocol" in (project.root.parent / "serve.log").read_text()


@pytest.mark.asyncio
@ANY_ERA
async def test_a_failure_has_its_code_and_details(project: Project, mode: str) -> None:
    project.write("tools/numbers.py", ADD)
    async with connected(project, mode=mode) as client:
        error = error_of(await client.call_tool("add", {"a": "x"}))
        assert error["code"] == "input_invalid"
        assert error["details"][0]["pointer"] == "/a"
        crashed = await client.call_tool("calculator", {"expression": "1/0"})
        assert crashed.is_error
        with pytest.raises(MCPError, match="Did you mean 'echo'") as unknown:
            await client.call_tool("ehco", {})
    assert unknown.value.error.code == -32602


@pytest.mark.asyncio
@ANY_ERA
async def test_a_tool_that_hangs_is_answered_at_its_deadline(project: Project, mode: str) -> None:
    project.tool("slow", "def slow() -> str:\n    time.sleep(30)", options="timeout=0.2")
    async with connected(project, mode=mode) as client:
        assert error_of(await client.call_tool("slow", {}))["code"] == "timeout"


@pytest.mark.asyncio
@BOTH_ERAS
async def test_consent_is_asked_for_in_the_client(project: Project, mode: str) -> None:
    agreeing, refusing, absent = Person(allow=True), Person(allow=False), Person("decline")
    for person, name in ((agreeing, "agreed"), (refusing, "refused"), (absent, "declined")):
        async with connected(project, mode=mode, person=person) as client:
            result = await client.call_tool("file_write", {"path": f"{name}.txt", "content": "secret plan"})
        assert "file_write" in person.questions[0]
        assert f"{name}.txt" in person.questions[0]
        assert "secret plan" in person.questions[0]
        assert (project.root / f"{name}.txt").exists() == (name == "agreed")
        assert name == "agreed" or error_of(result)["code"] == "denied"
        assert len(person.questions) == 1


@pytest.mark.asyncio
@BOTH_ERAS
async def test_without_somebody_to_ask_a_call_is_refused(project: Project, mode: str) -> None:
    async with connected(project, mode=mode) as client:
        error = error_of(await client.call_tool("file_write", {"path": "a.txt", "content": "x"}))
    assert error["code"] == "consent_required"
    assert "elicitation" in error["hint"]
    async with connected(project, "--yes", mode=mode) as client:
        assert not (await client.call_tool("file_write", {"path": "a.txt", "content": "x"})).is_error
        error = error_of(await client.call_tool("file_write", {"path": ".git/hooks/x", "content": "x"}))
        assert error["code"] == "consent_required"


@pytest.mark.asyncio
@BOTH_ERAS
async def test_a_tool_asks_its_own_questions(project: Project, mode: str) -> None:
    body = """
    def ask(context: ToolContext) -> str:
        name = context.interrupt("name", "What is your name?")
        form = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
        age = context.interrupt("age", {"message": "How old are you?", "requestedSchema": form})["age"]
        return f"{name} is {age}"
    """
    project.tool("ask", "\n".join(line[4:] for line in body.splitlines()), options="context=True")
    person = Person(answer="Ann", age=40)
    async with connected(project, mode=mode, person=person) as client:
        result = await client.call_tool("ask", {})
        assert result.content[0].text == "Ann is 40"  # type: ignore[union-attr]
    assert person.questions == ["What is your name?", "How old are you?"]
    async with connected(project, mode=mode, person=Person("cancel")) as client:
        assert error_of(await client.call_tool("ask", {}))["code"] == "denied"


@pytest.mark.asyncio
@BOTH_ERAS
async def test_a_body_does_not_run_again_for_the_consent_to_calls_that_it_makes(
    project: Project, mode: str
) -> None:
    body = """def both(context: ToolContext) -> str:
    with open("ran", "a") as file:
        file.write("x")
    for name in ("a", "b"):
        context.call("file_write", path=f"{name}.txt", content=name)
        context.progress(f"wrote {name}")
    return "both"
"""
    project.tool("both", body, options="context=True")
    person, heard = Person(allow=True), []

    async def hear(_progress: float, _total: float | None, message: str | None) -> None:
        heard.append(message)

    async with connected(project, mode=mode, person=person) as client:
        result = await client.call_tool("both", {}, progress_callback=hear)
        assert result.content[0].text == "both", result  # type: ignore[union-attr]
    assert (project.root / "ran").read_text() == "x"
    assert len(person.questions) == 2
    assert "wrote b" in heard
    async with connected(project, mode=mode, person=Person("decline")) as client:
        assert error_of(await client.call_tool("both", {}))["code"] in ("denied", "failed")


@pytest.mark.asyncio
@ANY_ERA
async def test_progress_comes_in_order_and_before_the_answer(project: Project, mode: str) -> None:
    body = """def work(context: ToolContext) -> str:
    for number in range(5):
        context.progress({"progress": number, "total": 5, "message": f"part {number}"})
    context.progress("nearly there")
    return "done"
"""
    project.tool("work", body, options="context=True")
    heard: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with connected(project, mode=mode) as client:
        await client.call_tool("work", {}, progress_callback=hear)
        reported = [*heard]
    assert reported == [
        *((float(number), 5.0, f"part {number}") for number in range(5)),
        (5.0, None, "nearly there"),
    ]


@pytest.mark.asyncio
@ANY_ERA
async def test_a_cancelled_call_stops_its_body(project: Project, mode: str) -> None:
    body = """def wait(context: ToolContext) -> str:
    open("began", "w").close()
    while not context.cancelled:
        time.sleep(0.02)
    open("stopped", "w").close()
"""
    project.tool("wait", body, options="context=True")
    async with connected(project, mode=mode) as client:
        call = asyncio.ensure_future(client.call_tool("wait", {}))

        async def has(name: str) -> bool:
            return (project.root / name).exists()

        await eventually(lambda: has("began"))
        call.cancel()
        await eventually(lambda: has("stopped"))
        assert not (await client.call_tool("echo", {"message": "still here"})).is_error


@pytest.mark.asyncio
@ANY_ERA
async def test_images_and_documents_are_content(project: Project, mode: str) -> None:
    body = r"""def show() -> dict:
    png = b"\x89PNG\r\n\x1a\n123"
    return {"status": "success", "content": [
        {"text": "three"},
        {"image": {"format": "png", "source": {"bytes": png}}},
        {"document": {"format": "pdf", "name": "a b", "source": {"bytes": b"%PDF"}}},
        {"document": {"format": "md", "name": "notes.md", "source": {"bytes": b"# Notes"}}},
        {"document": {"format": "wav", "name": "sound", "source": {"bytes": b"RIFF"}}},
    ]}
"""
    project.tool("show", body)
    async with connected(project, mode=mode) as client:
        content: list[Any] = list((await client.call_tool("show", {})).content)
    assert [block.type for block in content] == ["text", "image", "resource", "resource", "audio"]
    assert content[1].mime_type == "image/png"
    assert (content[2].resource.uri, content[2].resource.mime_type) == (
        "document:///a%20b.pdf",
        "application/pdf",
    )
    assert content[3].resource.text == "# Notes"
    assert content[4].mime_type == "audio/wav"


@pytest.mark.asyncio
@ANY_ERA
async def test_a_long_answer_with_a_schema_is_whole(project: Project, mode: str) -> None:
    source = 'from strands_cli import tool\n\n\n@tool\ndef many() -> list[str]:\n    "Many."\n    return ["x" * 99] * 9000\n'
    project.write("tools/many.py", source)
    async with connected(project, mode=mode) as client:
        answer = (await client.call_tool("many", {})).structured_content
    assert len(answer["result"]) == 9000
