"""Secrets that tools, servers and files try to bring to a model, to a file or to the screen."""

import asyncio
import base64
import gzip
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from strands_cli.documents.files import write_private_file
from strands_cli.errors import StrandsError
from strands_cli.exec.run import run_sync
from strands_cli.exec.steps import RunOptions
from strands_cli.loader import examine_workflow, load_spec
from strands_cli.loader.spec import Spec
from strands_cli.toolkit.call import call_tool
from strands_cli.tools import get_registry
from tests.exec.flows import Flow, steps
from tests.fakes import ScriptedModel, tool_call
from tests.projects import Project
from tests.sites import Request, Site, answer, serving
from tests.standins import OllamaStandin

SECRET = "s3cr3t/Value+of <the> test"
PIN = "7483920156"
ENV = {"secrets": [{"name": "SEC"}, {"name": "PIN"}]}
ONE = {"steps": steps("go")}
FORMS: dict[str, Callable[[str], str]] = {
    "itself": str,
    "small": str.lower,
    "capitals": str.upper,
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "hex with colons": lambda text: text.encode().hex(":"),
    "percent": lambda text: quote(text, safe=""),
    "percent twice": lambda text: quote(quote(text, safe="")),
    "percent all": lambda text: "".join(f"%{code:02x}" for code in text.encode()),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 within": lambda text: base64.b64encode(f"user:{text}!".encode()).decode(),
    "JSON": lambda text: text.replace("/", "\\/"),
    "HTML": lambda text: text.replace("<", "&lt;").replace(">", "&gt;"),
}


@pytest.fixture
def flow(inside: Project, monkeypatch: pytest.MonkeyPatch) -> Flow:
    monkeypatch.setenv("SEC", SECRET)
    monkeypatch.setenv("PIN", PIN)
    return Flow(inside.root)


def leaks(shown: str) -> list[str]:
    """In which forms the secrets are in a text; of base64 within something, the part that is certain."""
    forms = {name: form(SECRET) for name, form in FORMS.items()} | {
        "pin": PIN,
        "begin": SECRET[:12],
        "end": SECRET[-12:],
    }
    forms["base64 within"] = forms["base64 within"][8:-8]
    return [name for name, form in forms.items() if form in shown]


def files_below(*places: Path) -> str:
    found = [file for place in places for file in place.rglob("*") if file.is_file()]
    kept = [
        f"{file}\n{file.read_text('utf-8', 'replace')}"
        for file in found
        if file.suffix not in (".py", ".pyc")
    ]
    return "\n".join(kept)


def seen_of(flow: Flow, model: ScriptedModel) -> str:
    """All that the model, the listeners and the disk got."""
    requests = [repr(request.messages) + str(request.system_prompt) for request in model.requests]
    events = [f"{event!r} {msgspec.json.encode(event, enc_hook=str).decode()}" for event in flow.events]
    return "\n".join([*requests, *events, files_below(flow.directory, flow.directory.parent / "cache")])


# --- What a tool answers ----------------------------------------------------------------------------------

