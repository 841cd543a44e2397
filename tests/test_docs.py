"""The documentation is true: every block of code in it runs, and what it shows is what comes out.

How pages are written:

- A page is one project in a temporary directory; with `<!-- a project per section -->` each `##` section is.
- `python` is run as a program. Lines that begin with `#>` are what it prints, blank lines aside. A block after
  `<!-- continues -->` goes on where the block before it ended.
- `console` has commands after `$`, and below each what it shows on both streams; `(exit code 2)` ends one that
  does not succeed.
- `toml` is read as settings, `json` is parsed, `text` and `sh` are for the eye.
- A block whose first line is `# file: tools/greet.py` is written to that file instead. Where such a line would break
  what a reader pastes, as in JSON or above `#!`, `<!-- file: plugins/p/plugin.json -->` before the block does the same.
- `…` stands for any text in a line, and alone on a line for any number of lines.
- In an agent's program, `model = …  # your model` becomes a scripted model, whose answers are told before the
  block: `<!-- model: tool_call("greet", name="Ada") | "Done." -->`. Before any other block the same comment is what
  an Ollama server answers, at the address that `ollama` programs look at.
- A `console` after `<!-- local model -->` is run with the real embedded model: its page is one of the long tests.
- A page with `<!-- with Postgres and Temporal -->` has both as servers, at the addresses of `STRANDS_STORE` and
  `TEMPORAL_ADDRESS`. A program that goes on in the background leaves its number in `NAME.pid`, and ends with the page.
"""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from strands_cli.settings import Settings, load_settings
from strands_cli.toolkit.results import CODES
from tests.fakes import Call, tool_call
from tests.projects import Project
from tests.standins import OllamaStandin

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / "README.md", REPOSITORY / "TOOL_DEVELOPMENT.md", *sorted(DOCS.rglob("*.md"))]
LINKING = [*PAGES, *(REPOSITORY / name for name in ("AGENTS.md", "CONTRIBUTING.md", "CHANGELOG.md"))]

LOCAL_MODEL = "local model"
A_PROJECT_PER_SECTION = "<!-- a project per section -->"
SERVERS = "<!-- with Postgres and Temporal -->"
_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!-- (?P<text>.*?) -->\s*\Z")
_FILE = re.compile(r"# file: (?P<path>\S+)\n")
_MODEL = re.compile(r"^(?P<indent> *)model = .*# your model$", re.MULTILINE)
_LINK = re.compile(r"\]\((?P<file>[^)#\s]*)(?:#(?P<heading>[^)\s]+))?\)")
_PLAIN_COMMAND = re.compile(r"strands (?:[^'|<>;&$`*?~#\\]|\\\n|'[^']*')*")
"""A command that needs no shell, and so no process that imports everything first."""
_EXIT = re.compile(r"^\(exit code (\d+)\)\n?\Z", re.MULTILINE)


@dataclass
class Block:
    place: str
    language: str
    text: str
    comment: str = ""


@dataclass
class Chapter:
    """Blocks that share a project: those of a page, or of one section of it."""

    name: str
    blocks: list[Block] = field(default_factory=list)
    needs_servers: bool = False


# --- Reading ----------------------------------------------------------------------------------------------


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def chapters(name: str, text: str) -> Iterator[Chapter]:
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE) if A_PROJECT_PER_SECTION in text else [text]
    line = 1
    for part in parts:
        heading = part.partition("\n")[0].removeprefix("## ") if len(parts) > 1 else ""
        chapter = Chapter(f"{name} {heading}".strip(), [*blocks(name, part, line)], SERVERS in text)
        line += part.count("\n")
        if any(block.language != "text" for block in chapter.blocks):
            yield chapter


def blocks(name: str, text: str, first_line: int = 1) -> Iterator[Block]:
    assert len(re.findall(r"^```", text, re.MULTILINE)) % 2 == 0, f"{name}: a fence is open"
    for fence in _FENCE.finditer(text):
        comment = _COMMENT.search(text[: fence.start()])
        line = first_line + text.count("\n", 0, fence.start())
        said = comment["text"] if comment else ""
        yield Block(f"{name}:{line}", fence["language"], fence["text"], said)


ALL = [chapter for page in PAGES for chapter in chapters(name_of(page), page.read_text("utf-8"))]


# --- Running ----------------------------------------------------------------------------------------------


