"""`watch(registry)`: what is told when files change, and what the registry has then."""

import asyncio
import gc
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType

import pytest

from strands_cli import ToolChanges, call_tool, get_registry, watch
from strands_cli.tools._discovery.project_files import MAX_ENTRIES
from tests.projects import Project

pytestmark = pytest.mark.asyncio

TOOL = '''from strands_cli import tool
IMPORTS

@tool
def NAME(text: str = "") -> str:
    """DESCRIPTION"""
    return BODY
'''
SECONDS = 30
"""How long a test waits for what comes within a second on a quiet machine."""


def source(name: str, body: str = "'one'", *, imports: str = "", description: str = "Answer.") -> str:
    parts = {"NAME": name, "BODY": body, "IMPORTS": imports, "DESCRIPTION": description}
    text = TOOL
    for word, part in parts.items():
        text = text.replace(word, part)
    return text


class Watched:
    """The changes of a project, as they come."""

    def __init__(self, changes: AsyncIterator[ToolChanges]) -> None:
        self._changes = changes

    async def next(self) -> ToolChanges:
        return await asyncio.wait_for(anext(self._changes), SECONDS)

    async def after(self, change: Callable[[], object]) -> ToolChanges:
        change()
        return await self.next()


@asynccontextmanager
async def watched(*paths: Path, preload: bool = True) -> AsyncIterator[Watched]:
    get_registry().refresh()
    changes = watch(get_registry(), *paths, preload=preload)
    try:
        yield Watched(changes)
    finally:
        await changes.aclose()  # type: ignore[attr-defined]


async def answer(name: str) -> str:
    return str((await call_tool(name))["content"][0]["text"])


def told(changes: ToolChanges) -> dict[str, list[str]]:
    """The parts of a change that are not empty, as names."""
    parts = {
        "added": [info.id for info in changes.added],
        "changed": [f"{tool.info.id}: {', '.join(tool.parts)}" for tool in changes.changed],
        "removed": [info.id for info in changes.removed],
        "broken": [f"{Path(issue.file).name}:{issue.line}" for issue in changes.broken],
        "recovered": [Path(file).name for file in changes.recovered],
    }
    return {name: part for name, part in parts.items() if part}


async def test_new_edited_renamed_and_deleted_files_are_told(inside: Project) -> None:
    inside.write("tools/greet.py", source("greet"))
    async with watched() as changes:
        found = await changes.after(lambda: inside.write("tools/other.py", source("other")))
        assert told(found) == {"added": ["other"]}
        assert found.files == found.created == (inside.root / "tools/other.py",)
        found = await changes.after(lambda: inside.write("tools/greet.py", source("greet", "'two'")))
        assert told(found) == {"changed": ["greet: code"]}
        assert (await answer("greet"), found.created) == ("two", ())
        found = await changes.after(
            lambda: inside.write("tools/greet.py", source("greet", "'two'", description="Say hello."))
        )
        assert told(found) == {"changed": ["greet: description"]}
        typed = source("greet", "'two'", description="Say hello.").replace("text: str", "text: int | str")
        found = await changes.after(lambda: inside.write("tools/greet.py", typed))
        assert told(found) == {"changed": ["greet: input schema, code"]}
        imports = "from typing import Annotated\nfrom msgspec import Meta"
        typed = source("greet", "'two'", imports=imports, description="Say hello.")
        typed = typed.replace("text: str", "text: Annotated[str, Meta(max_length=5)]")
        found = await changes.after(lambda: inside.write("tools/greet.py", typed))
        assert told(found) == {"changed": ["greet: input schema, code"]}
        found = await changes.after(lambda: inside.write("tools/greet.py", f"# Comment.\n{typed}"))
        assert told(found) == {"changed": ["greet: "]}
        new = inside.write("greet.new", source("greet", "'renamed'"))
        found = await changes.after(lambda: new.replace(inside.root / "tools/greet.py"))
        assert told(found)["changed"] == ["greet: description, input schema, code"]
        assert await answer("greet") == "renamed"
        found = await changes.after(
            lambda: (inside.root / "tools/other.py").rename(inside.root / "tools/x.py")
        )
        assert told(found) == {"changed": ["other: file"]}
        found = await changes.after((inside.root / "tools/x.py").unlink)
        assert told(found) == {"removed": ["other"]}


