"""Calling the tools of plugins: real processes, what they print, how they end, what they may touch."""

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from strands_cli.events import ToolProgress, ToolStderr
from strands_cli.plugins.directories import Approved, Lock, plugin_digests, write_decision
from strands_cli.telemetry.recorders import Trace
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.types.sections import Redact
from tests.plugins.makers import BASH, NODE, PYTHON, SH, Bench, error, json_of, need, text_of, until
from tests.projects import Project

VALIDATE = """#!/usr/bin/env node
const fs = require('fs');

// Read JSON from stdin
let input = '';
process.stdin.on('data', chunk => input += chunk);
process.stdin.on('end', () => {
  const params = JSON.parse(input);

  // Do validation
  const content = fs.readFileSync(params.file, 'utf8');
  const isValid = content.includes('TODO') === false;

  // Return result
  console.log(JSON.stringify({
    valid: isValid,
    issues: isValid ? [] : ['Contains TODO comments']
  }));
});
"""
FORMAT = r"""#!/bin/bash
# Read JSON input
input=$(cat)

# Extract parameters
file=$(echo "$input" | jq -r '.file')
language=$(echo "$input" | jq -r '.language // "auto"')

# Do the work
result=$(prettier --write "$file" 2>&1)

# Return JSON output
echo "{\"success\": true, \"message\": \"Formatted $file\", \"output\": \"$result\"}"
"""


# --- The seed's own tools ---------------------------------------------------------------------------------


def test_the_seeds_validate_answers_with_all_its_keys(bench: Bench) -> None:
    need("node")
    (bench.project / "a.js").write_text("// TODO")
    tool = bench.tool(VALIDATE)
    assert json_of(bench.call(tool, {"file": "a.js"})) == {
        "valid": False,
        "issues": ["Contains TODO comments"],
    }
    (bench.project / "a.js").write_text("done()")
    assert json_of(bench.call(tool, {"file": "a.js"})) == {"valid": True, "issues": []}


def test_the_seeds_format_without_prettier_answers_as_json_or_as_text_with_a_hint(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("jq", "bash")
    tool = bench.tool(FORMAT, files={"write": ["."]})
    programs = bench.project / "bin"
    programs.mkdir()
    for name in ("cat", "jq"):
        (programs / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(programs))
    missing = json_of(bench.call(tool, {"file": "a.js"}))
    assert (missing["success"], missing["message"]) == (True, "Formatted a.js")
    assert "prettier: command not found" in missing["output"]
    broken = bench.call(tool, {"file": 'b".js'})
    assert 'Formatted b".js' in text_of(broken)
    assert "This looks like JSON but is not" in text_of(broken)


def test_the_seeds_command_line_works(project: Project) -> None:
    need("node")
    project.write("plugins/my-plugin/cli-tools/validate.js", VALIDATE).chmod(0o755)
    manifest = {"name": "my-plugin", "cli_tools": [{"name": "validate", "path": "cli-tools/validate.js"}]}
    project.write("plugins/my-plugin/plugin.json", json.dumps(manifest))
    project.write("src/main.js", "main()")
    done = project.strands("tool", "call", "my-plugin__validate", '{"file": "src/main.js"}')
    assert json.loads(done.out) == {"valid": True, "issues": []}
    below = project.strands(
        "tool", "call", "my-plugin__validate", '{"file": "main.js"}', cwd=project.root / "src"
    )
    assert below.exit_code == 0, below


def test_a_call_leaves_nothing_open_at_the_end_of_the_program(project: Project) -> None:
    project.strands("plugin", "new", "hello", "--language", "bash")
    done = project.strands("tool", "call", "hello__stats", "text=Hello", PYTHONDEVMODE="1")
    assert '"characters": 5' in done.out, done
    assert "ResourceWarning" not in done.err, done


def test_a_tool_of_a_plugin_is_a_tool_wherever_python_has_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bench.project)
    tool = bench.tool(f"{SH}cat\n")
    direct: Any = tool
    assert asyncio.run(direct(a=1)) == {"a": 1}
    assert json_of(direct({"toolUseId": "7", "input": {"a": 2}})) == {"a": 2}
    (bridge,) = direct
    assert bridge.tool_spec["name"] == "p__t"


# --- What is printed --------------------------------------------------------------------------------------