WAYS = {
    "as it is": "return SEC",
    "in an object": "return {'a': [{'b': SEC}]}",
    "as a key": "return {SEC: 1}",
    "as a number": "return {'pin': int(PIN), 'list': [int(PIN), float(PIN)]}",
    "in two blocks": "return {'status': 'success', 'content': [{'text': SEC[:9]}, {'text': SEC[9:]}]}",
    "in three blocks": "return {'status': 'success', 'content': [{'text': SEC[:9]}, {'json': {}}, {'text': SEC[9:12]}, {'text': SEC[12:]}]}",
    "in pieces of a list": "return {'parts': [SEC[:6], SEC[6:14], SEC[14:]]}",
    "in a document": "return {'status': 'success', 'content': [{'document': {'format': 'txt', 'name': 'x', 'source': {'bytes': SEC.encode()}}}]}",
    "in the name of a document": "return {'status': 'success', 'content': [{'document': {'format': 'txt', 'name': SEC, 'source': {'bytes': b'x'}}}]}",
    "in a picture": "return b'\\x89PNG\\r\\n\\x1a\\n' + SEC.encode()",
    "in an answer that goes to a file": "return 'x' * 200_000 + SEC + 'x' * 200_000",
    "in JSON that goes to a file": "return [SEC] * 20_000",
    "in a failure": "raise ToolFailed(SEC, hint=SEC, code=SEC.split('/')[0] + '/' + SEC.split('/')[1], details=[{'x': SEC, SEC: 1}])",
    "in an object in a failure": "raise ToolFailed('x', details=[{'x': ValueError(SEC)}])",
    "in a failure of its own form": "return {'status': 'error', 'content': [{'text': SEC}]}",
    "in a crash": "raise RuntimeError(SEC)",
    "in a crash that is cut": "raise RuntimeError('x' * 1980 + SEC)",
    "in a failure that is cut": "raise ToolFailed('x' * 3980 + SEC, hint='y' * 3985 + SEC)",
    "in a missing key": "return {}[SEC]",
    "in a group of exceptions": "raise ExceptionGroup(SEC, [ValueError(SEC), ExceptionGroup('x', [KeyError(SEC)])])",
    "in a cause": "raise RuntimeError(repr(SEC)) from KeyError(SEC)",
    "in the name of a file": "return open('/nowhere/' + SEC)",
    "in a command line": "import subprocess; subprocess.run([sys.executable, '-c', 'raise SystemExit(3)', SEC], check=True)",
    "in an answer that has no JSON form": "return {'x': type('X', (), {'__repr__': lambda self: SEC})()}",
    "in progress": "context.progress(SEC); context.progress({'x': [SEC]}); context.progress(ValueError(SEC)); return 'ok'",
}  # fmt: skip


HEAD = """
import os, sys
from strands_cli import ToolContext, ToolFailed, tool


@tool
def leak(way: str, context: ToolContext) -> object:
    \"""Tells a secret.\"""
    SEC, PIN = os.environ["SEC"], os.environ["PIN"]
"""


def write_tool(project: Project, code: str) -> None:
    project.write("tools/leak.py", HEAD + code)
    get_registry().refresh()


def leaking(
    flow: Flow, spec: Spec, model: ScriptedModel, name: str, ways: Iterable[str], argument: str = "way"
) -> dict[str, list[str]]:
    """The ways, each one call in one run, on which a secret reached the model; with the forms that it had."""
    for way in ways:
        model.enqueue(tool_call(name, **{argument: way}))
    model.enqueue("done")
    flow.run_spec(spec)
    results = [result for request in model.requests[1:] for result in request.results]
    assert len(results) == len([*ways])
    return {way: found for way, result in zip(ways, results, strict=True) if (found := leaks(repr(result)))}


def test_what_a_tool_tells_of_a_secret_reaches_no_model_no_listener_and_no_file(
    inside: Project, flow: Flow, model: ScriptedModel
) -> None:
    branches = [f"    if way == {way!r}:\n        {code}\n" for way, code in WAYS.items()]
    write_tool(inside, "".join(branches))
    spec = flow.spec("chain", ONE, tools={"python": ["leak"]}, env=ENV)
    assert leaking(flow, spec, model, "leak", WAYS) == {}
    assert leaks(seen_of(flow, model)) == []
    unmasked = [
        way
        for way, request in zip(WAYS, model.requests[1:], strict=True)
        if "***" not in repr(request.results)
    ]
    # These have it in a file, nowhere, and in events.
    assert unmasked == [
        "in an answer that goes to a file",
        "in an answer that has no JSON form",
        "in progress",
    ]


def test_no_form_of_a_secret_reaches_a_model(inside: Project, flow: Flow, model: ScriptedModel) -> None:
    for name, form in FORMS.items():
        inside.write(f"forms/{name}", f"<<{form(SECRET)}>>")
    code = """
    from pathlib import Path
    text = Path(f"forms/{way[1:]}").read_text()
    if way[0] == "!":
        raise ToolFailed(text)
    return text
"""
    write_tool(inside, code)
    spec = flow.spec("chain", ONE, tools={"python": ["leak"]}, env=ENV)
    assert leaking(flow, spec, model, "leak", [f"{kind}{name}" for name in FORMS for kind in "!."]) == {}
    assert leaks(repr(flow.events)) == []


