"""`python_exec` and its sandbox: texts, values, files, sessions, tools, time, and what dies with what."""

import asyncio
import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strands_cli import CallContext, call_tool, get_registry, tool
from strands_cli.errors import ToolFailed
from strands_cli.sandbox import python_code
from strands_cli.sandbox.launcher import ZYGOTES, ZygoteHandle
from strands_cli.sandbox.profile import ALL_LAYERS, PYTHON_PROFILE
from strands_cli.sandbox.python_code import PythonOutcome, run_python
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.results import ToolResult, error_of
from strands_cli.tools.python_exec import MAX_CALLS, TOOL_SPEC, python_exec
from tests.projects import Project

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confined processes need Linux")

NO_OUTPUT = "Code executed successfully (no output)"


@pytest.fixture(autouse=True)
def no_sessions_left() -> Iterator[None]:
    yield
    python_code.SESSIONS.close()


def run(code: str, **arguments: Any) -> ToolResult:
    context = CallContext(resolve=_resolve)
    return asyncio.run(call_tool(python_exec, {"input": {"code": code, **arguments}}, context))


def _resolve(reference: str) -> Tool:
    return get_registry().load(reference)


def text_of(result: ToolResult) -> str:
    return str(result["content"][0]["text"])


def report_of(result: ToolResult) -> dict[str, Any]:
    assert result["status"] == "success", result
    report: dict[str, Any] = result["content"][1]["json"]
    return report


def failure_of(result: ToolResult) -> dict[str, Any]:
    error = error_of(result)
    assert error is not None, result
    return error


def outcome_of(code: str, seconds: float = 5.0, **options: Any) -> PythonOutcome:
    profile = msgspec.structs.replace(PYTHON_PROFILE, seconds=seconds)
    return asyncio.run(run_python(code, profile=profile, **options))


# --- The guide's texts ------------------------------------------------------------------------------------


def test_what_is_printed_is_the_text() -> None:
    assert text_of(run("print('Hello'); print(6 * 7)")) == "Hello\n42\n"


def test_code_that_prints_nothing_says_so() -> None:
    assert text_of(run("x = 1")) == NO_OUTPUT


@pytest.mark.parametrize("code", ["", "  \n"])
def test_no_code_is_refused(code: str) -> None:
    assert text_of(run(code)) == "No code provided"


def test_an_exception_is_told_with_type_text_and_line() -> None:
    result = run("x = 1\nprint('so far')\nx / 0")
    assert text_of(result).startswith("Execution failed: ZeroDivisionError: division by zero")
    error = failure_of(result)
    assert error["code"] == "failed"
    assert error["details"] == [{"type": "ZeroDivisionError", "line": 3, "stdout": "so far\n"}]


def test_a_syntax_error_is_told_with_its_line() -> None:
    error = failure_of(run("x = 1\ny = (2"))
    assert error["message"].startswith("Execution failed: SyntaxError: '(' was never closed")
    assert error["details"][0]["line"] == 2


def test_the_spec_is_the_guides_with_an_enforced_timeout() -> None:
    schema: Any = TOOL_SPEC["inputSchema"]
    properties = schema["json"]["properties"]
    assert schema["json"]["required"] == ["code"]
    assert properties["timeout"] == {
        "type": "integer",
        "default": 5,
        "minimum": 1,
        "maximum": 60,
        "description": "Timeout in seconds, after which the code is stopped",
    }


def test_a_direct_call_works_as_in_the_guide() -> None:
    result = python_exec({"toolUseId": "test-1", "input": {"code": "print(sum(range(10)))"}})
    assert result["toolUseId"] == "test-1"
    assert result["status"] == "success"
    assert result["content"][0]["text"] == "45\n"


def test_the_command_prints_text_and_value(project: Project) -> None:
    outcome = project.strands("tool", "call", "python_exec", "code=print('hi'); [1, 2]", "--json")
    assert outcome.json["content"] == [{"text": "hi\n"}, {"json": {"value": [1, 2]}}]