def run_chapter(chapter: Chapter, project: Project) -> None:
    project.environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    project.environment["PYTHONPATH"] = str(REPOSITORY)
    project.environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # importing them takes longer than the tests
    for block in joined(chapter.blocks):
        file = _FILE.match(block.text) or _FILE.match(f"# {block.comment}\n")
        if file:
            project.write(file["path"], block.text.removeprefix(file[0]))
        assert block.language in RUNNERS, (
            f"{block.place}: {block.language!r} is not a language of these pages"
        )
        if not file or block.language != "python":
            with served(block, project):
                RUNNERS[block.language](block, project)


@contextmanager
def served(block: Block, project: Project) -> Iterator[None]:
    """A server of models, where the answers of one are told and no program makes its own."""
    if not block.comment.startswith("model: ") or _MODEL.search(block.text):
        yield
        return
    with OllamaStandin() as standin:
        for answer in block.comment.removeprefix("model: ").split(" | "):
            standin.enqueue(eval(answer, {"tool_call": tool_call, "Call": Call}))
        project.environment["OLLAMA_HOST"] = standin.url
        yield
        del project.environment["OLLAMA_HOST"]


def joined(found: list[Block]) -> list[Block]:
    """Blocks that continue others become one with them, at the place of the last."""
    made: list[Block] = []
    for block in found:
        if block.comment.startswith("continues"):
            start = next(one for one in reversed(made) if one.language == block.language)
            made.remove(start)
            block = Block(start.place, block.language, start.text + block.text, start.comment)
        made.append(block)
    return made


def run_python(block: Block, project: Project) -> None:
    expected = "".join(
        line.strip().removeprefix("#>").removeprefix(" ") + "\n"
        for line in block.text.splitlines()
        if line.strip().startswith("#>")
    )
    program = project.write("example.py", _MODEL.sub(lambda match: scripted(match, block), block.text))
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=project.root, env=project.environment, input="", capture_output=True, encoding="utf-8", timeout=50,
        check=False,
    )  # fmt: skip
    program.unlink()
    assert done.returncode == 0, f"{block.place}\n{done.stdout}\n{done.stderr}"
    shown = "".join(line + "\n" for line in done.stdout.splitlines() if line.strip())
    compare(block.place, expected, shown, done.stderr)


def scripted(match: re.Match[str], block: Block) -> str:
    said = block.comment.partition("model: ")[2]
    assert said, f"{block.place}: what the model answers is not told"
    answers = "".join(f".enqueue({answer})" for answer in said.split(" | "))
    return f"{match['indent']}from tests.fakes import Call, ScriptedModel, tool_call; model = ScriptedModel(){answers}"


def run_console(block: Block, project: Project) -> None:
    for command, shown in commands(block):
        expected = _EXIT.search(shown)
        if _PLAIN_COMMAND.fullmatch(command) and block.comment != LOCAL_MODEL:
            exit_code, text = project.shown_by(command)
        else:
            exit_code, text = shown_by_shell(command, project, 550 if block.comment == LOCAL_MODEL else 50)
        place = f"{block.place}\n$ {command}"
        assert exit_code == int(expected[1] if expected else 0), f"{place}\n{text}"
        compare(place, _EXIT.sub("", shown), text)