def test_code_that_a_model_wrote_gets_no_secret_from_a_tool_to_take_apart(
    inside: Project, flow: Flow, model: ScriptedModel
) -> None:
    write_tool(inside, "    return SEC\n")
    model.enqueue(tool_call("python_exec", code="print(tools.leak(way='')[::-1])")).enqueue("done")
    flow.run("chain", ONE, tools={"python": ["leak", "python_exec"]}, env=ENV)
    seen = seen_of(flow, model)
    assert SECRET[::-1] not in seen
    assert leaks(seen) == []


# --- What a server answers --------------------------------------------------------------------------------


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


def echo(make: Callable[[str], Callable[[Request], object]]) -> Callable[[Request], object]:
    """An answer that is made of the header that came with the request."""
    return lambda request: make(request.headers.get("x-token", ""))(request)


def packed(token: str) -> Callable[[Request], object]:
    return answer(body=gzip.compress(token.encode()), Content_Encoding="gzip")


def in_chunks(token: str) -> Callable[[Request], object]:
    chunks = b"".join(b"1\r\n%c\r\n" % code for code in token.encode()) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return lambda request: request.write(head + chunks)


ECHOES: dict[str, Callable[[str], Callable[[Request], object]]] = {
    "the body": lambda token: answer(body=f"you sent {token}"),
    "a header": lambda token: answer(X_Seen=token, Set_Cookie=f"t={quote(token)}"),
    "a packed body": packed,
    "a chunked body": in_chunks,
    "bytes": lambda token: answer(body=b"\x00\xff" + token.encode()),
    "an error": lambda token: answer(500, f"bad token {token}"),
    "a redirect": lambda token: answer(302, Location=f"/other?token={quote(token)}"),
    "a redirect elsewhere": lambda token: answer(302, Location=f"http://{quote(token, safe='')}.invalid/"),
    "a redirect with a password": lambda token: answer(302, Location=f"http://u:{quote(token, safe='')}@127.0.0.1:9/"),
    "a cut body": lambda token: answer(body="x" * 990 + token),
    "an answer that is no HTTP": lambda token: lambda request: request.write(f"HTTP/9.9 {token}\r\n\r\n".encode()),
}  # fmt: skip


@pytest.mark.usefixtures("trusting")
def test_what_an_api_repeats_of_a_secret_reaches_no_model(
    inside: Project, flow: Flow, model: ScriptedModel, site: Site
) -> None:
    inside.write("strands.toml", "[http]\nmax_bytes = 1000\n")
    site.answers |= {f"/{number}": echo(make) for number, make in enumerate(ECHOES.values())}
    executor = {"id": "api", "base_url": site.url, "headers": {"X-Token": "{{ secrets.SEC }}"}}
    spec = flow.spec("chain", ONE, tools={"http_executors": [executor]}, env=ENV)
    paths = [f"/{number}" for number in range(len(ECHOES))]
    found = leaking(flow, spec, model, "api", paths, "path")
    assert {way: found[path] for way, path in zip(ECHOES, paths, strict=True) if path in found} == {}
    assert {request.headers.get("x-token") for request in site.seen} == {SECRET}
    assert leaks(seen_of(flow, model)) == []