# --- Values and streams -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "report"),
    [
        ("6 * 7", {"value": 42}),
        ("x = 1", {"value": None}),
        ("2 ** 100", {"value": 2**100}),
        ("{'a': [1, 2.5, None, True, 'ü']}", {"value": {"a": [1, 2.5, None, True, "ü"]}}),
        ("(1, 2)", {"value": [1, 2]}),
        ("{1}", {"repr": "{1}"}),
        ("float('nan')", {"repr": "nan"}),
        ("class A:\n    def __repr__(self): raise KeyError\nA()", {"repr": "<A; its repr raises KeyError>"}),
        ("import sys; sys.exit(0)", {"value": None}),
    ],
)
def test_the_last_expression_is_the_value(code: str, report: dict[str, Any]) -> None:
    assert report_of(run(code)) == report


def test_stderr_comes_apart_from_stdout() -> None:
    result = run("import sys; print('out'); print('err', file=sys.stderr)")
    assert text_of(result) == "out\n"
    assert report_of(result)["stderr"] == "err\n"


def test_a_flood_of_output_is_capped_and_counted() -> None:
    outcome = outcome_of("for _ in range(300): print('x' * 9999)")
    assert len(outcome.stdout) == PYTHON_PROFILE.output_bytes
    assert outcome.dropped_bytes == 3_000_000 - PYTHON_PROFILE.output_bytes


def test_a_value_that_is_too_long_is_cut() -> None:
    outcome = outcome_of("'x' * 5_000_000")
    assert outcome.value is None
    assert outcome.representation is not None
    assert len(outcome.representation) == PYTHON_PROFILE.output_bytes


def test_threads_are_waited_for_and_asyncio_works() -> None:
    code = """
import asyncio, threading, time
def later():
    time.sleep(0.05)
    print('from a thread')
threading.Thread(target=later).start()
async def main():
    await asyncio.sleep(0.01)
    return await asyncio.to_thread(lambda: 5)
asyncio.run(main())
"""
    result = run(code)
    assert text_of(result) == "from a thread\n"
    assert report_of(result)["value"] == 5


def test_time_zones_are_there() -> None:
    code = "from zoneinfo import ZoneInfo\nfrom datetime import datetime\n"
    code += "datetime(2026, 7, 1, tzinfo=ZoneInfo('Europe/Berlin')).isoformat()"
    assert report_of(run(code))["value"] == "2026-07-01T00:00:00+02:00"


def test_a_module_that_is_not_there_says_what_is() -> None:
    error = failure_of(run("import numpy"))
    assert error["message"] == "Execution failed: ModuleNotFoundError: No module named 'numpy'"
    assert "Only the standard library is available." in error["hint"]


# --- Files ------------------------------------------------------------------------------------------------


def test_files_go_in_and_come_back() -> None:
    code = """
import pathlib
rows = open('data.csv').read().splitlines()
pathlib.Path('out').mkdir()
pathlib.Path('out/upper.csv').write_text('\\n'.join(row.upper() for row in rows))
with open('blob.bin', 'ab') as file:
    file.write(b'\\xff')
"""
    blob = {"base64": base64.b64encode(b"\xfe").decode()}
    report = report_of(run(code, files={"data.csv": "a\nb", "blob.bin": blob}))
    assert report["files"] == {
        "out/upper.csv": "A\nB",
        "blob.bin": {"base64": base64.b64encode(b"\xfe\xff").decode()},
    }


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("import os; sorted(os.listdir('/'))", ["a.txt", "tmp"]),
        ("import os; os.rename('a.txt', 'b.txt'); open('b.txt').read()", "one\ntwo\n"),
        ("import os; os.remove('a.txt'); os.path.exists('a.txt')", False),
        ("import os; os.getcwd(), os.path.getsize('a.txt')", ["/", 8]),
        ("[line for line in open('a.txt')]", ["one\n", "two\n"]),
        ("import pathlib; [str(p) for p in pathlib.Path('.').glob('*.txt')]", ["a.txt"]),
        ("import csv; list(csv.reader(open('a.txt')))", [["one"], ["two"]]),
        ("import os; os.makedirs('x/y'); os.chdir('x'); open('f', 'x').close(); os.listdir()", ["f", "y"]),
        (
            "import tempfile, os\nwith tempfile.TemporaryDirectory() as d: open(d + '/f', 'w').write('1')",
            None,
        ),
        ("f = open('a.txt', 'r+'); f.write('ONE'); f.seek(0); f.read()", "ONE\ntwo\n"),
        (
            "import shutil; shutil.copyfile('a.txt', 'c.txt'); open('c.txt', 'rb').read().decode()",
            "one\ntwo\n",
        ),
    ],
)
def test_the_files_in_memory_behave_like_files(code: str, value: object) -> None:
    assert report_of(run(code, files={"a.txt": "one\ntwo\n"}))["value"] == value


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("open('missing.txt')", "FileNotFoundError"),
        ("open('/etc/hostname')", "FileNotFoundError"),
        ("open('a.txt', 'x')", "FileExistsError"),
        ("open('/')", "IsADirectoryError"),
        ("open('nowhere/a.txt', 'w')", "FileNotFoundError"),
        ("open('a.txt').write('x')", "UnsupportedOperation"),
        ("open('a.txt', 'rw')", "ValueError"),
        ("import os; os.mkdir('a.txt')", "FileExistsError"),
        ("import os; os.rmdir('missing')", "FileNotFoundError"),
        ("import os; os.open('/etc/hostname', os.O_RDONLY)", "PermissionError"),
    ],
)
def test_what_is_not_there_cannot_be_opened(code: str, kind: str) -> None:
    assert failure_of(run(code, files={"a.txt": "x"}))["details"][0]["type"] == kind


