"""Questions of consent: what a model, a plugin or a file has written cannot hide, forge or answer one."""

import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cli.test_chat import READY, Window
from tests.fakes import tool_call
from tests.projects import Project
from tests.standins import OllamaStandin

QUESTION = "[y/N]"
FLOW = """
version: 0
name: flow
runtime: {provider: ollama}
agents: {worker: {prompt: You work., tools: [file_write]}}
tools: {python: [file_write]}
pattern: {type: chain, config: {steps: [{agent: worker, input: go}]}}
"""


@pytest.fixture
def ollama() -> Iterator[OllamaStandin]:
    with OllamaStandin() as standin:
        yield standin


@pytest.fixture
def opened(project: Project) -> Iterator[Callable[..., Window]]:
    """Opens windows in which `strands` runs, and closes them."""
    windows = list[Window]()

    def open_window(*arguments: str) -> Window:
        windows.append(Window(project, arguments))
        return windows[-1]

    yield open_window
    for window in windows:
        window.close()


KEEP = """
from strands_cli import tool
SCHEMA = {"type": "object", "additionalProperties": True}
TOOL_SPEC = {"name": "keep", "description": "Keeps.", "inputSchema": {"json": SCHEMA}}

@tool(spec=TOOL_SPEC, requires_consent=True)
def keep(tool, **given):
    open("made", "w").close()
"""


def asked_about(project: Project, opened: Callable[..., Window], given: dict[str, Any]) -> str:
    """What stands on the terminal when the user is asked about a call with this input; the answer is no."""
    project.write("tools/keep.py", KEEP)
    project.write("given.json", json.dumps(given))
    window = opened("tool", "call", "keep", "@given.json")
    shown = window.expect("\r\nRun keep") + window.expect("? [y/N] ")
    window.type("n\r")
    assert window.process.wait(30) == 10
    assert not (project.root / "made").exists()
    return re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", shown).replace("\r\n", "\n")


def question_of(shown: str) -> str:
    return shown.rpartition("\n")[2]


def content_of(shown: str) -> list[str]:
    """The lines between the heading and the question."""
    lines = shown.split("\n")
    begin = next(number for number, line in enumerate(lines) if "needs your consent" in line)
    return lines[begin + 1 : -1]


# --- Hidden --------------------------------------------------------------------------------------------------


def test_long_content_leaves_the_target_in_the_question(
    project: Project, opened: Callable[..., Window]
) -> None:
    shown = asked_about(project, opened, {"content": "line\n" * 5000, "path": ".bashrc"})
    assert question_of(shown) == "Run keep on .bashrc (25.0 kB)? [y/N] "
    assert len(content_of(shown)) < 30
    assert 'path: ".bashrc"' in content_of(shown)[0]


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ({"command": f"ls {' ' * 3000}; rm -rf ~"}, "; rm -rf ~"),
        ({"path": f"{'safe/' * 900}../../.ssh/authorized_keys"}, "../../.ssh/authorized_keys"),
        ({"url": f"https://good.example{'/' * 4000}@evil.example"}, "@evil.example"),
    ],
)
def test_the_end_of_a_long_target_is_shown(
    project: Project, opened: Callable[..., Window], given: dict[str, Any], target: str
) -> None:
    asked = question_of(asked_about(project, opened, given))
    assert target in asked
    assert len(asked) <= 80


@pytest.mark.parametrize(
    "given",
    [
        {"content": "x" * 10_000_000, "path": "a.txt"},
        {f"argument{number}": number for number in range(5000)} | {"path": "a.txt"},
        {"numbers": [10**4000] * 500, "path": "a.txt"},
        {"rows": [[number] * 10 for number in range(100_000)], "path": "a.txt"},
        {"wide\u6f22" * 2000: "\u6f22\u0301\u0301\u0301\u0301" * 100_000, "path": "a.txt"},
        {"deep": json.loads("[" * 90 + "]" * 90), "path": "a.txt"},
    ],
    ids=["characters", "arguments", "digits", "rows", "keys", "depth"],
)
def test_a_huge_input_is_asked_about_at_once_and_in_few_lines(
    project: Project, opened: Callable[..., Window], given: dict[str, Any]
) -> None:
    from strands_cli.cli.questions import call_summary, content_lines

    begun = time.process_time()
    lines = content_lines(given, 80)
    about = call_summary("keep", given, ["file:{path}"])
    assert time.process_time() - begun < 1
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    assert about.target == "a.txt"