@pytest.mark.usefixtures("trusting")
@pytest.mark.parametrize(
    ("headers", "repeated"),
    [
        ({"Authorization": "Bearer written-in-the-file"}, "written-in-the-file"),
        ({"X-Api-Key": "written-in-the-file"}, "written-in-the-file"),
        ({"Cookie": "a=1; session=written-in-the-file"}, "written-in-the-file"),
        ({"Authorization": "Basic " + base64.b64encode(b"me:open sesame").decode()}, "open sesame"),
        ({"Authorization": "Basic " + base64.b64encode(b"me:open sesame").decode()}, "me:open sesame"),
    ],
)
def test_a_credential_in_a_header_is_hidden_though_it_is_not_declared(
    flow: Flow, model: ScriptedModel, site: Site, headers: dict[str, str], repeated: str
) -> None:
    site.answers["/x"] = answer(body=f"<{repeated}>")
    executor = {"id": "api", "base_url": site.url, "headers": headers}
    model.enqueue(tool_call("api", path="/x")).enqueue("done")
    flow.run("chain", ONE, tools={"http_executors": [executor]})
    (result,) = model.requests[1].results
    assert "<***>" in repr(result)
    assert repeated not in "".join(repr(request.messages) for request in model.requests) + repr(flow.events)


# --- Answers that go to a file ----------------------------------------------------------------------------


async def answer_file() -> Path:
    """Where an answer that is too long goes."""
    echo_tool = get_registry().load("echo")
    result = await call_tool(
        echo_tool, {"toolUseId": "x", "name": "echo", "input": {"message": "x" * 400_000}}
    )
    text = result["content"][0]["text"]
    assert "could not be written" not in text, text[-300:]
    return Path(text.rpartition("The full answer is in ")[2].partition(";")[0])


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "strands-cli" / "answers"


def test_an_answer_in_a_file_is_for_the_user_alone(answers: Path) -> None:
    answers.mkdir(parents=True)
    answers.chmod(0o777)
    before = os.umask(0)
    try:
        first, second = asyncio.run(answer_file()), asyncio.run(answer_file())
    finally:
        os.umask(before)
    assert stat.S_IMODE(answers.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in (first, second)} == {0o600}
    assert first.parent == answers
    assert len(first.name) >= len("echo-.txt") + 32
    assert first.name != second.name


def test_an_answer_is_not_written_where_a_link_leads(answers: Path, tmp_path: Path) -> None:
    answers.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "elsewhere").mkdir()
    answers.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(AssertionError, match="could not be written"):
        asyncio.run(answer_file())
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_link_in_place_of_the_answers_lets_a_tool_read_nothing(
    answers: Path, tmp_path: Path, inside: Project
) -> None:
    answers.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x.txt").write_text(SECRET)
    answers.symlink_to(tmp_path / "elsewhere")
    reading = call_tool(
        get_registry().load("file_read"),
        {"name": "file_read", "toolUseId": "x", "input": {"path": str(answers / "x.txt")}},
    )
    result = asyncio.run(reading)
    assert result["status"] == "error"
    assert SECRET not in repr(result)


@pytest.mark.parametrize("above", [False, True])
def test_an_answer_is_not_written_into_a_directory_of_another_user(answers: Path, above: bool) -> None:
    if os.geteuid() != 0:  # who cannot give a directory away, but has those of root
        with pytest.raises(PermissionError, match="belongs to another user"):
            write_private_file(
                Path("/usr/bin/answer.txt" if above else "/usr/answer.txt"), b"x", keep_seconds=1
            )
        return
    answers.mkdir(parents=True)
    os.chown(answers.parent if above else answers, 12345, 12345)
    with pytest.raises(AssertionError, match="belongs to another user"):
        asyncio.run(answer_file())
    assert not any(answers.iterdir())


