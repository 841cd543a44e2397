"""What somebody meets who adds servers for the first time: files of other programs, mistakes, and their remedies."""

import json
import tomllib
from typing import Any

import pytest

from tests.mcp.test_server_settings import FLOW, Home, declare, home, mcp, user_file
from tests.projects import Project

__all__ = ["home"]

WRITER = """#!/usr/bin/env python3
import json, sys

for line in sys.stdin:
    message = json.loads(line)
    result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "w", "version": "1"}}
    if message["method"] == "tools/list":
        result = {"tools": [{"name": "write", "inputSchema": {"type": "object"}}]}
    if message["method"] == "tools/call":
        try:
            open("note.txt", "w").write("hi")
            result = {"content": [{"type": "text", "text": "done"}], "structuredContent": {"content": "done"}}
        except OSError as error:
            result = {"content": [{"type": "text", "text": str(error)}], "isError": True}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


def settings(project: Project) -> dict[str, Any]:
    return tomllib.loads((project.root / "strands.toml").read_text("utf-8"))


# --- add and remove --------------------------------------------------------------------------------------------


def test_what_is_written_has_no_empty_keys(home: Home) -> None:
    assert home.strands("mcp", "add", "units", "--", "./units.py").exit_code == 0
    written = (home.root / "strands.toml").read_text("utf-8")
    assert written == '[mcp.servers.units]\ncommand = "./units.py"\n'


def test_adding_and_removing_again_and_again_leaves_no_empty_lines(home: Home) -> None:
    text = '[http]\nmax_bytes = 10\n\n[mcp.servers.a]\ncommand = "x"\n'
    home.write("strands.toml", text)
    for _ in range(3):
        assert home.strands("mcp", "add", "b", "--no-check", "--", "y").exit_code == 0
        assert home.strands("mcp", "remove", "b").exit_code == 0
    assert (home.root / "strands.toml").read_text("utf-8") == text


def test_removing_a_server_keeps_the_comment_of_the_next_table(home: Home) -> None:
    before = '[mcp.servers.a]\ncommand = "x"\n# of a\nargs = ["y"]\n\n# of http\n[http]\nmax_bytes = 10\n'
    home.write("strands.toml", before)
    assert home.strands("mcp", "remove", "a").exit_code == 0
    assert (home.root / "strands.toml").read_text("utf-8") == "# of http\n[http]\nmax_bytes = 10\n"


def test_a_server_of_another_program_gets_the_permissions_of_the_options(home: Home) -> None:
    entry = {"command": "npx", "args": ["-y", "files"], "env": {"A": "b"}, "disabled": True}
    home.write("other.json", json.dumps({"mcpServers": {"files": entry}}))
    options = ["--network", "--write", "out", "--read", "data", "--env", "TOKEN", "--exclude", "delete_*"]
    added = home.strands("mcp", "add", "files", "--from", "other.json", "--no-check", *options)
    assert added.exit_code == 0, added
    assert settings(home)["mcp"]["servers"]["files"] == {
        "command": "npx",
        "args": ["-y", "files"],
        "env": {"TOKEN": "${TOKEN}", "A": "b"},
        "files": {"read": ["data"], "write": ["out"]},
        "network": True,
        "exclude": ["delete_*"],
    }
    both = home.strands("mcp", "add", "other", "--from", "other.json", "--", "npx")
    assert both.exit_code == 2
    assert "--from takes the command or the address from the file" in both.err


def test_the_file_of_an_editor_that_calls_its_servers_otherwise_can_be_taken_over_too(home: Home) -> None:
    home.write("mcp.json", json.dumps({"servers": {"units": {"type": "stdio", "command": "./units.py"}}}))
    assert home.strands("mcp", "add", "units", "--from", "mcp.json").exit_code == 0
    home.write("none.json", "{}")
    none = home.strands("mcp", "add", "files", "--from", "none.json")
    assert "none.json: it has no object 'mcpServers'" in none.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["x"], "A server needs a command or --url."),
        (["x", "--url", "https://a.example", "--", "y"], "not both"),
        (["x", "--env", "KEY=secret", "--", "y"], "give its name: --env KEY"),
        (["x", "npx", "-y", "server"], "Write the command after '--'"),
    ],
)
def test_a_wrong_way_to_add_a_server_is_answered_with_the_right_one(
    home: Home, arguments: list[str], said: str
) -> None:
    outcome = home.strands("mcp", "add", *arguments)
    assert outcome.exit_code == 2, outcome
    assert said in outcome.err


# --- Files of other programs -----------------------------------------------------------------------------------


def test_a_file_of_servers_is_read_in_a_directory_that_has_no_settings(home: Home) -> None:
    (home.root / "strands.toml").unlink()
    home.write(".mcp.json", json.dumps({"mcpServers": {"units": {"command": "./units.py"}}}))
    assert mcp(home, "check", "units")["title"] == "units"


def test_servers_that_another_program_has_switched_off_are_not_used(home: Home) -> None:
    entries = {
        "units": {"command": "./units.py"},
        "off": {"command": "x", "disabled": True},
        "no": {"command": "x", "enabled": False},
    }
    home.write(".mcp.json", json.dumps({"mcpServers": entries}))
    assert [one["name"] for one in mcp(home, "list")["servers"]] == ["units"]


def test_the_entry_with_which_others_use_our_tools_is_no_server_of_ours(home: Home) -> None:
    assert home.strands("mcp", "install", "--client", "claude-code", "--write").exit_code == 0
    assert "mcp" in (home.root / ".mcp.json").read_text("utf-8")
    assert mcp(home, "list", trusts=False)["servers"] == []


def test_a_server_that_a_workflow_does_not_use_does_not_stop_it(home: Home) -> None:
    home.write(".mcp.json", json.dumps({"mcpServers": {"other": {"command": "x"}}}))
    home.write("flow.yaml", FLOW.split("tools:")[0] + "agents:\n  a: {prompt: Work., tools: []}\n"
               "pattern: {type: chain, config: {steps: [{agent: a, input: hi}]}}\n")  # fmt: skip
    home.write("answers.yaml", "answers:\n  - text: Done.\n")
    outcome = home.strands("run", "flow.yaml")
    assert outcome.exit_code == 0, outcome
    text = (home.root / "flow.yaml").read_text("utf-8")
    home.write("flow.yaml", text.replace("agents:", "tools: {mcp: [{id: other}]}\nagents:"))
    used = home.strands("run", "flow.yaml", "--force")
    assert used.exit_code != 0
    assert "you have not trusted that" in used.err


# --- Mistakes and their remedies -------------------------------------------------------------------------------


def test_a_key_that_does_not_exist_is_answered_with_the_nearest(home: Home) -> None:
    declare(home, 'comand = "./units.py"')
    outcome = home.strands("mcp", "check", "units")
    assert "The MCP server 'units' has no key 'comand'." in outcome.err
    assert "Did you mean 'command'?" in outcome.err


def test_a_list_of_servers_in_a_broken_file_does_not_say_that_there_are_none(home: Home) -> None:
    declare(home, 'command = "x"\nnonsense = 1')
    listed = home.strands("mcp", "list")
    assert "no key 'nonsense'" in listed.err
    assert "There are no MCP servers" not in listed.err
    assert "no key 'nonsense'" in mcp(home, "list")["problems"][0]["reason"]


def test_a_server_that_is_not_trusted_is_shown_with_the_command_that_trusts_it(home: Home) -> None:
    declare(home)
    shown = home.strands("mcp", "show", "units")
    assert "strands trust" in shown.err
    assert "mcp check" not in shown.err


def test_a_changed_server_is_named_in_the_remedy(home: Home) -> None:
    assert home.strands("mcp", "add", "units", "--", "./units.py").exit_code == 0
    file = home.root / "units.py"
    file.write_text(file.read_text("utf-8").replace("Convert a length", "Change a length", 1), "utf-8")
    checked = home.strands("mcp", "check", "units")
    assert "strands mcp trust units" in checked.out + checked.err
    looked = home.strands("mcp", "trust", "units", "--json")
    assert looked.json["accepted"] is False
    assert home.strands("mcp", "trust", "units", "--json", "--yes").json["accepted"] is True


def test_a_problem_in_the_file_of_another_program_is_not_for_trust_to_solve(home: Home) -> None:
    home.write(".mcp.json", json.dumps({"mcpServers": {"old": {"type": "sse", "url": "https://a.example"}}}))
    listed = home.strands("mcp", "list")
    assert "the transport sse is obsolete" in listed.err
    assert "strands trust" not in listed.err


def test_a_server_that_may_not_use_the_network_is_told_how_to_declare_it(home: Home) -> None:
    server = home.write("net.sh", "#!/bin/sh\necho 'getaddrinfo EAI_AGAIN host' >&2\nexit 1\n")
    server.chmod(0o755)
    added = home.strands("mcp", "add", "net", "--", "./net.sh")
    assert "`network = true`" in added.err
    assert str(user_file(home)) not in added.err


def test_a_call_that_the_sandbox_refused_names_the_key_to_declare(home: Home) -> None:
    home.write("writer.py", WRITER).chmod(0o755)
    assert home.strands("mcp", "add", "notes", "--", "./writer.py").exit_code == 0
    refused = home.strands("tool", "call", "notes__write")
    assert refused.exit_code == 10, refused
    assert "note.txt: declare the place under `files.write`" in refused.err
    assert home.strands("mcp", "remove", "notes").exit_code == 0
    assert home.strands("mcp", "add", "notes", "--write", ".", "--", "./writer.py").exit_code == 0
    written = home.strands("tool", "call", "notes__write")
    assert json.loads(written.out) == {"content": "done"}, "the text says the same, and is not shown twice"


def test_an_explanation_says_how_to_see_the_tools_of_a_server_that_was_not_started(home: Home) -> None:
    home.write("flow.yaml", FLOW % ("{id: units, command: ./units.py}", "[units]"))
    explained = " ".join(home.strands("explain", "flow.yaml").out.split())
    assert "'strands mcp check units --workflow " in explained
    assert "is not known here" not in explained


@pytest.mark.parametrize("said", ["getaddrinfo EAI_AGAIN registry", "sh: 1: server: Permission denied"])
def test_a_program_that_would_download_the_server_is_answered_with_installing_it(
    home: Home, said: str
) -> None:
    home.write("npx", f"#!/bin/sh\necho '{said}' >&2\nexit 126\n").chmod(0o755)
    added = home.strands("mcp", "add", "files", "--", "./npx", "-y", "files")
    assert "install the server" in added.err
    assert "network = true" not in added.err