@pytest.mark.parametrize(
    ("helper", "imports"),
    [
        ("tools/_words.py", "from ._words import word"),
        ("tools/_words.py", "from . import _words\nword = _words.word"),
        ("tools/_words.py", "from ._phrases import word"),
        ("saying/words.py", "from saying.words import word"),
        ("tools/family/__init__.py", "from . import word"),
    ],
)
@pytest.mark.parametrize("preload", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_an_edited_helper_changes_the_tools_that_import_it(
    helper: str, imports: str, preload: bool, inside: Project
) -> None:
    inside.write("tools/_phrases.py", "from ._words import word\n")
    inside.write("tools/aside.py", source("aside"))
    place = "tools/family/greet.py" if "family" in helper else "tools/greet.py"
    inside.write(helper, "def word():\n    return 'one'\n")
    inside.write(place, source("greet", "word()", imports=imports))
    async with watched(preload=preload) as changes:
        assert await answer("greet") == "one"
        found = await changes.after(lambda: inside.write(helper, "def word():\n    return 'two'\n"))
        assert told(found) == {"changed": ["greet: code"]}
        assert await answer("greet") == "two"


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        ("x = 1\ndef greet(:\n", 2),
        (source("greet", imports="1 / 0"), 2),
        (source("greet", imports="import nowhere_at_all"), 2),
        (source("greet", imports="from ._helper import word"), 2),
    ],
)
async def test_a_broken_file_keeps_its_last_good_version_until_it_has_recovered(
    broken: str, line: int, inside: Project
) -> None:
    inside.write("tools/greet.py", source("greet", "'good'"))
    inside.write("tools/other.py", source("other"))
    inside.write("tools/_helper.py", "def word(:\n")
    async with watched() as changes:
        found = await changes.after(lambda: inside.write("tools/greet.py", broken))
        assert told(found) == {"broken": [f"greet.py:{line}"]}
        assert "Until then, greet stays as it was last loaded." in found.broken[0].remediation
        assert await answer("greet") == "good"
        found = await changes.after(lambda: inside.write("tools/other.py", source("other", "'two'")))
        assert told(found) == {"changed": ["other: code"]}
        assert await answer("greet") == "good"
        found = await changes.after(lambda: inside.write("tools/greet.py", source("greet", "'better'")))
        assert told(found) == {"changed": ["greet: code"], "recovered": ["greet.py"]}
        assert await answer("greet") == "better"
        assert get_registry().problems == []


async def test_a_broken_package_keeps_the_last_good_version_of_the_tools_in_it(inside: Project) -> None:
    package = inside.write("tools/family/__init__.py", "")
    inside.write("tools/family/greet.py", source("greet", "'good'"))
    async with watched() as changes:
        found = await changes.after(lambda: package.write_text("def x(:\n"))
        assert told(found) == {"broken": ["__init__.py:1"]}
        assert "Until then, greet stays as it was last loaded." in found.broken[0].remediation
        assert await answer("greet") == "good"
        found = await changes.after(lambda: package.write_text(""))
        assert told(found) == {"recovered": ["__init__.py"]}


async def test_a_slow_call_ends_on_the_code_that_it_began_with(inside: Project) -> None:
    body = "waited('old')"
    waiting = """
import pathlib, time
def waited(word):
    pathlib.Path('started').touch()
    while not pathlib.Path('edited').exists():
        time.sleep(0.01)
    return word
"""
    inside.write("tools/greet.py", source("greet", body, imports=waiting))
    async with watched(inside.root / "started") as changes:
        slow = asyncio.ensure_future(answer("greet"))
        assert (await changes.next()).files == (inside.root / "started",)
        found = await changes.after(lambda: inside.write("tools/greet.py", source("greet", "'new'")))
        assert told(found) == {"changed": ["greet: code"]}
        assert await answer("greet") == "new"
        assert not slow.done()
        inside.write("edited", "")
        assert await asyncio.wait_for(slow, SECONDS) == "old"


