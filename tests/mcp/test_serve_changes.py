"""What is served: the choice of tools, and how it follows the files."""

import asyncio
from typing import Any

import pytest

from tests.mcp.serving import ANY_ERA, connected, eventually
from tests.projects import Project
from tests.sites import answer, serving

FIRST = """from strands_cli import tool


@tool
def first(text: str) -> str:
    "The first version."
    return "one"
"""


async def names(client: Any) -> set[str]:
    return {tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--tools", "echo"], {"echo"}),
        (["--tools", "file_*,echo"], {"file_list", "file_read", "file_search", "file_write", "echo"}),
        pytest.param(
            ["--tools", "file_operations"],
            {"file_list", "file_read", "file_search", "file_write", "grep", "head", "search", "tail"},
            marks=pytest.mark.long,
        ),
        pytest.param(["--tools", "project"], {"first"}, marks=pytest.mark.long),
        (["--tools", "native:echo", "--tools", "./extra.py"], {"echo", "extra"}),
        pytest.param(["--tools", "none"], set(), marks=pytest.mark.long),
    ],
)
async def test_tools_are_chosen_by_name_family_and_pattern(
    project: Project, options: list[str], expected: set[str]
) -> None:
    project.write("tools/first.py", FIRST)
    project.write("extra.py", FIRST.replace("first", "extra"))
    async with connected(project, *options) as client:
        assert await names(client) == expected


@pytest.mark.asyncio
async def test_a_server_for_a_project_starts_in_any_directory(project: Project) -> None:
    project.write("tools/first.py", FIRST)
    elsewhere = Project(project.root.parent / "elsewhere")
    async with connected(elsewhere, "--project", str(project.root), "--tools", "project") as client:
        assert await names(client) == {"first"}


@pytest.mark.asyncio
async def test_a_tool_that_cannot_be_served_is_left_out_and_named(project: Project) -> None:
    project.write("tools/first.py", FIRST)
    project.write("tools/broken.py", FIRST.replace("first", "broken") + "\nraise ValueError('not today')\n")
    project.tool(
        "needy", "def needy() -> str:\n    return ''", options="requires={'binaries': ['no-such-binary']}"
    )
    async with connected(project, "--tools", "project") as client:
        assert await names(client) == {"first"}
    log = (project.root.parent / "serve.log").read_text()
    assert "broken is not served" in log
    assert "not today" in log
    assert "no-such-binary" in log


@pytest.mark.asyncio
@ANY_ERA
async def test_clients_hear_of_changed_tools(project: Project, mode: str) -> None:
    project.write("tools/first.py", FIRST)
    changes: list[str] = []

    async def hear(message: Any) -> None:
        changes.append(type(message).__name__)

    async with connected(project, "--tools", "project", mode=mode, message_handler=hear) as client:
        assert await names(client) == {"first"}
        assert (await client.call_tool("first", {"text": ""})).content[0].text == "one"  # type: ignore[union-attr]
        listening = asyncio.ensure_future(_listen(client, changes)) if mode != "legacy" else None
        await asyncio.sleep(0.3)
        project.write("tools/second.py", FIRST.replace("first", "second"))

        async def heard() -> bool:
            return any("ToolListChanged" in name or "ToolsListChanged" in name for name in changes)

        await eventually(heard)
        assert await names(client) == {"first", "second"}
        project.write("tools/first.py", FIRST.replace('"one"', '"two"'))

        async def is_new() -> bool:
            result = await client.call_tool("first", {"text": ""})
            return bool(result.content[0].text == "two")  # type: ignore[union-attr]

        await eventually(is_new)
        project.write("tools/first.py", "this is not Python")

        log = project.root.parent / "serve.log"

        async def is_told() -> bool:
            return "first.py:1" in log.read_text()

        await eventually(is_told)
        assert "Until then, first stays as it was last loaded." in log.read_text()
        assert await is_new()
        if listening is not None:
            listening.cancel()


async def _listen(client: Any, changes: list[str]) -> None:
    async with client.listen(tools_list_changed=True) as events:
        async for event in events:
            changes.append(type(event).__name__)


@pytest.mark.asyncio
async def test_the_tools_of_a_workflow_are_served_with_its_rules(project: Project) -> None:
    project.write("tools/first.py", FIRST)
    project.write("tools/second.py", FIRST.replace("first", "second"))
    with serving() as site:
        site.answers["/v1/state"] = answer(body='{"up": true}', Content_Type="application/json")
        project.write(
            "flow.yaml",
            f"""
version: 0
name: flow
runtime: {{provider: scripted}}
agents: {{one: {{prompt: Hi}}}}
env: {{secrets: [{{name: KEY, source: env}}]}}
security: {{http_allow: [127.0.0.1], consent: {{first: ask, second: deny}}}}
tools:
  python: [first, second]
  http_executors:
    - id: api
      base_url: {site.url}
      headers: {{X-Key: "{{{{ secrets.KEY }}}}"}}
pattern: {{type: chain, config: {{steps: [{{agent: one, input: Hi}}]}}}}
""",
        )
        project.environment |= {"KEY": "very-secret-key", "STRANDS_TRUST": "1"}
        async with connected(project, "--spec", "flow.yaml", "--tools", "first,api") as client:
            assert await names(client) == {"first", "api"}
            refused = await client.call_tool("first", {"text": ""})
            assert refused.meta is not None
            assert refused.meta["strands-cli/error"]["code"] == "consent_required"
            called = await client.call_tool("api", {"method": "GET", "path": "/v1/state"})
            assert not called.is_error, called
            assert called.structured_content["body"] == '{"up": true}'
        assert site.seen[0].headers["x-key"] == "very-secret-key"
    denied = project.strands("mcp", "serve", "--spec", "flow.yaml", "--tools", "second", STRANDS_TRUST="")
    assert denied.exit_code == 21


@pytest.mark.long
@pytest.mark.asyncio
async def test_settings_that_break_are_reported_once_and_the_tools_stay(project: Project) -> None:
    project.write("tools/first.py", FIRST)
    async with connected(project, "--tools", "project") as client:
        assert await names(client) == {"first"}
        project.write("strands.toml", "this is not TOML")
        log = project.root.parent / "serve.log"

        async def reported() -> bool:
            return "the tools stay as they were" in log.read_text()

        await eventually(reported)
        await asyncio.sleep(4.5)
        assert log.read_text().count("the tools stay as they were") == 1
        assert await names(client) == {"first"}
        project.write("strands.toml", "")
        project.write("tools/second.py", FIRST.replace("first", "second"))

        async def is_there() -> bool:
            return await names(client) == {"first", "second"}

        await eventually(is_there)


def test_what_a_workflows_tool_prints_when_it_is_loaded_is_not_in_the_protocol(project: Project) -> None:
    project.write(
        "noisy.py", 'import os\n\nprint("loud")\nos.system("echo louder")\n' + FIRST.replace("first", "noisy")
    )
    flow = "version: 0\nname: flow\nruntime: {provider: scripted}\nagents: {one: {prompt: Hi}}\n"
    steps = "pattern: {type: chain, config: {steps: [{agent: one, input: Hi}]}}\n"
    project.write("flow.yaml", f"{flow}tools: {{python: [./noisy.py]}}\n{steps}")
    outcome = project.strands("mcp", "serve", "--spec", "flow.yaml", "--tools", "noisy")
    assert outcome.exit_code == 0, outcome
    assert outcome.out == ""
    assert "loud" in outcome.err
    assert "louder" in outcome.err