def test_a_file_that_is_not_base64_is_refused() -> None:
    error = failure_of(run("1", files={"a.bin": {"base64": "%"}}))
    assert error["code"] == "input_invalid"
    assert "'a.bin' is not base64" in error["message"]


def test_files_beyond_the_limit_do_not_come_back() -> None:
    error = failure_of(run("open('big', 'wb').write(bytes(11_000_000))"))
    assert "11000000 bytes; 10000000 can be returned" in error["message"]


# --- Sessions ---------------------------------------------------------------------------------------------


def test_a_session_keeps_variables_and_files() -> None:
    first = run("x = 41\nopen('a.txt', 'w').write('hi')", session="s")
    assert report_of(first)["session"] == {"name": "s", "new": True}
    second = report_of(run("x += 1\n(x, open('a.txt').read())", session="s"))
    assert second == {"value": [42, "hi"], "session": {"name": "s", "new": False}}


def test_without_a_session_nothing_is_kept() -> None:
    run("import builtins; builtins.leak = x = 1")
    assert "name 'x' is not defined" in failure_of(run("x"))["message"]
    assert "name 'leak' is not defined" in failure_of(run("leak"))["message"]


def test_sessions_do_not_see_each_other() -> None:
    run("x = 1", session="one")
    assert "name 'x' is not defined" in failure_of(run("x", session="two"))["message"]


def test_an_exception_leaves_the_session_alive() -> None:
    run("x = 1", session="s")
    run("1 / 0", session="s")
    assert report_of(run("x", session="s"))["value"] == 1


def test_a_timeout_ends_the_session_and_says_so() -> None:
    run("x = 1", session="s")
    error = failure_of(run("while True: pass", session="s", timeout=1))
    assert error["code"] == "timeout"
    assert "The session 's' ended with it" in error["hint"]
    assert report_of(run("2", session="s"))["session"]["new"] is True


def test_calls_of_one_session_take_turns_and_their_number_is_bounded() -> None:
    async def calls() -> list[Any]:
        await run_python("n = 0", session="s")
        code = "import time\nm = n\ntime.sleep(0.02)\nn = m + 1\nn"
        outcomes = await asyncio.gather(*(run_python(code, session="s") for _ in range(5)))
        for number in range(20):
            await run_python("1", session=f"other-{number}")
        again = await run_python("n", session="s")
        return [sorted(outcome.value for outcome in outcomes), again.error and again.error.type]

    assert asyncio.run(calls()) == [[1, 2, 3, 4, 5], "NameError"]


# --- Tools ------------------------------------------------------------------------------------------------


def test_code_calls_tools_by_either_name() -> None:
    code = "call_tool('echo', message='hi'), tools.calculator(expression='2 + 3')"
    assert report_of(run(code))["value"] == ["hi", "5"]