PRINTED: list[tuple[str, Any]] = [
    (
        '{"a": 1, "content": [2], "status": "success"}',
        {"json": {"a": 1, "content": [2], "status": "success"}},
    ),
    ("[1, 2]", {"json": [1, 2]}),
    ('"text"', {"text": "text"}),
    ("42", {"text": "42"}),
    ("plain words\nin two lines", {"text": "plain words\nin two lines"}),
    ('{"success": true, "error": null}', {"json": {"success": True, "error": None}}),
    ('{"success": true, "error": "none"}', {"json": {"success": True, "error": "none"}}),
    ('{"error": ""}', {"json": {"error": ""}}),
    ("Grüße", {"text": "Grüße"}),
]


@pytest.mark.parametrize(("printed", "block"), PRINTED)
def test_what_is_printed_is_the_answer(bench: Bench, printed: str, block: dict[str, Any]) -> None:
    result = bench.run(f"{SH}cat > /dev/null; cat <<'EOF'\n{printed}\nEOF\n")
    assert result["status"] == "success"
    assert result["content"] == [block]


@pytest.mark.parametrize("printed", ['{"a": 1', "{'a': 1}", '{"a": NaN}', '{"a": 1} {"b": 2}', "[" * 100_000])
def test_what_was_meant_as_json_comes_as_text_with_a_hint(bench: Bench, printed: str) -> None:
    (bench.project / "printed").write_text(printed)
    result = bench.run(f"{SH}cat printed\n")
    assert result["content"][0]["text"].startswith(printed[:1000])
    assert "This looks like JSON but is not" in result["content"][1]["text"]


def test_noise_before_the_answer_is_kept_apart_from_it(bench: Bench) -> None:
    result = bench.run(f"{SH}echo loading; echo still loading; echo '{{\"a\": 1}}'\n")
    assert json_of(result) == {"a": 1}
    assert text_of(result) == "Before its answer it printed: loading\nstill loading"


ERRORS: list[tuple[str, str, str, list[Any]]] = [
    ('{"error": "file parameter is required"}', "failed", "file parameter is required", []),
    ('{"success": false, "error": "broken", "line": 3}', "failed", "broken", [{"line": 3}]),
    ('{"success": false, "message": "no"}', "failed", "no", [{"message": "no"}]),
    ('{"success": false}', "failed", "The tool reported a failure without a reason", []),
    ('{"error": {"code": "not_found", "message": "gone"}}', "not_found", "gone", []),
    ('{"error": {"code": "denied", "message": "m"}}', "failed", "m", []),
    ('{"error": ["a", 1]}', "failed", '["a", 1]', []),
]


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize(("printed", "code", "message", "details"), ERRORS)
def test_the_forms_of_an_error_are_errors(
    bench: Bench, printed: str, code: str, message: str, details: list[Any], status: int
) -> None:
    found = error(bench.run(f"{SH}cat <<'EOF'\n{printed}\nEOF\nexit {status}\n"))
    assert (found["code"], found["message"], found["details"]) == (code, message, details)


ENDINGS: list[tuple[str, str, str]] = [
    ("exit 0", "output_invalid", "exited without an answer"),
    ("echo; exit 0", "output_invalid", "exited without an answer"),
    ("echo why >&2; exit 3", "failed", "ended with exit status 3: why"),
    ("echo said; exit 3", "failed", "ended with exit status 3: said"),
    ("no-such-program-here", "unavailable", "ended with exit status 127"),
    ("exit 66", "not_found", "exit status 66"),
    ("exit 75", "network", "exit status 75"),
    ("kill -SEGV $$", "crashed", "signal SIGSEGV"),
    ("kill -KILL $$", "crashed", "signal SIGKILL"),
    ("kill -40 $$", "crashed", "signal 40"),
    ("head -c 1000001 /dev/zero", "output_invalid", "wrote more than it may"),
    ("sleep 60", "timeout", "did not end in time"),
    ("echo > /usr/x", "forbidden", "ended with exit status"),
]


@pytest.mark.parametrize(("script", "code", "message"), ENDINGS)
def test_an_ending_has_its_code(bench: Bench, script: str, code: str, message: str) -> None:
    found = error(bench.run(f"{SH}{script}\n", timeout=2))
    assert found["code"] == code, found
    assert message in found["message"]
    assert bench.nothing_survives()


def test_an_answer_that_does_not_fit_its_schema_is_told(bench: Bench) -> None:
    schema = {"type": "object", "required": ["n"]}
    assert error(bench.run(f"{SH}echo '{{}}'\n", output_schema=schema))["code"] == "output_invalid"
    assert json_of(bench.run(f"{SH}echo '{{\"n\": 1}}'\n", output_schema=schema)) == {"n": 1}


