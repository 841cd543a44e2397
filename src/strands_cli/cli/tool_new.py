"""`strands tool new`"""

from keyword import iskeyword
from pathlib import Path

import click

from strands_cli.cli.output import print_note
from strands_cli.errors import UsageError
from strands_cli.settings import load_settings
from strands_cli.tools import get_registry

_TOOL = '''"""The tool {name}."""

from strands_cli import ToolFailed, tool


@tool(version="0.1.0")
def {name}(name: str) -> str:
    """Greet somebody by name. Say here what the tool does: the model reads it.

    Args:
        name: Who to greet
    """
    if not name.strip():
        raise ToolFailed("No name provided")
    return f"Hello, {{name}}!"
'''

_TEST = '''"""Tests of the tool {name}. Run them from the project's root."""

from strands_cli import get_registry


def test_{name}_greets() -> None:
    {name} = get_registry().load("{name}")
    result = {name}({{"toolUseId": "t1", "input": {{"name": "Ada"}}}})
    assert result["status"] == "success"
    assert result["content"] == [{{"text": "Hello, Ada!"}}]


def test_{name}_refuses_a_missing_name() -> None:
    {name} = get_registry().load("{name}")
    result = {name}({{"toolUseId": "t2", "input": {{}}}})
    assert result["status"] == "error"
'''


@click.command()
@click.argument("name")
@click.option("--family", help="Put it into a family of tools: tools/FAMILY/NAME.py.")
def new(name: str, family: str | None) -> None:
    """Create a tool in this project, with a test that passes."""
    for word in filter(None, (name, family)):
        _refuse_bad_name(word)
    taken = get_registry().get(name)
    if taken is not None:
        raise UsageError(f"There is a tool {name!r} already ({taken.origin}).", hint="Choose another name.")
    project = load_settings().project
    written = _files(project, name, family)
    _refuse_existing(project, written)
    for file, text in written.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as stream:
            stream.write(text)
        click.echo(str(file.relative_to(project)))
    print_note(f"Try it: strands tool call {name} name=Ada")


def _files(project: Path, name: str, family: str | None) -> dict[Path, str]:
    directory = project / "tools" / (family or "")
    files = {
        directory / f"{name}.py": _TOOL.format(name=name),
        project / "tests" / f"test_{name}.py": _TEST.format(name=name),
    }
    package = directory / "__init__.py"
    if family and not package.exists():
        return {package: f'"""The tools of the family {family}."""\n', **files}
    return files


def _refuse_bad_name(name: str) -> None:
    if (
        name.startswith("_")
        or not name.isidentifier()
        or not name.isascii()
        or iskeyword(name)
        or len(name) > 64
    ):
        raise UsageError(
            f"{name!r} cannot be the name of a tool.",
            hint="Use a Python name of at most 64 letters, digits and '_' that starts with a letter.",
        )


def _refuse_existing(project: Path, files: dict[Path, str]) -> None:
    for file in files:
        if file.exists():
            raise UsageError(
                f"{file.relative_to(project)} exists already; nothing was written.", hint="Move it away."
            )