def test_a_tool_that_fails_raises_in_the_code() -> None:
    code = "try:\n    tools.echo(message='')\nexcept RuntimeError as error:\n    print(error, error.code)"
    assert text_of(run(code)) == "No message provided failed\n"


def test_an_unknown_tool_is_named() -> None:
    assert "ToolCallError: Unknown tool: ecko" in failure_of(run("tools.ecko()"))["message"]


def test_the_number_of_calls_is_bounded() -> None:
    code = f"for _ in range({MAX_CALLS}): tools.echo(message='x')\ntools.echo(message='x')"
    assert f"limit of {MAX_CALLS} tool calls" in failure_of(run(code))["message"]


def test_a_call_that_the_run_does_not_permit_is_refused() -> None:
    async def permit(asked: Tool, _arguments: dict[str, Any]) -> None:
        if asked.id == "echo":
            raise ToolFailed("echo is not allowed here", code="denied")

    context = CallContext(resolve=_resolve, permit=permit)
    code = "try:\n    tools.echo(message='x')\nexcept RuntimeError as error:\n    print(error.code)"
    result = asyncio.run(call_tool(python_exec, {"input": {"code": code}}, context))
    assert text_of(result) == "denied\n"


def test_a_slow_tool_does_not_outlive_the_code() -> None:
    @tool
    async def slow() -> str:
        """Takes long."""
        await asyncio.sleep(30)
        return "late"

    context = CallContext(resolve=lambda _reference: slow)
    started = time.monotonic()
    call = {"input": {"code": "tools.slow()", "timeout": 1}}
    error = failure_of(asyncio.run(call_tool(python_exec, call, context)))
    assert error["code"] == "timeout"
    assert time.monotonic() - started < 5


# --- Time and limits --------------------------------------------------------------------------------------


def test_a_timeout_is_answered_near_its_limit_with_what_was_printed() -> None:
    started = time.monotonic()
    error = failure_of(run("print('before')\nwhile True:\n    pass", timeout=1))
    assert 0.9 < time.monotonic() - started < 4
    assert error["code"] == "timeout"
    assert error["message"] == "Execution failed: TimeoutError: the code did not end within 1 s"
    assert error["details"][0]["stdout"] == "before\n"
    assert error["details"][0]["line"] in (2, 3)


@pytest.mark.parametrize(
    "code", ["import re; re.match('(a+)+$', 'a' * 40 + 'b')", "10 ** 10 ** 8", "2 ** 10 ** 10"]
)
def test_code_that_never_looks_up_is_stopped_too(code: str) -> None:
    started = time.monotonic()
    outcome = outcome_of(code, seconds=0.5)
    assert outcome.error is not None
    assert time.monotonic() - started < 4


def test_memory_is_bounded() -> None:
    assert failure_of(run("x = [0] * 10**9"))["details"][0]["type"] == "MemoryError"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import os; os._exit(3)", "exit status 3"),
        ("import os; os.write(3, b'V\\0\\0\\0\\x02[]')\nwhile True: pass", "tampered"),
        ("import os; os.write(3, b'V\\0\\0\\0\\x03NaN')\nwhile True: pass", "tampered"),
        ("import os; os.write(3, b'F\\0\\0\\0\\x02\\xff\\xff')\nwhile True: pass", "tampered"),
        ("import os; os.write(3, b'F\\0\\0\\0\\x09\\0\\x05../ab__')\nwhile True: pass", "tampered"),
        ("import os; os.write(3, b'F\\0\\0\\0\\x09\\0\\x05/et/a__')\nwhile True: pass", "tampered"),
        ("import os; os.write(3, b'X\\0\\0\\0\\x02no')\nwhile True: pass", "not confined"),
        ("import os\nwhile True: os.write(3, b'O\\0\\0\\0\\0' * 1000)", "more than it may"),
        (
            "import os; os.write(3, b'V\\xff\\0\\0\\0')\nwhile True: os.write(3, bytes(60000))",
            "more than it may",
        ),
    ],
)
def test_forged_or_missing_answers_are_told_as_such(code: str, message: str) -> None:
    outcome = outcome_of(code)
    assert outcome.error is not None
    assert outcome.error.type == "SandboxError"
    assert message in outcome.error.message