def test_a_link_among_the_answers_is_neither_followed_nor_removed(answers: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.txt"
    old.write_text("mine")
    os.utime(old, (1, 1))
    answers.mkdir(parents=True)
    (answers / "link.txt").symlink_to(old)
    (answers / "old.txt").write_text("an answer")
    os.utime(answers / "old.txt", (1, 1))
    asyncio.run(answer_file())
    assert old.read_text() == "mine"
    assert not (answers / "old.txt").exists()


# --- Messages, logs and files of the command --------------------------------------------------------------

PASSWORD = "hunter2-of-the-url"
LEAKING = """
import logging, os, threading, warnings
from strands_cli import tool

SEC = os.environ["SEC"]


@tool
def leak() -> str:
    \"""Tells a secret.\"""
    logging.getLogger("somebody").error("it is %s", SEC)
    logging.getLogger("strands_cli.tools").debug("it is %s", SEC)
    raise ExceptionGroup(SEC, [RuntimeError(SEC)])


@tool
def break_all() -> str:
    \"""Breaks the command itself.\"""
    import strands_cli.cli.running as place

    def fail(*_):
        raise RuntimeError(SEC) from KeyError(SEC)

    place.print_text = place.print_json = fail
    return "ok"
"""
LEAKY = """\
version: 0
name: leaky
runtime: {provider: ollama, host: "HOST", failure_policy: {retries: 0}}
env: {secrets: [{name: SEC}]}
tools: {python: [leak, break_all]}
agents: {worker: {prompt: You work.}}
pattern: {type: chain, config: {steps: [{agent: worker, input: go}]}}
telemetry: {otlp_endpoint: "http://u:PASSWORD@127.0.0.1:1/?api_key=PASSWORD", redact: {tool_inputs: false, tool_outputs: false}}
outputs: {artifacts: [{path: out.txt, from: "{{ last_response }} {{ TRACE }}"}]}
"""


def leaky(project: Project, host: str) -> None:
    project.write("tools/leak.py", LEAKING)
    project.write("flow.yaml", LEAKY.replace("HOST", host).replace("PASSWORD", PASSWORD))


@pytest.mark.parametrize("options", [["--trace", "--verbose"], ["--json"]])
def test_no_secret_is_in_what_a_command_prints_logs_and_writes(project: Project, options: list[str]) -> None:
    with OllamaStandin() as ollama:
        ollama.enqueue(tool_call("leak")).enqueue(tool_call("break_all")).enqueue(f"I think it is {SECRET}")
        leaky(project, ollama.url.replace("://", f"://me:{PASSWORD}@"))
        outcome = project.strands("--debug", "run", "flow.yaml", *options, SEC=SECRET)
    assert outcome.exit_code == 70, outcome
    assert "Traceback" in outcome.err
    assert "somebody" in outcome.err
    kept = files_below(project.root / "out", project.root.parent / "cache", project.root / "artifacts")
    assert leaks(outcome.out + outcome.err + kept) == []
    assert PASSWORD not in outcome.out + outcome.err + kept


@pytest.mark.parametrize(
    "command",
    [
        ["explain", "flow.yaml"],
        ["plan", "flow.yaml", "--json"],
        ["--debug", "run", "flow.yaml"],
        ["run", "flow.yaml", "--json"],
        ["run", "flow.yaml", "--host", f"http://me:{PASSWORD}@127.0.0.1:x"],
        [
            "tool",
            "call",
            "http_request",
            f"url=http://me:{PASSWORD}@127.0.0.1:1/?api_key={PASSWORD}",
            "--json",
        ],
        ["--debug", "tool", "call", "http_request", f"url=http://me:{PASSWORD}@[::1/x"],
        ["plugin", "add", f"https://me:{PASSWORD}@127.0.0.1:1/x.git"],
        ["plugin", "add", f"https://127.0.0.1:1/x.git?access_token={PASSWORD}"],
        ["--debug", "plugin", "add", f"https://me:{PASSWORD}/x@127.0.0.1:1/x.git"],
        ["plugin", "add", f"https://me:{PASSWORD}@127.0.0.1:1/x.git@"],
    ],
    ids=lambda command: " ".join(command[:3]),
)
def test_no_message_has_the_password_of_a_url(project: Project, command: list[str]) -> None:
    leaky(project, f"http://me:{PASSWORD}@127.0.0.1:1/v1?sig={PASSWORD}")
    outcome = project.strands(*command, SEC=SECRET)
    assert outcome.exit_code not in (70, 120), outcome
    assert PASSWORD not in outcome.out + outcome.err
    assert PASSWORD[:9] not in files_below(project.root.parent / "home", project.root.parent / "cache")


@pytest.mark.parametrize("command", ["doctor", "list-tools"])
def test_no_message_about_settings_has_the_password_of_a_url(project: Project, command: str) -> None:
    project.write("strands.toml", f'"http://me:{PASSWORD}@host.invalid" = 1\n')
    outcome = project.strands(command)
    assert "http://host.invalid" in outcome.out + outcome.err
    assert PASSWORD not in outcome.out + outcome.err


# --- Variables of the environment -------------------------------------------------------------------------

TAKEN = "value-that-nobody-gave-away"
BASE = """\
version: 0
name: flow
runtime: {provider: ollama}
agents: {a: {prompt: PROMPT}}
pattern: {type: chain, config: {steps: [{agent: a, input: hi}]}}
"""
TAKING = {
    "in a prompt": BASE.replace("PROMPT", '"${TAKEN}"'),
    "as a default of another": BASE.replace("PROMPT", '"${GONE:-${TAKEN}}"'),
    "with a default": BASE.replace("PROMPT", '"${TAKEN:-x}"'),
    "by an alias": BASE.replace("PROMPT", "&p '${TAKEN}'") + "description: *p\n",
    "in a file of an agent": BASE.replace("{prompt: PROMPT}", "{$ref: agent.yaml}"),
    "in the name of that file": BASE.replace("{prompt: PROMPT}", '{$ref: "${TAKEN}.yaml"}'),
    "in a host": BASE.replace("PROMPT", "x").replace("ollama}", 'ollama, host: "http://x.invalid/${TAKEN}"}'),
    "in a URL": BASE.replace("PROMPT", "x") + 'tools: {http_executors: [{id: x, base_url: "https://x.invalid/${TAKEN}"}]}\n',
    "declared as a word": BASE.replace("PROMPT", '"${TAKEN}"') + "env: {variables: TAKEN}\n",
    "declared by itself": BASE.replace("PROMPT", '"${TAKEN}"') + 'env: {variables: ["${TAKEN}"]}\n',
    "declared in another case": BASE.replace("PROMPT", '"${TAKEN}"') + "env: {variables: [taken]}\n",
    "declared in the file of an agent": BASE.replace("{prompt: PROMPT}", "{$ref: declaring.yaml}"),
    "as a secret in a prompt": BASE.replace("PROMPT", '"${TAKEN}"') + "env: {secrets: [{name: x, key: TAKEN}]}\n",
    "as a secret in a URL": BASE.replace("PROMPT", "x")
    + 'env: {secrets: [{name: TAKEN}]}\ntools: {http_executors: [{id: x, base_url: "https://x.invalid/?${TAKEN}"}]}\n',
    "as a secret in an input": BASE.replace("PROMPT", "x").replace("input: hi", 'input: "{{ secrets.TAKEN }}"')
    + "env: {secrets: [{name: TAKEN}]}\n",
}  # fmt: skip


def test_no_file_takes_a_variable_that_it_may_not_take(
    inside: Project, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAKEN", TAKEN)
    inside.write("agent.yaml", "prompt: x ${TAKEN}\n")
    inside.write("declaring.yaml", "env: {variables: [TAKEN]}\nprompt: x ${TAKEN}\n")
    ran, told, codes = [], [], set()
    for way, text in TAKING.items():
        file = inside.write("flow.yaml", text)
        spec, issues = examine_workflow(file)
        if TAKEN in repr((spec, issues)):
            told.append(way)
        try:
            run_sync(load_spec(file), None, RunOptions(directory=inside.root))
            ran.append(way)
        except StrandsError as refused:
            codes.add(refused.exit_code)
    assert (ran, told, model.requests) == ([], [], [])
    assert codes == {3, 18}


@pytest.mark.parametrize("command", ["validate", "explain", "plan", "graph", "run"])
def test_a_command_refuses_an_undeclared_variable_with_the_line_to_add(
    project: Project, command: str
) -> None:
    project.write("flow.yaml", TAKING["in a prompt"])
    outcome = project.strands(command, "flow.yaml", TAKEN=TAKEN)
    said = outcome.out + outcome.err
    assert outcome.exit_code == 3, outcome
    assert "flow.yaml:4" in said
    assert "env: {variables: [TAKEN]}" in said
    assert TAKEN not in said
