"""`strands mcp install`: entries that work, in files that keep all else."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from strands_cli.cli.mcp.install import CLIENTS
from tests.projects import Project

REQUEST = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    },
}


def file_of(project: Project, client: str) -> Path:
    home = Path(project.environment["HOME"])
    config = Path(project.environment["XDG_CONFIG_HOME"])
    return {
        "claude-desktop": config / "Claude" / "claude_desktop_config.json",
        "claude-code": project.root / ".mcp.json",
        "cursor": home / ".cursor" / "mcp.json",
        "vscode": project.root / ".vscode" / "mcp.json",
        "windsurf": home / ".codeium" / "windsurf" / "mcp_config.json",
        "zed": home / ".config" / "zed" / "settings.json",
        "gemini": home / ".gemini" / "settings.json",
        "codex": home / ".codex" / "config.toml",
    }[client]


def install(project: Project, client: str, *options: str) -> str:
    outcome = project.strands("mcp", "install", "--client", client, *options)
    assert outcome.exit_code == 0, outcome
    return outcome.out


@pytest.mark.parametrize(
    "client", [one if one == "claude-code" else pytest.param(one, marks=pytest.mark.long) for one in CLIENTS]
)
def test_the_entry_is_written_and_starts_a_server_from_anywhere(
    project: Project, client: str, tmp_path: Path
) -> None:
    install(project, client, "--write", "--name", "ours", "--", "--tools", "echo")
    text = file_of(project, client).read_text()
    document = tomllib.loads(text) if client == "codex" else json.loads(text)
    entry = document[CLIENTS[client].key]["ours"]
    assert Path(entry["command"]).is_absolute()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    done = subprocess.run(
        [entry["command"], *entry["args"]],
        cwd=elsewhere,
        env=project.environment,
        input=json.dumps(REQUEST) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "strands-cli"
    before = file_of(project, client).stat()
    install(project, client, "--write", "--name", "ours", "--", "--tools", "echo")
    assert file_of(project, client).stat() == before
    assert [path.name for path in file_of(project, client).parent.glob(".strands-*")] == []


def test_what_others_have_written_stays(project: Project) -> None:
    file = project.write(
        ".mcp.json", '{\n\t"other": {"ä": 1.0},\n\t"mcpServers": {"theirs": {"command": "x"}}\n}'
    )
    file.chmod(0o640)
    install(project, "claude-code", "--write", "--name", "ours")
    document = json.loads(file.read_text())
    assert document["other"] == {"ä": 1.0}
    assert [*document["mcpServers"]] == ["theirs", "ours"]
    assert '\n\t"other"' in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o640


def test_the_comments_of_a_toml_file_stay(project: Project) -> None:
    file = file_of(project, "codex")
    file.parent.mkdir(parents=True)
    file.write_text(
        '# mine\nmodel = "x"\n\n[mcp_servers.ours]\ncommand = "old"\n\n[mcp_servers.ours.env]\nA = "1"\n\n[other]\nb = 2 # two'
    )
    refused = project.strands("mcp", "install", "--client", "codex", "--write", "--name", "ours")
    assert "has another entry 'ours'" in refused.err
    install(project, "codex", "--write", "--name", "ours", "--force")
    text = file.read_text()
    assert text.startswith('# mine\nmodel = "x"\n')
    assert "b = 2 # two" in text
    assert "args" in tomllib.loads(text)["mcp_servers"]["ours"]
    assert "env" not in tomllib.loads(text)["mcp_servers"]["ours"]


@pytest.mark.parametrize(
    "text",
    [
        '{\n  // mine\n  "a": 1\n}',
        '{"a": 1,}',
        '{"mcpServers": []}',
        "[]",
        '{"a": 1, "a": 2}',
        "not json",
        b"\xff\xfe{}",
    ],
)
def test_a_file_that_cannot_be_kept_is_not_touched(project: Project, text: str | bytes) -> None:
    file = project.write(".mcp.json", text)
    before = file.read_bytes()
    outcome = project.strands("mcp", "install", "--client", "claude-code", "--write")
    assert outcome.exit_code == 2
    assert "stays as it is" in outcome.err
    assert '"mcpServers"' in outcome.err
    assert file.read_bytes() == before


def test_another_entry_of_the_same_name_is_replaced_only_by_force(project: Project) -> None:
    file = project.write(".mcp.json", '{"mcpServers": {"ours": {"command": "theirs"}}}')
    refused = project.strands("mcp", "install", "--client", "claude-code", "--write", "--name", "ours")
    assert refused.exit_code == 2
    assert "--force" in refused.err
    assert json.loads(file.read_text())["mcpServers"]["ours"] == {"command": "theirs"}
    install(project, "claude-code", "--write", "--name", "ours", "--force")
    assert json.loads(file.read_text())["mcpServers"]["ours"]["args"][:2] == ["mcp", "serve"]


def test_a_link_stays_a_link(project: Project) -> None:
    target = project.write("dotfiles/mcp.json", "{}")
    (project.root / ".mcp.json").symlink_to(target)
    install(project, "claude-code", "--write")
    assert (project.root / ".mcp.json").is_symlink()
    assert "mcpServers" in json.loads(target.read_text())


def test_without_a_client_the_entry_and_all_clients_are_shown(project: Project) -> None:
    outcome = project.strands("mcp", "install")
    assert json.loads(outcome.out)["mcpServers"]["project"]["args"][-1] == str(project.root)
    assert all(name in outcome.err for name in CLIENTS)
    assert "servers" in json.loads(install(project, "vscode"))
    assert tomllib.loads(install(project, "codex"))["mcp_servers"]["project"]["command"]
    assert not (project.root / ".vscode").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--client", "curser"], "Did you mean 'cursor'?"),
        (["--write"], "--write needs --client"),
        (["--name", "a b"], "--name 'a b'"),
        (["--", "--tolls", "x"], "No such option"),
        (["--", "--http", "1"], "--http does not fit"),
        (["--", "extra"], "unexpected extra argument"),
    ],
)
def test_a_wrong_option_is_an_error(project: Project, options: list[str], message: str) -> None:
    outcome = project.strands("mcp", "install", *options)
    assert outcome.exit_code == 2
    assert message in outcome.err