def test_sixteen_calls_at_once_keep_their_own_deadlines() -> None:
    async def one(number: int) -> tuple[bool, float]:
        if number % 2:
            return (await run_python("import time; time.sleep(0.1); 7")).value == 7, 0.0
        seconds = 0.5 + number * 0.05
        started = time.monotonic()
        profile = msgspec.structs.replace(PYTHON_PROFILE, seconds=seconds)
        outcome = await run_python("while True: pass", profile=profile)
        return outcome.timed_out, time.monotonic() - started - seconds

    async def sixteen() -> list[tuple[bool, float]]:
        await run_python("1")
        return await asyncio.gather(*(one(number) for number in range(16)))

    outcomes = asyncio.run(sixteen())
    assert all(is_right for is_right, _ in outcomes)
    assert max(late for _, late in outcomes) < 1.5


def test_calls_from_several_loops_and_threads_work() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as threads:
        values = list(threads.map(lambda number: outcome_of(f"{number} * 2").value, range(12)))
    assert values == [number * 2 for number in range(12)]


def test_a_cancelled_call_leaves_no_process_and_no_descriptor() -> None:
    async def cancelled() -> tuple[int, int, int]:
        await run_python("1")
        zygote = _zygote()
        await _until(lambda: len(_descendants(zygote.process.pid)) == 2)
        before = _open_files("/proc/self/fd")
        call = asyncio.create_task(run_python("while True: pass"))
        await _until(lambda: len(_descendants(zygote.process.pid)) == 2)
        await asyncio.sleep(0.1)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await _until(lambda: len(_descendants(zygote.process.pid)) == 2)
        return before, _open_files("/proc/self/fd"), len(_descendants(zygote.process.pid))

    before, after, processes = asyncio.run(cancelled())
    assert (after, processes) == (before, 2)  # the first process of the PID namespace, and the parked child


# --- What dies with what ----------------------------------------------------------------------------------


def _zygote() -> ZygoteHandle:
    return ZYGOTES.get(ALL_LAYERS).result()


def _descendants(process: int) -> list[int]:
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []
    return [pid for child in children for pid in (int(child), *_descendants(int(child)))]


