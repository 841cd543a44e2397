"""Servers that people run, from npm and PyPI, confined: from the shell and from a workflow."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.node import node_program
from tests.mcp.python_servers import python_server
from tests.mcp.servers import Servers

pytestmark = [pytest.mark.long, pytest.mark.timeout(180)]


def configure(servers: Servers, name: str, argv: list[str], **keys: Any) -> dict[str, Any]:
    """Configures a server for the user, confined to the project, and checks it."""
    # The mark is the value of a variable here: these programs do not take arguments of ours.
    entry = {"command": argv[0], "args": argv[1:], "env": {"STRANDS_TEST_MARK": servers.mark}, **keys}
    servers.add(servers.user_settings, name, entry)
    check = servers.strands("mcp", "check", name, "--json")
    assert check.exit_code == 0, check
    document: dict[str, Any] = check.json
    assert [tool["name"] for tool in document["tools"] if tool["refusal"]] == []
    return document


def call(servers: Servers, tool: str, **arguments: Any) -> str:
    outcome = servers.strands("tool", "call", tool, json.dumps(arguments), "--json")
    assert outcome.exit_code == 0, outcome
    return outcome.out


def workflow(servers: Servers, used: list[str], tools: list[str], turns: list[list[dict[str, Any]]]) -> str:
    """Runs a workflow of one agent with these tools; each step is a turn with these calls. Returns all it said."""
    steps = [{"agent": "worker", "input": f"Do part {number}."} for number in range(len(turns))]
    flow = {
        "version": 0,
        "name": "real",
        "runtime": {"provider": "scripted", "model_id": "answers.yaml"},
        "tools": {"mcp": [{"id": server} for server in used]},
        "agents": {"worker": {"prompt": "You work.", "tools": tools}},
        "pattern": {"type": "chain", "config": {"steps": steps}},
    }
    said = "Results: {{ results | join(' ~ ') }}"
    rules = [
        {"when": f"Do part {number}.", "answers": [{"text": "", "calls": calls}, said]}
        for number, calls in enumerate(turns)
    ]
    servers.project.write("flow.yaml", json.dumps(flow))
    servers.project.write("answers.yaml", json.dumps(rules))
    outcome = servers.strands("run", "flow.yaml", "--json")
    assert outcome.exit_code == 0, outcome
    assert_nothing_survives(servers)
    return "\n".join(step["response"] for step in outcome.json["steps"])


def run(servers: Servers, server: str, *calls: tuple[str, dict[str, Any]]) -> str:
    """A workflow whose agent has all tools of a server, and makes these calls, one after the other."""
    turns = [[{"call": tool, "with": arguments}] for tool, arguments in calls]
    return workflow(servers, [server], [server], turns)


def assert_nothing_survives(servers: Servers) -> None:
    mark = f"STRANDS_TEST_MARK={servers.mark}".encode()
    survivors = []
    for process in Path("/proc").iterdir():
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in variables:
            survivors.append(process.name)
    assert survivors == []


# --- npm --------------------------------------------------------------------------------------------------


def test_everything(servers: Servers) -> None:
    document = configure(servers, "all", node_program("mcp-server-everything", "stdio"), timeout=20.0)
    assert len(document["tools"]) >= 10
    assert "Echo: hello" in call(servers, "all__echo", message="hello")
    assert "5" in call(servers, "all__get-sum", a=2, b=3)
    structured = json.loads(call(servers, "all__get-structured-content", location="New York"))
    assert "temperature" in json.dumps(structured)
    assert "image" in call(servers, "all__get-tiny-image")
    environment = call(servers, "all__get-env")
    assert servers.mark in environment
    assert "XDG_CONFIG_HOME" not in environment
    assert "BYPASS_TOOL_CONSENT" not in environment
    refused = servers.strands("tool", "call", "all__get-sum", '{"a": "two", "b": 3}', "--json")
    assert refused.json["error"]["code"] == "input_invalid"
    said = run(
        servers,
        "all",
        ("all__echo", {"message": "from a workflow"}),
        ("all__trigger-long-running-operation", {"duration": 1, "steps": 2}),
    )
    assert "Echo: from a workflow" in said
    assert "completed" in said


def test_filesystem(servers: Servers) -> None:
    root = servers.project.root
    outside = root.parent / "outside.txt"
    outside.write_text("not for you")
    servers.project.write("notes/a.txt", "a note")
    program = node_program("mcp-server-filesystem", str(root / "notes"), str(root.parent))
    configure(servers, "files", program, files={"write": ["notes"]})
    assert "a note" in call(servers, "files__read_text_file", path=str(root / "notes" / "a.txt"))
    call(servers, "files__write_file", path=str(root / "notes" / "b.txt"), content="from a tool")
    assert (root / "notes" / "b.txt").read_text() == "from a tool"
    # The server itself would allow the directory above; its confinement does not.
    refused = servers.strands(
        "tool", "call", "files__read_text_file", json.dumps({"path": str(outside)}), "--json"
    )
    assert refused.exit_code == 10
    assert "not for you" not in refused.out
    forbidden = json.dumps({"path": str(root / "made.txt"), "content": "x"})
    assert servers.strands("tool", "call", "files__write_file", forbidden, "--json").exit_code == 10
    assert not (root / "made.txt").exists()
    said = run(
        servers,
        "files",
        ("files__write_file", {"path": str(root / "notes" / "c.txt"), "content": "from a workflow"}),
        ("files__read_text_file", {"path": str(root / "notes" / "c.txt")}),
        ("files__list_directory", {"path": str(root / "notes")}),
    )
    assert "from a workflow" in said
    assert "c.txt" in said


def test_memory(servers: Servers) -> None:
    memory = servers.out / "memory.jsonl"
    environment = {"MEMORY_FILE_PATH": str(memory), "STRANDS_TEST_MARK": servers.mark}
    configure(servers, "memory", node_program("mcp-server-memory"), files={"write": ["out"]}, env=environment)
    entity = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    call(servers, "memory__create_entities", entities=[entity])
    assert "Ada" in memory.read_text()
    assert "writes programs" in call(servers, "memory__search_nodes", query="Ada")
    said = run(
        servers,
        "memory",
        (
            "memory__add_observations",
            {"observations": [{"entityName": "Ada", "contents": ["likes engines"]}]},
        ),
        ("memory__read_graph", {}),
    )
    assert "likes engines" in said


def test_sequential_thinking(servers: Servers) -> None:
    configure(servers, "think", node_program("mcp-server-sequential-thinking"))
    thought = {"thought": "First.", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 2}
    assert '"thoughtNumber": 1' in call(servers, "think__sequentialthinking", **thought)
    second = {**thought, "thought": "Second.", "nextThoughtNeeded": False, "thoughtNumber": 2}
    said = run(
        servers, "think", ("think__sequentialthinking", thought), ("think__sequentialthinking", second)
    )
    assert "thoughtHistoryLength" in said
    assert "2" in said.split("thoughtHistoryLength")[-1], "one server for the whole run"


# --- PyPI -------------------------------------------------------------------------------------------------


def test_git(servers: Servers) -> None:
    repository = servers.project.root / "code"
    repository.mkdir()
    (repository / "a.txt").write_text("one\n")
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.invalid"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "Begin"]):
        subprocess.run(["git", *words], cwd=repository, check=True)
    (repository / "a.txt").write_text("one\ntwo\n")
    configure(servers, "git", python_server("mcp-server-git"))
    assert "a.txt" in call(servers, "git__git_status", repo_path=str(repository))
    assert "Begin" in call(servers, "git__git_log", repo_path=str(repository))
    said = run(servers, "git", ("git__git_diff_unstaged", {"repo_path": str(repository)}))
    assert "+two" in said


def test_time(servers: Servers) -> None:
    configure(servers, "time", python_server("mcp-server-time", "--local-timezone", "UTC"))
    given = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    assert "21:00" in call(servers, "time__convert_time", **given)
    assert "21:00" in run(servers, "time", ("time__convert_time", given))


def test_a_server_that_breaks_shows_why(servers: Servers) -> None:
    """This one was written for another version of the protocol's package, and ends with an error."""
    argv = python_server("mcp-server-sqlite", "--db-path", str(servers.out / "data.db"))
    entry = {"command": argv[0], "args": argv[1:], "files": {"write": ["out"]}, "start_timeout": 20.0}
    servers.add(servers.user_settings, "sqlite", entry)
    check = servers.strands("mcp", "check", "sqlite")
    assert check.exit_code == 18
    assert "AttributeError: 'Server' object has no attribute 'list_resources'" in check.err
    assert "TaskGroup" not in check.err
    assert check.seconds < 20


def test_all_of_them_at_once(servers: Servers) -> None:
    """Servers in one run start side by side and do not disturb each other."""
    configure(servers, "all", node_program("mcp-server-everything", "stdio"))
    configure(servers, "think", node_program("mcp-server-sequential-thinking"))
    configure(servers, "time", python_server("mcp-server-time", "--local-timezone", "UTC"))
    thought = {"thought": "First.", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
    calls = [
        {"call": "all__echo", "with": {"message": "side by side"}},
        {"call": "think__sequentialthinking", "with": thought},
        {"call": "time__get_current_time", "with": {"timezone": "UTC"}},
    ]
    said = workflow(servers, ["all", "think", "time"], ["all__echo", "think", "time"], [calls])
    for words in ("Echo: side by side", "thoughtNumber", "datetime"):
        assert words in said