async def test_a_file_that_is_written_in_two_steps_is_never_told_as_broken(inside: Project) -> None:
    inside.write("tools/greet.py", source("greet"))
    async with watched() as changes:
        coming = asyncio.ensure_future(changes.next())
        for word in ("two", "three", "four"):
            text = source("greet", f"'{word}'")
            inside.write("tools/greet.py", text[: len(text) // 2])
            await asyncio.sleep(0.09)  # in the watcher's own loop, which cannot look twice before that
            inside.write("tools/greet.py", text)
            assert told(await coming) == {"changed": ["greet: code"]}
            assert await answer("greet") == word
            coming = asyncio.ensure_future(changes.next())
        coming.cancel()


async def test_workflows_settings_and_files_by_name_are_told(inside: Project, tmp_path: Path) -> None:
    flow = tmp_path / "elsewhere.yaml"
    async with watched(flow) as changes:
        for file in (inside.root / "flow.yaml", flow, inside.root / ".mcp.json"):
            found = await changes.after(lambda file=file: file.write_text("{}"))  # type: ignore[misc]
            assert (told(found), found.files) == ({}, (file,))
        found = await changes.after(lambda: inside.write("strands.toml", "workspace = 1\n"))
        assert told(found) == {"broken": ["strands.toml:1"]}
        assert get_registry().get("echo") is not None
        found = await changes.after(lambda: inside.write("strands.toml", ""))
        assert told(found) == {"recovered": ["strands.toml"]}


async def test_a_plugin_is_told_with_its_tools_and_its_executables(inside: Project) -> None:
    manifest = """{"name": "shapes", "version": "1.0.0", "cli_tools": [{"name": "area", "path": "area.sh",
      "description": "Measure.", "parameters": {"type": "object", "properties": {}}}]}"""
    script = inside.write("plugins/shapes/area.sh", "#!/bin/sh\necho 1\n")
    script.chmod(0o755)
    async with watched() as changes:
        found = await changes.after(lambda: inside.write("plugins/shapes/plugin.json", manifest))
        assert told(found) == {"added": ["shapes__area"]}
        found = await changes.after(lambda: script.write_text("#!/bin/sh\necho 2\n"))
        assert told(found) == {"changed": ["shapes__area: code"]}
        found = await changes.after(lambda: shutil.rmtree(inside.root / "plugins"))
        assert told(found) == {"removed": ["shapes__area"]}


async def test_a_tools_directory_behind_a_link_is_watched(inside: Project, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (inside.root / "tools").symlink_to(real)
    (real / "again").symlink_to(real)  # which ends nowhere
    (real / "greet.py").write_text(source("greet"))
    async with watched() as changes:
        found = await changes.after(lambda: (real / "greet.py").write_text(source("greet", "'two'")))
        assert "greet: code" in told(found)["changed"]
        assert await answer("greet") == "two"


async def test_a_file_that_becomes_a_directory_and_a_project_that_goes_away_are_told(inside: Project) -> None:
    file = inside.write("tools/greet.py", source("greet"))

    def replace_file() -> None:
        file.unlink()
        file.mkdir()

    async with watched() as changes:
        assert told(await changes.after(replace_file)) == {"broken": ["greet.py:0"]}
        assert await answer("greet") == "one"
        found = await changes.after(lambda: shutil.rmtree(inside.root))
        assert [issue.reason for issue in found.broken] == ["The current directory no longer exists."]
        assert await answer("greet") == "one"


async def test_without_preload_a_tool_that_nobody_called_is_not_imported(inside: Project) -> None:
    inside.write("tools/greet.py", source("greet", imports="open('imported', 'w').close()"))
    async with watched(preload=False) as changes:
        found = await changes.after(lambda: inside.write("tools/greet.py", source("greet", "1 / 0")))
        assert told(found) == {"changed": ["greet: code"]}
        found = await changes.after(lambda: inside.write("tools/greet.py", "def greet(:\n"))
        assert told(found) == {"broken": ["greet.py:1"]}
        found = await changes.after(lambda: inside.write("tools/greet.py", source("greet")))
        assert told(found) == {"changed": ["greet: code"], "recovered": ["greet.py"]}
    assert not (inside.root / "imported").exists()


async def edit_a_thousand_times(root: Path) -> list[tuple[int, ...]]:
    """Returns what this process holds after the first 100 edits and after all of them."""

    def edit(number: int) -> None:
        (root / "tools/_words.py").write_text(f"WORD = '{number}'\n")
        (root / "tools/greet.py").write_text(source("greet", "WORD", imports="from ._words import WORD"))
        (root / f"tools/new_{number}.py").write_text(source(f"new_{number}"))
        (root / f"tools/new_{number - 1}.py").unlink(missing_ok=True)

    def held() -> tuple[int, ...]:
        gc.collect()
        objects = gc.get_objects()
        modules = sum(isinstance(one, ModuleType) for one in objects)
        descriptors = len([*Path("/proc/self/fd").glob("*")])
        return len(sys.modules), modules, descriptors, threading.active_count(), len(objects)

    (root / "tools").mkdir()
    edit(0)
    registry, counts = get_registry(), list[tuple[int, ...]]()
    async with watched() as changes:
        for number in range(1, 1001):
            if number % 50:  # a watcher waits until files have settled; what it does then is this
                edit(number)
                registry.refresh()
                registry.load(f"new_{number}")
            else:
                await changes.after(lambda number=number: edit(number))  # type: ignore[misc]
            assert await answer("greet") == str(number)
            if number in (100, 1000):
                counts.append(held())
    return counts


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_a_thousand_edits_leave_nothing_behind(inside: Project) -> None:
    program = (
        "import asyncio, json, pathlib; from tests.tools.test_watch import edit_a_thousand_times as edit;"
        "print(json.dumps(asyncio.run(edit(pathlib.Path.cwd()))))"
    )
    # Without coverage, which remembers something of every file that there was.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        cwd=inside.root,
        env={**variables, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
    )
    (*then, threads_then, objects_then), (*now, threads, objects) = json.loads((await child.communicate())[0])
    assert now == then
    assert threads <= threads_then + 10  # asyncio's pool starts a few more, and stops at a number
    assert objects < objects_then * 1.02


async def test_a_project_that_is_too_large_to_be_watched_as_a_whole_is_reported_once(inside: Project) -> None:
    helper = inside.write("data/late/helper.py", "")
    for number in range(MAX_ENTRIES):
        (helper.parents[1] / str(number)).touch()
    async with watched() as changes:
        (issue,) = (await changes.next()).broken
        assert (issue.severity, issue.file) == ("warning", "")
        assert issue.reason.startswith("The project has more than 10,000 files and directories")
        found = await changes.after(lambda: inside.write("tools/greet.py", source("greet")))
        assert told(found) == {"added": ["greet"]}