async def _until(is_true: Any, seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not is_true() and time.monotonic() < end:  # noqa: ASYNC110 - the kernel sends no event
        await asyncio.sleep(0.01)


def _open_files(folder: str) -> int:
    return len(list(Path(folder).iterdir()))


@pytest.mark.parametrize("victim", ["launcher", "zygote"])
def test_a_killed_zygote_is_replaced_and_no_call_is_lost(victim: str) -> None:
    async def calls() -> list[Any]:
        await run_python("1")
        zygote = _zygote()
        running_calls = [asyncio.create_task(run_python("import time; time.sleep(0.4); 7")) for _ in range(4)]
        await asyncio.sleep(0.2)
        process = zygote.process.pid if victim == "launcher" else _descendants(zygote.process.pid)[0]
        os.kill(process, signal.SIGKILL)
        values = [outcome.value for outcome in await asyncio.gather(*running_calls)]
        assert _zygote() is not zygote
        return values

    assert asyncio.run(calls()) == [7, 7, 7, 7]


def test_code_that_has_called_a_tool_is_not_run_again() -> None:
    async def call() -> ToolResult:
        context = CallContext(resolve=_resolve)
        code = "tools.echo(message='x')\nimport time; time.sleep(3)"
        running_call = asyncio.create_task(call_tool(python_exec, {"input": {"code": code}}, context))
        await asyncio.sleep(1)
        _zygote().process.kill()
        return await running_call

    error = failure_of(asyncio.run(call()))
    assert error["message"] == "Execution failed: SandboxError: the sandbox ended while the code ran"


HOST = """
import asyncio
from strands_cli.sandbox.launcher import ZYGOTES
from strands_cli.sandbox.profile import ALL_LAYERS
from strands_cli.sandbox.python_code import run_python

async def main():
    await run_python("1", session="kept")
    call = asyncio.create_task(run_python("while True: pass"))
    await asyncio.sleep(0.2)
    print(ZYGOTES.get(ALL_LAYERS).result().process.pid, flush=True)
    await call

asyncio.run(main())
"""


def test_a_killed_host_leaves_no_process_behind() -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    with host.stdout as stdout:
        launcher = int(stdout.readline())
    processes = [launcher, *_descendants(launcher)]
    assert len(processes) >= 4  # the zygote, the session, the call
    host.kill()
    host.wait()
    end = time.monotonic() + 5
    while any(_is_running(process) for process in processes) and time.monotonic() < end:
        time.sleep(0.02)
    assert [process for process in processes if _is_running(process)] == []


def _is_running(process: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def test_a_forked_copy_of_the_host_starts_its_own_zygote() -> None:
    code = (
        "import asyncio, os, sys\n"
        "from strands_cli.sandbox.python_code import run_python\n"
        "assert asyncio.run(run_python('1')).value == 1\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    os._exit(asyncio.run(run_python('40 + 2')).value)\n"
        "status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])\n"
        "print(status, asyncio.run(run_python('3')).value)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "42 3\n"


def test_a_call_that_is_cancelled_while_the_zygote_starts_takes_nothing_from_the_next() -> None:
    code = (
        "import asyncio\n"
        "from strands_cli.sandbox.python_code import run_python\n"
        "async def main():\n"
        "    call = asyncio.create_task(run_python('1'))\n"
        "    await asyncio.sleep(0.01)\n"
        "    call.cancel()\n"
        "    await asyncio.wait([call])\n"
        "    print(call.cancelled(), (await run_python('2')).value)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True 2\n", "")


def test_a_program_that_is_interrupted_while_the_zygote_starts_ends_at_once(tmp_path: Path) -> None:
    interpreter = tmp_path / "python"  # interrupts its host and never gets ready
    interpreter.write_text("#!/bin/sh\nkill -INT $PPID\nexec cat\n")
    interpreter.chmod(0o755)
    code = (
        "import asyncio, signal, sys\n"
        "from strands_cli.sandbox.python_code import run_python\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.executable = sys.argv[1]\n"
        "asyncio.run(run_python('1'))\n"
    )
    # Far less than the time that a zygote is given to start.
    done = subprocess.run(
        [sys.executable, "-c", code, interpreter], capture_output=True, text=True, check=False, timeout=10
    )
    # Not the status: Python forgets that it was interrupted if another thread runs exec() meanwhile.
    assert done.stderr.endswith("KeyboardInterrupt\n"), done.stderr


def test_a_thread_that_outlives_the_main_thread_runs_code() -> None:
    code = (
        "import asyncio, threading\n"
        "from strands_cli.sandbox.python_code import run_python\n"
        "def work():\n"
        "    threading.main_thread().join()\n"
        "    print(asyncio.run(run_python('1')).value)\n"
        "threading.Thread(target=work).start()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("1\n", "")


# --- Growth -----------------------------------------------------------------------------------------------


def _resident_kilobytes(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


async def _grow(calls: int) -> None:
    async def one(number: int) -> None:
        outcome = await run_python(f"import json; open('f', 'w').write('x'); {number} + 1")
        assert outcome.value == number + 1

    for number in range(50):
        await one(number)
    await asyncio.sleep(1.0)  # the zygote imports what is often used while it rests
    zygote = _zygote()
    first = _descendants(zygote.process.pid)[0]
    before = _resident_kilobytes(os.getpid()), _resident_kilobytes(first), _open_files("/proc/self/fd")
    for start in range(0, calls, 4):
        await asyncio.gather(*(one(start + offset) for offset in range(4)))
    await _until(lambda: len(_descendants(zygote.process.pid)) == 2)
    assert _zygote() is zygote
    assert len(_descendants(zygote.process.pid)) == 2
    if os.geteuid() == 0:  # nobody else may look into the zygote
        assert _open_files(f"/proc/{first}/fd") < 16
    after = _resident_kilobytes(os.getpid()), _resident_kilobytes(first), _open_files("/proc/self/fd")
    assert after[0] - before[0] < 5_000
    assert after[1] - before[1] < 2_000
    assert after[2] == before[2]


def test_two_hundred_calls_leave_nothing_behind() -> None:
    asyncio.run(_grow(200))


@pytest.mark.long
@pytest.mark.timeout(180)
def test_two_thousand_calls_leave_nothing_behind() -> None:
    asyncio.run(_grow(2000))