def shown_by_shell(command: str, project: Project, seconds: float) -> tuple[int, str]:
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=project.root, env=project.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, encoding="utf-8", timeout=seconds, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def commands(block: Block) -> Iterator[tuple[str, str]]:
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"{block.place}: something stands before the first command"
    for part in parts[1:]:
        command, shown = re.fullmatch(r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", part, re.DOTALL).groups()  # type: ignore[union-attr]
        yield command, shown


def run_toml(block: Block, project: Project) -> None:
    """As settings: in force where the block is a file of the project, else only read."""
    place = project.root
    if not _FILE.match(block.text):
        place = project.write("settings/strands.toml", block.text).parent
    load_settings(place, environment={})


def run_json(block: Block, project: Project) -> None:
    json.loads(block.text)


def show(block: Block, project: Project) -> None:
    pass


RUNNERS: dict[str, Callable[[Block, Project], None]] = {
    "python": run_python,
    "console": run_console,
    "toml": run_toml,
    "json": run_json,
    "sh": show,
    "text": show,
    "yaml": show,
}


def compare(place: str, expected: str, shown: str, more: str = "") -> None:
    assert is_like(expected, shown), (
        f"{place}\n--- expected\n{expected}\n--- shown\n{shown}\n--- also\n{more}"
    )


def is_like(expected: str, shown: str) -> bool:
    lines = [re.escape(line.rstrip()).replace("…", ".*") + "\n" for line in expected.strip().splitlines()]
    pattern = "".join("(?:.*\n)*" if line == ".*\n" else line for line in lines)
    plain = "".join(line.rstrip() + "\n" for line in shown.strip().splitlines())
    return re.fullmatch(pattern, plain) is not None


def needs_local_model(chapter: Chapter) -> bool:
    return any(block.comment == LOCAL_MODEL for block in chapter.blocks)


def case(chapter: Chapter) -> Any:
    marks = [pytest.mark.long, pytest.mark.timeout(1800)] if needs_local_model(chapter) else []
    if chapter.needs_servers:
        marks = [pytest.mark.long, pytest.mark.timeout(300)]
    return pytest.param(chapter, id=chapter.name, marks=marks)


@pytest.mark.parametrize("chapter", [case(chapter) for chapter in ALL])
def test_what_a_page_shows_is_what_happens(
    chapter: Chapter, project: Project, request: pytest.FixtureRequest
) -> None:
    if needs_local_model(chapter):
        weights: Path = request.getfixturevalue("weights")
        own = Path(project.environment["XDG_CACHE_HOME"]) / "strands-cli"
        own.mkdir(parents=True)
        (own / "models").symlink_to(weights.parent)
        project.environment["STRANDS_LOCAL_THREADS"] = "1"  # more are slower where tests run side by side
    if chapter.needs_servers:
        project.environment["STRANDS_STORE"] = request.getfixturevalue("database")
        project.environment["TEMPORAL_ADDRESS"] = request.getfixturevalue("temporal").address
    try:
        run_chapter(chapter, project)
    finally:
        end_programs(project)


def end_programs(project: Project) -> None:
    for file in project.root.glob("*.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(file.read_text("utf-8")), signal.SIGKILL)


def test_the_picture_of_a_run_is_plain_and_shows_the_workflow_of_the_readme() -> None:
    picture = ElementTree.parse(DOCS / "run.svg").getroot()
    shown = "".join(picture.itertext())
    assert "](docs/run.svg)" in (REPOSITORY / "README.md").read_text("utf-8")
    for words in ("$ strands run menu.yaml --verbose", "price(item=", "wrote menu.txt"):
        assert words in shown, "scripts/record_run.py makes it anew"
    # Nothing is fetched, and nothing needs a style sheet.
    kinds = {element.tag.rpartition("}")[2] for element in picture.iter()}
    assert kinds <= {"svg", "title", "rect", "g", "text", "tspan"}
    assert not [element for element in picture.iter() if "href" in " ".join(element.attrib)]


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_demo_shows_its_file_keeps_its_directory_and_says_what_to_try_next(
    tmp_path: Path, weights: Path
) -> None:
    if not (REPOSITORY / ".venv" / "bin" / "strands").exists():
        pytest.skip("the demo runs what make setup has installed")
    environment = {**os.environ, "TMPDIR": str(tmp_path), "STRANDS_LOCAL_THREADS": "1"}
    done = subprocess.run(
        ["sh", str(REPOSITORY / "scripts" / "demo.sh")],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8", timeout=1700, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    (kept,) = tmp_path.glob("strands-demo.*")
    for words in ("runtime:", "steps:", "price: done", str(kept), "Try next:", "strands chat"):
        assert words in done.stdout
    assert (kept / "workflow.yaml").is_file()
    assert (kept / "three-tools.txt").is_file()
    assert "\x1b" not in done.stdout


def test_no_page_and_no_message_installs_from_an_index_that_does_not_have_us() -> None:
    for file in (*PAGES, *(REPOSITORY / "src").rglob("*.py"), *(REPOSITORY / "examples").rglob("*.md")):
        found = re.findall(r"pip install '?strands-cli.*", file.read_text("utf-8"))
        assert not found, f"{name_of(file)}: {found}"


# --- What the pages say together --------------------------------------------------------------------------


def test_the_reference_is_current_wherever_it_is_written(tmp_path: Path) -> None:
    script = REPOSITORY / "scripts" / "generate_reference.py"
    done = subprocess.run(
        [sys.executable, str(script), "--check"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_error_code_is_documented() -> None:
    for page in (DOCS / "concepts" / "errors.md", DOCS / "reference" / "error-codes.md"):
        text = page.read_text("utf-8")
        assert [code for code in CODES if f"`{code}`" not in text] == [], name_of(page)


def test_every_table_of_the_settings_is_documented() -> None:
    text = (DOCS / "reference" / "settings.md").read_text("utf-8")
    fields = msgspec.structs.fields(Settings)
    tables = [field.name for field in fields if issubclass(type(field.default), msgspec.Struct)]
    assert tables, "the settings have tables"
    assert [name for name in tables if f"## [{name}]" not in text] == []


@pytest.mark.long
def test_the_coverage_of_one_tool_is_measured_by_the_line_that_the_guide_gives(tmp_path: Path) -> None:
    line = "pytest tests/test_echo.py --cov=src/strands_cli/tools/echo --cov-report=term-missing"
    outside = {name: text for name, text in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, "-m", *line.split(), "-p", "no:cacheprovider"],
        cwd=REPOSITORY,
        env=outside | {"COVERAGE_FILE": str(tmp_path / "coverage")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^src/strands_cli/tools/echo\.py +\d+ +0 +100%", done.stdout, re.MULTILINE)


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """The files and headings of this repository that a page points to."""
    for match in _LINK.finditer(_FENCE.sub("", page.read_text("utf-8"))):
        if "://" not in match["file"]:
            target = (page.parent / match["file"]).resolve() if match["file"] else page
            yield target, match["heading"] or ""


def headings(page: Path) -> set[str]:
    found = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    plain = (
        "".join(letter for letter in text.lower() if letter.isalnum() or letter in " -_") for text in found
    )
    return {text.replace(" ", "-") for text in plain}


@pytest.mark.parametrize("page", LINKING, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, heading in links(page):
        assert target.exists(), f"{name_of(page)} links to {target}, which is not there"
        assert not heading or heading in headings(target), (
            f"{name_of(page)}: no heading {heading} in {target}"
        )


def test_every_page_can_be_reached_from_the_index() -> None:
    reached, waiting = set[Path](), [DOCS / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            waiting += [target for target, _ in links(page) if target.suffix == ".md"]
    assert [name_of(page) for page in PAGES if page not in reached] == []


def test_every_test_that_a_page_names_is_there() -> None:
    source = "".join(file.read_text("utf-8") for file in (REPOSITORY / "tests").rglob("test_*.py"))
    for page in PAGES:
        for name in re.findall(r"`(test_\w+)`", page.read_text("utf-8")):
            assert f"def {name}(" in source, f"{name_of(page)} names {name}"


def test_no_page_names_a_place_on_this_machine() -> None:
    for page in PAGES:
        for place in (str(REPOSITORY), str(Path.home())):
            assert place not in page.read_text("utf-8"), f"{name_of(page)} names {place}"


# --- The test itself, held against pages that are known to be false ---------------------------------------

FALSE_PAGES = [
    "```python\nprint(2)\n#> 1\n```\n",
    "```python\nprint(2)\n```\n",
    "```python\n#> 1\n```\n",
    "```python\n1 / 0\n```\n",
    "```python\nx = 1\n```\n\n```python\nprint(x)\n#> 1\n```\n",
    "```python\nmodel = Bedrock()  # your model\n```\n",
    "```console\n$ echo a\nb\n```\n",
    "```console\n$ echo a\n```\n",
    "```console\n$ false\n```\n",
    "```console\n$ true\n(exit code 1)\n```\n",
    "```console\nno command\n```\n",
    "```toml\nthreds = 1\n```\n",
    "```json\n{\n```\n",
    "```ruby\n```\n",
]
TRUE_PAGES = [
    "```python\nprint(12)\n#> 1…\n```\n",
    "```python\nx = 1\n```\n\n<!-- continues -->\n\n```python\nprint(x)\n#> 1\n```\n",
    '<!-- model: "hi" -->\n```python\nmodel = Bedrock()  # your model\nprint(len(model.answers))\n#> 1\n```\n',
    "```console\n$ printf 'a\\nb\\nc\\n'\na\n…\n$ exit 3\n(exit code 3)\n$ echo one \\\n  two\none two\n```\n",
    "```python\n# file: tools/a.py\nx = 1\n```\n\n```console\n$ cat tools/a.py\nx = 1\n```\n",
    "```toml\n# file: strands.toml\nthreads = 2\n```\n\n```console\n$ cat strands.toml\nthreads = 2\n```\n",
    f"{A_PROJECT_PER_SECTION}\n## One\n```console\n$ touch a\n```\n## Two\n```console\n$ ls\nstrands.toml\n```\n",
]


def run_page(text: str, parent: Path) -> None:
    for index, chapter in enumerate(chapters("page.md", text)):
        root = parent / str(index)
        root.mkdir()
        run_chapter(chapter, Project(root))


@pytest.mark.parametrize("text", FALSE_PAGES)
def test_a_page_that_says_something_false_is_found_out(text: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"page\.md|strands\.toml|Expecting"):
        run_page(text, tmp_path)


@pytest.mark.parametrize("text", TRUE_PAGES)
def test_a_page_that_is_true_passes(text: str, tmp_path: Path) -> None:
    run_page(text, tmp_path)