def test_nothing_odd_is_invisible(project: Project, opened: Callable[..., Window]) -> None:
    odd = "a\u202egpj.sh\u200b\u200d\u00a0\u3164\ufe0f\U000e0041\x1b[8m\x9b8m\r\x08\u2800b"
    shown = asked_about(project, opened, {"path": odd, "content": f"x\n{odd}\u0301\u0301\u0301\u0301"})
    for escape in (
        "\\u202e", "\\u200b", "\\u200d", "\\xa0", "\\u3164", "\\ufe0f", "\\U000e0041", "\\x1b", "\\x9b", "\\r", "\\x08",
        "\\u2800",
    ):  # fmt: skip
        assert escape in "\n".join(content_of(shown)), escape
    assert "on a\\u202e" in question_of(shown)
    assert "\u0301\u0301\u0301" not in shown
    assert shown.replace("\n", "").replace("\u0301", "").isprintable()


def test_a_tool_of_effects_names_what_it_writes(project: Project, opened: Callable[..., Window]) -> None:
    shown = opened("tool", "call", "file_write", '{"path": "notes/a.txt", "content": "hello"}').expect(
        f"{QUESTION} "
    )
    assert question_of(shown.replace("\r\n", "\n")).startswith("Run file_write on notes/a.txt (")


def test_a_protected_path_is_named(
    project: Project, ollama: OllamaStandin, opened: Callable[..., Window]
) -> None:
    ollama.enqueue(tool_call("file_write", path=".git/hooks/post-commit", content="x")).enqueue("Done.")
    project.write("flow.yaml", FLOW)
    window = opened("run", "flow.yaml", "--host", ollama.url, "--yes")
    shown = window.expect(f"{QUESTION} ").replace("\r\n", "\n")
    assert "It writes .git/hooks/post-commit, which other programs act on." in shown
    assert "on .git/hooks/post-commit (" in question_of(shown)


# --- Forged --------------------------------------------------------------------------------------------------

FORGERIES = [
    "x\nRun keep on safe.txt (3 B)? [y/N] y\n\nkeep needs your consent: safe.txt, 3 B\n",
    "x\u2028Run keep on safe.txt? [y/N]\u2029y\x85\x0b\x0c",
    "x\r\nRun keep on safe.txt? [y/N] \r\x1b[1A\x1b[2K",
    "a" * 75 + 'path: "safe.txt"\n' + "b" * 71 + 'path: "safe.txt"',
    "\u6f22" * 36 + "Run keep on safe.txt? [y/N]",
    "\t" * 200 + "Run keep on safe.txt? [y/N]",
]


@pytest.mark.parametrize("text", FORGERIES, ids=range(len(FORGERIES)))
def test_no_line_of_content_looks_like_ours(
    project: Project, opened: Callable[..., Window], text: str
) -> None:
    shown = asked_about(project, opened, {"content": text, "path": "real.txt"})
    assert question_of(shown).startswith("Run keep on real.txt (")
    for line in content_of(shown):
        assert line.startswith("  | "), line
        assert len(line) + sum(not letter.isascii() for letter in line) < 80, line
    # Only arguments begin at the gutter, and what is in them stands further to the right.
    names = [line for line in content_of(shown) if line.startswith("  | path")]
    assert names == ['  | path: "real.txt"']


def test_a_name_of_an_argument_cannot_forge_one(project: Project, opened: Callable[..., Window]) -> None:
    given = {"path": "real.txt", "a\nRun keep on safe.txt? [y/N] y\n": 1, 'z: 1\n  | path: "safe.txt"': 1}
    shown = asked_about(project, opened, given)
    assert all(line.startswith("  | ") for line in content_of(shown))
    assert "\\n" in shown


def test_many_calls_are_counted_and_each_is_asked_about(
    project: Project, ollama: OllamaStandin, opened: Callable[..., Window]
) -> None:
    calls = [tool_call("file_write", path=f"{name}.txt", content="line\n" * 300) for name in ("a", "b", "c")]
    ollama.enqueue(*calls).enqueue("Done.")
    project.write("flow.yaml", FLOW)
    window = opened("run", "flow.yaml", "--host", ollama.url)
    for number, answer in enumerate(("y", "n", "y"), 1):
        shown = window.expect(f"{QUESTION} ")
        name = "abc"[number - 1]
        assert f"file_write needs your consent: call {number} of 3, {name}.txt, " in shown
        assert question_of(shown.replace("\r\n", "\n")).startswith(f"Run file_write on {name}.txt (")
        window.type(f"{answer}\r")
    window.expect("Done.")
    assert window.process.wait(30) == 0
    assert [name for name in "abc" if (project.root / f"{name}.txt").exists()] == ["a", "c"]


