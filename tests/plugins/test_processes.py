"""Processes that are started ahead: they wait, serve one call each, and leave nothing."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strands_cli.plugins.manifest import Configuration
from strands_cli.plugins.processes import MAX_PARKED, Launch, Parking, launch_of, parking_of_loop
from strands_cli.secrets import NOTHING_SECRET
from strands_cli.toolkit.workspace import Workspace
from tests.plugins.makers import BASH, NODE, PYTHON, SH, Bench, json_of, need, text_of, until

PID = f"{SH}read -r line; echo $$\n"
SOURCES = {
    "sh": PID,
    "bash": f"{BASH}read -r line; echo $$\n",
    "python3": f"{PYTHON}import sys\nsys.stdin.read()\nprint('ok')\n",
    "node": f"{NODE}process.stdin.on('data', () => {{}}); process.stdin.on('end', () => console.log('ok'));\n",
}


def launch(bench: Bench, source: str, **keys: Any) -> Launch:
    bench.tool(source, **keys)
    plugin = bench.loaded()
    workspace = Workspace((bench.project,), bench.project)
    environment = {"STRANDS_TEST_MARK": bench.mark}
    found = Configuration(environment, NOTHING_SECRET)
    return launch_of(plugin, plugin.manifest.cli_tools[0], found, workspace, "")


@pytest.mark.parametrize("program", SOURCES)
def test_a_tool_that_was_called_has_its_next_process_waiting(bench: Bench, program: str) -> None:
    need(program)
    tool = bench.tool(SOURCES[program])

    async def calls() -> None:
        assert len(parking_of_loop()) == 0
        for _ in range(3):
            assert (await bench.ask(tool))["status"] == "success"
            await until(lambda: len(parking_of_loop()) == 1 and bool(bench.survivors()))

    asyncio.run(calls())
    assert bench.nothing_survives()


def test_a_process_serves_one_call(bench: Bench) -> None:
    tool = bench.tool(f'{SH}read -r line; echo "$line" >> "$TMPDIR/seen"; cat "$TMPDIR/seen"\n')

    async def calls() -> list[Any]:
        found = []
        for n in range(3):
            found.append(json_of(await bench.ask(tool, {"n": n})))
            await until(lambda: len(parking_of_loop()) == 1)
        return found

    assert asyncio.run(calls()) == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_an_unused_process_never_sees_an_empty_input(bench: Bench) -> None:
    script = f'{SH}if read -r line; then echo "$line"; else echo ran-empty >> "{bench.project}/log"; fi\n'
    (bench.project / "log").touch()
    tool = bench.tool(script, files={"write": ["log"]}, annotations={"readOnlyHint": True})

    async def call() -> None:
        await bench.ask(tool)
        await until(lambda: len(parking_of_loop()) == 1 and bool(bench.survivors()))
        await asyncio.sleep(0.2)

    asyncio.run(call())
    assert bench.nothing_survives()
    assert (bench.project / "log").read_text() == ""


def test_an_idle_process_is_ended(bench: Bench) -> None:
    wanted = launch(bench, PID)

    async def idle() -> None:
        held = Parking(idle_seconds=0.3)
        held.prepare(wanted)
        await until(lambda: len(held) == 1 and bool(bench.survivors()))
        await until(lambda: len(held) == 0 and not bench.survivors())
        held.prepare(wanted)
        await until(lambda: len(held) == 1)

    asyncio.run(idle())
    assert bench.nothing_survives()


def test_only_so_many_wait(bench: Bench) -> None:
    launches = [launch(bench, PID, args=[str(n)]) for n in range(MAX_PARKED + 2)]

    async def many() -> None:
        held = Parking()
        for wanted in launches:
            held.prepare(wanted)
        await until(lambda: len(held) == MAX_PARKED)
        await asyncio.sleep(0.1)
        assert len(held) == MAX_PARKED
        assert held.take(launches[0]) is None
        last = held.take(launches[-1])
        assert last is not None
        last.close()

    asyncio.run(many())
    assert bench.nothing_survives()


def replace(file: Path, text: str) -> None:
    """In one step: a file cannot be written while it is being executed."""
    new = file.with_name("new")
    new.write_text(text)
    new.chmod(0o755)
    new.rename(file)


CHANGES: dict[str, Callable[[Bench, pytest.MonkeyPatch], object]] = {
    "environment": lambda _, patch: patch.setenv("PASSED", "other"),
    "executable": lambda bench, _: replace(bench.project / "plugins/p/cli-tools/t", f"{SH}echo new\n"),
    "neighbour": lambda bench, _: replace(bench.project / "plugins/p/cli-tools/lib", "x"),
    "directory": lambda _, __: None,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_process_serves_only_calls_that_would_start_the_same(
    bench: Bench, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSED", "one")
    tool = bench.tool(
        f'{SH}lib=$(cat "$(dirname "$0")/lib" 2>/dev/null); read -r l; echo "$PASSED $lib $PWD"\n',
        env=["PASSED"],
    )

    async def calls() -> tuple[str, str]:
        before = text_of(await bench.ask(tool))
        await until(lambda: len(parking_of_loop()) == 1)
        CHANGES[change](bench, monkeypatch)
        roots = (bench.outside,) if change == "directory" else (bench.project,)
        after = text_of(await bench.ask(tool, workspace=Workspace(roots, roots[0])))
        return before, after

    before, after = asyncio.run(calls())
    assert before == f"one  {bench.project}"
    assert (
        after
        == {
            "environment": f"other  {bench.project}",
            "executable": "new",
            "neighbour": f"one x {bench.project}",
            "directory": f"one  {bench.outside}",
        }[change]
    )


def test_a_tool_that_does_not_wait_for_its_input_is_started_fresh_each_time(bench: Bench) -> None:
    (bench.project / "now").write_text("1")
    tool = bench.tool(f"{SH}cat now\n")

    async def calls() -> list[str]:
        found = [text_of(await bench.ask(tool))]
        await until(lambda: len(parking_of_loop()) == 1)
        await asyncio.sleep(0.2)
        for now in ("2", "3"):
            (bench.project / "now").write_text(now)
            found.append(text_of(await bench.ask(tool)))
            await asyncio.sleep(0.1)
            assert len(parking_of_loop()) == 0
        return found

    assert asyncio.run(calls()) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("keys", "parks"),
    [
        ({}, 1),
        ({"mode": "fresh"}, 0),
        ({"files": {"write": ["."]}}, 0),
        ({"network": True}, 0),
        ({"network": True, "annotations": {"idempotentHint": True}}, 0),
        ({"network": True, "annotations": {"readOnlyHint": True}}, 1),
    ],
)
def test_only_what_can_do_no_harm_ahead_of_a_call_is_started_ahead(
    bench: Bench, keys: dict[str, Any], parks: int
) -> None:
    tool = bench.tool(PID, **keys)

    async def call() -> int:
        assert (await bench.ask(tool))["status"] == "success"
        await asyncio.sleep(0.3)
        return len(parking_of_loop())

    assert asyncio.run(call()) == parks
    assert bench.nothing_survives()


def test_one_call_and_nothing_more_starts_nothing_ahead(bench: Bench) -> None:
    tool = bench.tool(
        f'{SH}echo started >> "{bench.project}/log"; read -r line; echo hi\n',
        files={"write": ["."]},
        annotations={"readOnlyHint": True},
    )
    bench.call(tool)
    assert bench.nothing_survives()
    assert (bench.project / "log").read_text() == "started\n"


def test_nothing_waits_any_more_when_its_host_is_killed(bench: Bench) -> None:
    bench.tool(PID)
    program = f"""
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from strands_cli.plugins.processes import parking_of_loop
from strands_cli.plugins.plugin import read_plugin
from strands_cli.plugins.plugin_tool import plugin_tool
from strands_cli.settings import load_settings
from strands_cli.toolkit.call import call_tool
async def main():
    plugin = read_plugin(Path({str(bench.project / "plugins" / "p")!r})).plugin
    tool = plugin_tool(plugin, plugin.manifest.cli_tools[0], load_settings(Path({str(bench.project)!r})))
    await call_tool(tool, {{"input": {{}}}})
    while not len(parking_of_loop()):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    print("waiting", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
    environment = {**os.environ, "STRANDS_TEST_MARK": bench.mark}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=bench.project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "waiting\n", done.stderr
    assert bench.nothing_survives()