def test_a_long_answer_goes_to_a_file(bench: Bench) -> None:
    found = json_of(bench.run(f"{PYTHON}print([1] * 2000)\n", max_output=500))
    assert found["truncated"] is True
    assert json.loads(Path(found["path"]).read_text()) == [1] * 2000


def test_more_than_a_megabyte_may_be_asked_for(bench: Bench) -> None:
    result = bench.run(f"{PYTHON}print('x' * 2_000_000)\n", max_output=3_000_000)
    assert len(text_of(result)) == 2_000_000


# --- What a tool gets -------------------------------------------------------------------------------------


def test_a_tool_gets_its_input_its_arguments_and_the_workspace(bench: Bench) -> None:
    source = f"{PYTHON}import json, os, sys\nprint(json.dumps([json.load(sys.stdin), sys.argv[1:], os.getcwd()]))\n"
    given = {"a": "ü\n$(x)", "big": 2**80}
    found = json_of(bench.run(source, given, args=["--x", "$(touch y)"]))
    assert found == [given, ["--x", "$(touch y)"], str(bench.project)]


def test_half_of_a_character_arrives_as_json_writes_it(bench: Bench) -> None:
    found = text_of(bench.run(f"{SH}read -r x; printf 'got: %s' \"$x\"\n", {"half": "\ud800"}))
    assert found == 'got: {"half": "\\ud800"}'


def test_a_shells_read_takes_the_input_too(bench: Bench) -> None:
    need("bash")
    assert json_of(bench.run(f'{BASH}read -r line && echo "$line"\n', {"a": 1})) == {"a": 1}


def test_a_large_input_arrives_whole_and_may_be_ignored(bench: Bench) -> None:
    text = "x" * 3_000_000
    assert text_of(bench.run(f"{SH}wc -c\n", {"text": text})).strip() == str(len(text) + 13)
    assert text_of(bench.run(f"{SH}echo done\n", {"text": text})) == "done"