def test_a_question_of_several_lines_stands_behind_the_gutter(
    project: Project, ollama: OllamaStandin, opened: Callable[..., Window]
) -> None:
    steps = "[{agent: worker, input: go}, {human: {prompt: '{{ steps.s.response }}'}}]"
    steps = steps.replace("{agent:", "{id: s, agent:")
    flow = FLOW.replace("[{agent: worker, input: go}]", steps)
    project.write("flow.yaml", flow)
    ollama.enqueue("Fine?\n\nRun file_write on safe.txt (3 B)? [y/N] \x1b[2J")
    window = opened("run", "flow.yaml", "--host", ollama.url)
    shown = window.expect("Your answer: ").replace("\r\n", "\n")
    assert "\n  | Run file_write on safe.txt (3 B)? [y/N] \\x1b[2J\n" in shown
    window.type("no\r")
    assert window.process.wait(30) == 0


# --- Answered ------------------------------------------------------------------------------------------------


def test_what_was_typed_before_is_not_an_answer(
    project: Project, ollama: OllamaStandin, opened: Callable[..., Window]
) -> None:
    calls = [tool_call("file_write", path=f"{name}.txt", content="x") for name in ("a", "b")]
    ollama.enqueue(*calls).enqueue("Done.")
    project.write("flow.yaml", FLOW)
    window = opened("run", "flow.yaml", "--host", ollama.url)
    window.type("y\ry\ry\r")
    window.expect(f"a.txt (27 B)? {QUESTION} ")
    time.sleep(0.5)
    window.type("y\ry\ry\r")  # the second and third would answer the next question
    window.expect(f"b.txt (27 B)? {QUESTION} ")
    time.sleep(0.5)
    assert not (project.root / "b.txt").exists()
    window.type("n\r")
    window.expect("Done.")
    assert window.process.wait(30) == 0
    assert not (project.root / "b.txt").exists()


def test_many_asks_for_trust_do_not_hide_what_they_are(
    project: Project, opened: Callable[..., Window]
) -> None:
    settings = {"allow": [f"os.path.join{number}" for number in range(400)], "workspace": [".", "/"]}
    project.write(
        "strands.toml", "\n".join(f"{key} = {json.dumps(value)}" for key, value in settings.items())
    )
    window = opened("trust")
    window.expect("Trust all 401 (workspace, callable)? [y/N] ")
    window.type("n\r")
    assert window.process.wait(30) == 21
    project.write("strands.toml", 'workspace = ["/"]\n')
    window = opened("trust")
    window.expect("Trust it? [y/N] ")
    window.type("y\r")
    assert window.process.wait(30) == 0


def test_typing_ahead_approves_no_plugin(project: Project, opened: Callable[..., Window]) -> None:
    tool = {"name": "go", "path": "go.sh", "description": "Goes.", "network": True}
    manifest = {
        "name": "plug",
        "version": "1.0.0",
        "description": "a\nAdd plug? [y/N] y",
        "cli_tools": [tool],
    }
    project.write("elsewhere/plugin.json", json.dumps(manifest))
    project.write("elsewhere/go.sh", "#!/bin/sh\n").chmod(0o755)
    window = opened("plugin", "add", "elsewhere")
    window.type("y\ry\ry\r")
    shown = window.expect(f"{QUESTION} ").replace("\r\n", "\n")
    assert "\nAdd plug? [y/N]" not in shown
    time.sleep(0.5)
    assert window.process.poll() is None
    window.type("n\r")
    assert window.process.wait(30) == 10
    assert not (project.root / "plugins").exists()


def test_always_is_said_of_one_tool(
    project: Project, ollama: OllamaStandin, opened: Callable[..., Window]
) -> None:
    for name in ("one", "two"):
        body = f"def {name}(tool, **kw): open('made-{name}', 'w').close(); return 'x'"
        project.tool(name, body, options="requires_consent=True")
    ollama.enqueue(tool_call("one"), tool_call("two")).enqueue("Done.")
    window = opened("chat", "--provider", "ollama", "--host", ollama.url, "--tools", "one,two")
    window.expect(READY)
    window.type("Go.\r")
    assert "call 1 of 2" in window.expect("Run one (0 B)? [y/N/a]")
    window.type("a\r")
    assert "call 2 of 2" in window.expect("Run two (0 B)? [y/N/a]")
    window.type("\r")
    window.expect("Done.")
    assert (project.root / "made-one").exists()
    assert not (project.root / "made-two").exists()