def test_the_environment_is_what_the_manifest_declares(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSED", "on")
    monkeypatch.setenv("SECRET", "hidden")
    found = text_of(bench.run(f"{SH}env\n", env=["PASSED"]))
    assert "PASSED=on" in found
    assert "SECRET" not in found
    assert f"HOME={os.environ['HOME']}\n" not in found


def test_the_workspace_is_readable_and_writable_where_it_is_declared(bench: Bench) -> None:
    (bench.project / "data").write_text("data")
    (bench.project / "out").mkdir()
    assert text_of(bench.run(f"{SH}cat data\n")) == "data"
    refused = error(bench.run(f"{SH}echo x > out/new\n"))
    assert refused["code"] == "forbidden"
    assert "files.write" in refused["hint"]
    assert not (bench.project / "out" / "new").exists()
    assert text_of(bench.run(f"{SH}echo x > out/new && cat out/new\n", files={"write": ["out"]})) == "x"
    assert (bench.project / "out" / "new").read_text() == "x\n"


def test_other_files_are_readable_where_they_are_declared(bench: Bench) -> None:
    (bench.outside / "data").write_text("data")
    refused = error(bench.run(f"{SH}cat {bench.outside}/data\n"))
    assert (refused["code"], "files.read" in refused["hint"]) == ("forbidden", True)
    assert (
        text_of(bench.run(f"{SH}cat {bench.outside}/data\n", files={"read": [str(bench.outside)]})) == "data"
    )


def test_scratch_is_writable_and_goes(bench: Bench) -> None:
    source = f'{SH}test -z "$(ls -A "$TMPDIR/mine" 2>/dev/null)" && mkdir "$TMPDIR/mine" && echo x > "$HOME/y" && echo ok\n'
    tool = bench.tool(source, mode="fresh")
    assert [text_of(bench.call(tool)) for _ in range(2)] == ["ok", "ok"]


def test_sockets_need_network(bench: Bench) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    source = (
        f"{PYTHON}import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)\nprint('connected')\n"
    )
    refused = error(bench.run(source))
    assert refused["code"] == "forbidden"
    assert "`network: true`" in refused["hint"]
    assert text_of(bench.run(source, network=True)) == "connected"
    server.close()


def test_memory_is_bounded_by_the_manifest(bench: Bench) -> None:
    source = f"{PYTHON}import time\nx = bytearray(200_000_000)\ntime.sleep(0.5)\nprint(len(x))\n"
    assert "more memory" in error(bench.run(source, memory="64MB"))["message"]
    assert text_of(bench.run(source)) == "200000000"


def test_a_static_c_program_is_a_tool(bench: Bench) -> None:
    source = '#include <stdio.h>\nint main() { int c, n = 0; while ((c = getchar()) != EOF) n++; printf("{\\"n\\": %d}", n); }'
    assert json_of(bench.run(source, {"a": 1})) == {"n": 9}


# --- Time -------------------------------------------------------------------------------------------------


def test_a_call_ends_near_its_limit_with_all_that_it_started(bench: Bench) -> None:
    started = time.monotonic()
    found = error(
        bench.run(f"{SH}trap '' TERM; (setsid sleep 61 &); echo busy >&2; sleep 60; sleep 60\n", timeout=1)
    )
    assert found["code"] == "timeout"
    assert time.monotonic() - started < 3
    assert bench.nothing_survives()


def test_what_it_said_before_its_time_was_up_is_told(bench: Bench) -> None:
    found = error(bench.run(f"{SH}echo 'step 2' >&2; sleep 60\n", timeout=1))
    assert re.fullmatch(r"p__t did not end in time and was ended after 0\.\d+ s: step 2", found["message"])
    assert "higher 'timeout'" in found["hint"]


def test_silence_has_a_limit_of_its_own(bench: Bench) -> None:
    found = error(bench.run(f"{SH}sleep 60\n", idle_timeout=0.3))
    assert (found["code"], "said nothing for too long" in found["message"]) == ("timeout", True)
    chatty = f'{SH}for i in 1 2 3 4 5; do echo "strands:progress $i" >&2; sleep 0.2; done; echo done\n'
    assert text_of(bench.run(chatty, idle_timeout=0.6)) == "done"


def test_progress_is_told_while_it_runs_and_is_no_part_of_an_error(bench: Bench) -> None:
    script = "echo 'strands:progress {\"done\": 1, \"of\": 2}' >&2; echo 'strands:progress half' >&2; echo bad >&2; exit 1"
    found = error(bench.run(f"{SH}{script}\n"))
    said = [event.data for event in bench.events if isinstance(event, ToolProgress)]
    assert said == [{"done": 1, "of": 2}, "half"]
    assert found["message"] == "p__t ended with exit status 1: bad"


def test_a_cancelled_call_ends_with_all_that_it_started(bench: Bench) -> None:
    tool = bench.tool(f"{SH}sleep 60 & sleep 60\n")

    async def cancelled() -> Any:
        cancel = Cancellation()
        call = asyncio.create_task(bench.ask(tool, cancel=cancel))
        await until(lambda: len(bench.survivors()) >= 3)
        cancel.set()
        return await call

    assert error(asyncio.run(cancelled()))["code"] == "cancelled"
    assert bench.nothing_survives()


def test_retries_are_made_for_what_may_pass(bench: Bench) -> None:
    script = f"{SH}echo x >> out; test $(wc -l < out) -ge 3 && echo done || exit 75\n"
    keys = {"retries": 3, "annotations": {"idempotentHint": True}, "files": {"write": ["."]}, "mode": "fresh"}
    assert text_of(bench.run(script, **keys)) == "done"


def test_many_calls_at_once_keep_apart(bench: Bench) -> None:
    tool = bench.tool(
        f"{PYTHON}import json, sys\nprint(json.dumps({{'n': json.load(sys.stdin)['n'] * 2}}))\n"
    )

    async def many() -> list[Any]:
        return await asyncio.gather(*(bench.ask(tool, {"n": n}) for n in range(24)))

    assert [json_of(result)["n"] for result in asyncio.run(many())] == [2 * n for n in range(24)]


# --- Settings ---------------------------------------------------------------------------------------------

SHOW = f'{SH}echo "$P_LEVEL $KEY"\n'
CONFIG = {"level": {"type": "integer", "default": 3}, "key": {"sensitive": True, "env": "KEY"}}


def test_settings_come_from_the_environment_or_their_default(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "sesame-open")
    assert text_of(bench.run(SHOW, config=CONFIG)) == "3 ***"
    monkeypatch.setenv("P_LEVEL", "7")
    assert text_of(bench.run(SHOW, config=CONFIG)).startswith("7 ")
    monkeypatch.setenv("P_LEVEL", "high")
    found = error(bench.run(SHOW, config=CONFIG))
    assert (found["code"], "'level' (P_LEVEL) is not an integer" in found["message"]) == ("unavailable", True)


def test_a_setting_without_a_value_makes_a_tool_unavailable(bench: Bench) -> None:
    found = error(bench.run(SHOW, config=CONFIG))
    assert found["code"] == "unavailable"
    assert "the setting 'key' has no value" in found["message"]
    assert "set KEY." in found["hint"]
    assert "keyring set strands-cli:p key" in found["hint"]
    optional = {"level": {"required": False, "type": "integer"}}
    assert text_of(bench.run(f'{SH}echo "level:$P_LEVEL"\n', config=optional)) == "level:"


def test_a_secret_is_shown_nowhere(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "sesame-open")
    script = 'echo "strands:progress $KEY" >&2; echo "log $KEY" >&2; echo "{\\"$KEY\\": [\\"x$KEY\\"]}"'
    good = bench.run(f"{SH}{script}\n", config=CONFIG)
    bad = bench.run(f"{SH}{script}; exit 1\n", config=CONFIG)
    missing = bench.run(f'{SH}cat "/nowhere/$KEY"\n', config=CONFIG)
    shown = f"{good} {bad} {missing} {bench.events}"
    assert "***" in shown
    assert "sesame" not in shown


def test_only_the_tool_that_declares_a_setting_gets_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY", "sesame-open")
    assert "KEY" not in text_of(bench.run(f"{SH}env\n"))


def test_a_secret_may_be_kept_in_the_keyring(bench: Bench) -> None:
    if find_spec("keyring") is None:
        if os.environ.get("STRANDS_TEST_REQUIRE") == "all":
            pytest.fail("the package keyring is missing")
        pytest.skip("the package keyring is missing")
    program = f"""
import asyncio, keyring, keyring.backend
class Kept(keyring.backend.KeyringBackend):
    priority = 1
    def get_password(self, service, username): return f"{{service}}/{{username}}"
    def set_password(self, service, username, password): pass
    def delete_password(self, service, username): pass
keyring.set_keyring(Kept())
from pathlib import Path
from tests.plugins.makers import Bench
from strands_cli.plugins.plugin import read_plugin
from strands_cli.plugins.manifest import configure_plugin_tool
plugin = read_plugin(Path({str(bench.project / "plugins" / "p")!r})).plugin
print(asyncio.run(configure_plugin_tool(plugin.manifest, plugin.manifest.cli_tools[0], {{}})).environment["KEY"])
"""
    bench.plugin({"source": SHOW, "config": CONFIG})
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "strands-cli:p/key", done.stderr


# --- Availability and approval ----------------------------------------------------------------------------


def test_what_a_tool_requires_makes_it_unavailable(bench: Bench) -> None:
    found = error(
        bench.run(f"{SH}echo hi\n", requires={"binaries": ["no-such-program"]}, platforms=["darwin"])
    )
    assert found["code"] == "unavailable"
    assert "no-such-program is not on the PATH" in found["message"]
    assert "it runs on darwin only" in found["message"]


def test_a_tool_that_only_reads_has_answered_when_its_json_is_complete(bench: Bench) -> None:
    keys = {"annotations": {"readOnlyHint": True}, "timeout": 5}
    started = time.monotonic()
    assert json_of(bench.run(f"{SH}echo '{{\"a\": 1}}'; sleep 60\n", **keys)) == {"a": 1}
    assert time.monotonic() - started < 2
    assert bench.nothing_survives()
    assert json_of(bench.run(f"{SH}echo '{{'; sleep 0.1; echo '\"a\": 1}}'; exit 3\n", **keys)) == {"a": 1}
    (bench.project / "message").write_text('{"error": "no"}\n')
    assert error(bench.run(f"{SH}cat message; sleep 60\n", **keys))["message"] == "no"
    assert error(bench.run(f"{SH}echo text; exit 3\n", **keys))["message"].endswith("exit status 3: text")
    assert error(bench.run(f"{SH}echo '{{\"a\": 1}}'; exit 3\n"))["code"] == "failed"


def test_a_changed_plugin_does_not_run_until_it_is_approved_again(bench: Bench) -> None:
    tool = bench.tool(f"{SH}echo one\n")
    place, lock = bench.project / "plugins" / "p", bench.project / "strands-plugins.lock"

    def approve() -> None:
        write_decision(lock, Lock(plugins={"plugins/p": Approved(files=plugin_digests(place))}))

    approve()
    assert text_of(bench.call(tool)) == "one"
    (place / "cli-tools" / "t").write_text(f"{SH}echo two\n")
    found = error(bench.call(tool))
    assert found["code"] == "denied"
    assert "changed: cli-tools/t" in found["message"]
    assert "strands plugin update p" in found["hint"]
    approve()
    assert text_of(bench.call(tool)) == "two"
    lock.write_text("{")
    assert error(bench.call(tool))["code"] == "denied"


def test_an_interpreter_that_is_not_there_is_told(bench: Bench) -> None:
    found = error(bench.run("#!/usr/bin/no-such-interpreter\n"))
    assert found["code"] == "unavailable"
    assert "interpreter of its first line" in found["hint"]


def test_node_tools_have_the_memory_they_need(bench: Bench) -> None:
    need("node")
    assert json_of(bench.run(f"{NODE}console.log(JSON.stringify({{v: process.version.length}}))\n"))["v"] > 3


# --- What a tool says beside an answer that is a success ----------------------------------------------------

REFUSED = "The sandbox refused something during this call, so its answer may be wrong. It tried to write"


def stderr_of(bench: Bench) -> list[tuple[str, str]]:
    return [(event.text, event.refused) for event in bench.events if isinstance(event, ToolStderr)]


def test_standard_error_of_a_success_is_an_event_without_progress(bench: Bench) -> None:
    script = "echo 'strands:progress half' >&2; echo '3 files skipped' >&2; echo '{\"ok\": true}'"
    answer = bench.run(f"{SH}{script}\n")
    assert answer["content"] == [{"json": {"ok": True}}]
    assert stderr_of(bench) == [("3 files skipped", "")]


def test_standard_error_of_a_failure_is_in_its_error_and_no_event(bench: Bench) -> None:
    assert "bad" in error(bench.run(f"{SH}echo bad >&2; exit 1\n"))["message"]
    assert stderr_of(bench) == []


def test_secrets_are_hidden_in_standard_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hush-hush")
    config = {"token": {"sensitive": True, "env": "TOKEN"}}
    bench.run(f"{SH}echo uses $TOKEN >&2; echo ok\n", config=config)
    assert stderr_of(bench) == [("uses ***", "")]


@pytest.mark.parametrize(
    "script",
    [
        "echo x > new.txt\necho '{\"ok\": true}'",
        "echo x > sub/new.txt\necho '{\"ok\": true}'",
        'said=$(rm sub/old.txt 2>&1)\necho "{\\"ok\\": true, \\"output\\": \\"$said\\"}"',
        "touch sub/new.txt\necho done",
    ],
    ids=["a bare name", "a path", "inside the answer", "a text"],
)
def test_a_refused_write_of_a_success_comes_with_a_remark(bench: Bench, script: str) -> None:
    (bench.project / "sub").mkdir()
    (bench.project / "sub" / "old.txt").write_text("old")
    answer = bench.run(f"{BASH}{script}\n")
    assert answer["status"] == "success"
    remark = answer["content"][-1]["text"]
    assert remark.startswith(f"{REFUSED} {bench.project}/"), answer
    assert "files.write" in remark
    refused = [event.refused for event in bench.events if isinstance(event, ToolStderr)]
    assert refused == [remark.removeprefix(REFUSED.removesuffix("It tried to write"))]


@pytest.mark.parametrize(
    "script",
    [
        "cat sub/none.txt; cat /nowhere/none.txt",
        "echo 'sub/old.txt: Permission denied' >&2",
        "echo x > sub/old.txt",
        "echo 'the system is a read-only file system' >&2",
    ],
    ids=["a missing file", "a file that nobody may write", "a declared write", "no file at all"],
)
def test_other_complaints_of_a_success_come_without_a_remark(bench: Bench, script: str) -> None:
    (bench.project / "sub").mkdir()
    (bench.project / "sub" / "old.txt").write_text("old")
    write = ["sub"] if "Permission" not in script else []
    if not write:
        (bench.project / "sub" / "old.txt").unlink()
        (bench.project / "sub").rmdir()
    answer = bench.run(f"{BASH}{script}\necho '{{\"ok\": true}}'\n", files={"write": write})
    assert answer["content"] == [{"json": {"ok": True}}]


def test_the_seeds_format_that_changes_nothing_says_why(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    need("jq", "bash")
    program = bench.project / "plugins" / "p" / "bin" / "prettier"
    program.parent.mkdir(parents=True)
    program.write_text(f'{SH}echo formatted > "$2"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    (bench.project / "a.js").write_text("a  =  1")
    answer = bench.run(FORMAT, {"file": "a.js"})
    assert (bench.project / "a.js").read_text() == "a  =  1"
    assert f"{REFUSED} {bench.project}/a.js: declare" in text_of(answer)
    text_of(bench.run(FORMAT, {"file": "a.js"}, files={"write": ["."]}))
    assert (bench.project / "a.js").read_text() == "formatted\n"


def test_the_standard_error_of_a_worker_is_logged(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "strands_cli.plugins")
    source = f"{PYTHON}import json, sys\nfor line in sys.stdin:\n    print('working', file=sys.stderr, flush=True)\n"
    answer = "    print(json.dumps({'id': json.loads(line)['id'], 'result': 1}), flush=True)\n"
    assert bench.run(source + answer, mode="worker")["status"] == "success"
    assert "p__t wrote to standard error: working" in caplog.text


def test_debug_shows_the_standard_error_of_a_success(project: Project) -> None:
    project.write("plugins/p/t.sh", f"{SH}echo careful >&2; echo ok\n").chmod(0o755)
    manifest = {"name": "p", "cli_tools": [{"name": "t", "path": "t.sh", "description": "T."}]}
    project.write("plugins/p/plugin.json", json.dumps(manifest))
    assert "careful" not in project.strands("tool", "call", "p__t").err
    assert "careful" in project.strands("--debug", "tool", "call", "p__t").err


def test_a_trace_has_the_standard_error_of_a_success_where_outputs_are_shown(bench: Bench) -> None:
    tool = bench.tool(f"{BASH}echo x > new.txt\necho ok\n")
    shown, hidden = Trace(Redact(tool_inputs=False, tool_outputs=False)), Trace()
    bench.call(tool, emit=shown)
    bench.call(tool, emit=hidden)
    (entry,), (short,) = (trace.document()["outside"]["tools"] for trace in (shown, hidden))
    assert "new.txt: " in entry["stderr"]
    assert entry["refused"].startswith(f"It tried to write {bench.project}/new.txt")
    assert short["refused"] == entry["refused"]
    assert "stderr" not in short


# --- Programs outside system directories ---------------------------------------------------------------------

PROGRAM = f'{SH}echo \'{{"ran": "elsewhere"}}\'\n'


def install(place: Path, text: str = PROGRAM) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(0o755)
    return place


@pytest.fixture
def user_home(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with a secret in it; no system directory has a program called `elsewhere`."""
    home = bench.root / "home"
    (home / ".local" / "share").mkdir(parents=True)
    (home / ".local" / "share" / "secret").write_text("secret")
    monkeypatch.setenv("HOME", str(home))
    path = [home / ".local/bin", home / ".nvm/versions/node/v20/bin", home / ".pyenv/shims"]
    monkeypatch.setenv("PATH", os.pathsep.join([*map(str, path), os.environ["PATH"]]))
    return home


@pytest.mark.parametrize("place", [".local/bin", ".nvm/versions/node/v20/bin", ".pyenv/shims"])
@pytest.mark.parametrize("way", ["interpreter", "requirement"])
def test_a_program_of_the_users_path_can_be_called(
    bench: Bench, user_home: Path, place: str, way: str
) -> None:
    install(user_home / place / "elsewhere")
    if way == "interpreter":
        answer = bench.run("#!/usr/bin/env elsewhere\n")
    else:
        answer = bench.run(f"{SH}elsewhere\n", requires={"binaries": ["elsewhere"]})
    assert json_of(answer) == {"ran": "elsewhere"}


def test_a_program_brings_what_it_is_installed_with_and_nothing_of_a_shared_directory(
    bench: Bench, user_home: Path
) -> None:
    tree = user_home / ".local/share/pipx/venvs/tool"
    install(tree / "bin" / "tool", "#!/usr/bin/env elsewhere\n")
    (user_home / ".local/bin").mkdir()
    (user_home / ".local/bin/tool").symlink_to(tree / "bin" / "tool")
    (tree / "lib").mkdir()
    (tree / "lib" / "part").write_text("part")
    secret = user_home / ".local/share/secret"
    found = f"{SH}cat {tree}/lib/part; cat {secret} 2>/dev/null || echo ' and no secret'\n"
    install(user_home / ".nvm/versions/node/v20/bin/elsewhere", found)
    assert text_of(bench.run(f"{SH}tool\n", requires={"binaries": ["tool"]})) == "part and no secret"


@pytest.mark.parametrize(
    "way", ["home", "directory below home", "shims", "repository", "no libraries", "link"]
)
def test_a_program_never_brings_a_directory_that_holds_more_than_programs(
    bench: Bench, user_home: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    place = {
        "home": "bin/tool",
        "directory below home": ".local/bin/tool",
        "shims": "shims/tool",
        "repository": "work/project/bin/tool",
        "no libraries": "work/notes/bin/tool",
        "link": ".local/bin/tool",
    }[way]
    (user_home / "versions").mkdir()
    program = install(user_home / place)
    secret = program.parent.parent / "secret"
    secret.write_text("secret")
    if way == "repository":
        (secret.parent / "lib").mkdir()
        (secret.parent / ".git").mkdir()
    name = "tool"
    if way == "link":
        (bench.project / "plugins/p").mkdir(parents=True, exist_ok=True)
        (bench.project / "plugins/p/tree").symlink_to(user_home / ".local")
        name = str(bench.project / "plugins/p/tree/bin/tool")
    elif way in ("home", "directory below home"):  # as where /home leads to /var/home
        (bench.root / "homes").symlink_to(user_home.parent)
        monkeypatch.setenv("HOME", str(bench.root / "homes/home"))
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    script = f"#!{name}\n" if way == "link" else f"{SH}cat {secret} 2>/dev/null || tool\n"
    install(program, f"{SH}cat {secret} 2>/dev/null || echo hidden\n")
    requires = {} if way == "link" else {"binaries": [name]}
    assert text_of(bench.run(script, requires=requires)) == "hidden"


def test_a_system_program_is_used_before_another_of_its_name(bench: Bench, user_home: Path) -> None:
    install(user_home / ".nvm/versions/node/v20/bin/cat")
    assert json_of(bench.run(f"{SH}cat\n", {"a": 1}, requires={"binaries": ["cat"]})) == {"a": 1}


def test_a_program_that_is_not_declared_is_named_with_the_remedy(bench: Bench, user_home: Path) -> None:
    install(user_home / ".nvm/versions/node/v20/bin/elsewhere")
    refused = error(bench.run(f"{BASH}elsewhere\n"))
    assert "elsewhere: command not found" in refused["message"]
    assert "add 'elsewhere' to `requires.binaries`" in refused["hint"]
    remark = text_of(bench.run(f"{BASH}elsewhere\necho done\n"))
    assert "add 'elsewhere' to `requires.binaries`" in remark


@pytest.mark.parametrize("first", ["#!/usr/bin/env elsewhere", "#!{}"])
def test_a_program_outside_system_directories_is_shown_with_what_a_tool_may_touch(
    bench: Bench, user_home: Path, first: str
) -> None:
    program = install(user_home / ".nvm/versions/node/v20/bin/elsewhere")
    bench.tool(f"{first.format(program)}\n")
    assert f"programs: runs {program}" in Project(bench.project).strands("plugin", "list", "-v").out


@pytest.mark.parametrize(
    "said", ["settings: not found", "warning: key: not found", "sh: 1: no-such: not found"]
)
def test_what_a_program_did_not_find_by_itself_is_not_a_refusal(bench: Bench, said: str) -> None:
    assert text_of(bench.run(f"{SH}echo '{said}' >&2\necho ok\n")) == "ok"
    if "no-such" not in said:
        assert "PATH" not in error(bench.run(f"{SH}echo '{said}' >&2\nexit 1\n")).get("hint", "")


def test_an_interpreter_that_nobody_has_makes_a_tool_unavailable_everywhere(bench: Bench) -> None:
    tool = bench.tool("#!/usr/bin/env no-such-interpreter\n")
    missing = "the program no-such-interpreter is not on the PATH"
    refused = error(bench.call(tool))
    assert refused["code"] == "unavailable"
    assert missing in refused["message"]
    project = Project(bench.project)
    assert missing in project.strands("list-tools").out
    assert project.strands("plugin", "update", "p", "--yes").exit_code == 0  # it gets a variable
    assert missing in project.strands("plugin", "test", "p").out


def test_env_itself_is_never_the_file_that_is_missing(bench: Bench) -> None:
    refused = error(bench.run(f"{SH}/usr/bin/env no-such-program\n"))
    assert "The program no-such-program is not on the PATH" in refused["hint"]
    assert "/usr/bin/env:" not in refused["hint"]
