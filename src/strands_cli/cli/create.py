"""`strands init`, `strands workflow new` and `strands tool new`: new files from the texts in `starters/`."""

import os
import re
import shlex
from collections.abc import Mapping
from keyword import iskeyword
from pathlib import Path
from string import Template

import click

from strands_cli.cli.app import LazyGroup
from strands_cli.cli.options import ProviderName, log_option
from strands_cli.cli.output import print_line, print_note
from strands_cli.errors import UsageError, install_hint
from strands_cli.patterns import PATTERNS
from strands_cli.schema.validator import schema_text
from strands_cli.settings import SETTINGS_NAME, load_settings
from strands_cli.tools._discovery import is_module_name
from strands_cli.tools.registry import ToolRegistry

_STARTERS = Path(__file__).with_name("starters")
_SCHEMA_PATH = "workflows/strands-workflow.schema.json"


def _starter(path: str, **values: str) -> str:
    """Returns the text of a starter, with `$name` and the like filled in."""
    return Template((_STARTERS / path).read_text("utf-8")).safe_substitute(values)


def _write_new_files(root: Path, files: Mapping[str, str], executable: str = "") -> None:
    """Writes all files and prints their paths, or writes nothing: what exists is never changed.

    A file that exists with the same text is skipped.
    """
    texts = {root / path: text for path, text in files.items()}
    if blocking := {_shown_path(path): None for file in texts.items() for path in _in_the_way(*file)}:
        exist = "exist" if len(blocking) > 1 else "exists"
        reason = f"{', '.join(blocking)} already {exist}; nothing was written."
        raise UsageError(reason, hint="Move it away, or rename it.")
    written: list[Path] = []
    try:
        for file in [file for file in texts if not file.exists()]:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8", newline="\n") as stream:
                written.append(file)
                stream.write(texts[file])
        if executable:
            (root / executable).chmod(0o755)
    except OSError:
        for file in written:
            file.unlink(missing_ok=True)
        raise
    for file in written:
        print_line(_shown_path(file))
    if not written:
        print_note("Nothing to write: all files exist.")


def _in_the_way(file: Path, text: str) -> list[Path]:
    """Returns what keeps a file from being written: another text, or a file in place of a directory."""
    found = next(path for path in (file, *file.absolute().parents) if os.path.lexists(path))
    same = found.is_dir() if found != file else file.is_file() and file.read_bytes() == text.encode()
    return [] if same else [found]


def _shown_path(file: Path) -> str:
    """Returns a path as seen from the current directory, if it is below that."""
    absolute, here = file.absolute(), Path.cwd()
    return str(absolute.relative_to(here) if absolute.is_relative_to(here) else absolute)


# --- A project --------------------------------------------------------------------------------------------

_OWN_FILES = (SETTINGS_NAME, "AGENTS.md", ".gitignore", _SCHEMA_PATH)
"""Kept if they exist: yours does the same as ours, and nothing else needs what ours says."""


@click.command()
@click.argument("directory", default=".", type=click.Path(path_type=Path))
@click.option("--plugin", metavar="NAME", help="Also create a plugin, in plugins/NAME.")
@log_option
def init(directory: Path, plugin: str | None) -> None:
    """Create a project: a tool, its test and a workflow that uses it.

    DIRECTORY is the current directory by default, and may contain other files. Existing files are not
    changed. The project works at once, without a model and without a network.
    """
    tool, test, _ = _tool_starter("keywords")
    files = {
        SETTINGS_NAME: _starter("project/strands.toml"),
        ".gitignore": _starter("project/gitignore.txt"),
        "AGENTS.md": _starter("project/AGENTS.md"),
        "tools/keywords.py": tool,
        "tests/test_keywords.py": test,
        "workflows/keywords.yaml": _starter("project/keywords.yaml"),
        _SCHEMA_PATH: schema_text("workflow"),
    }
    executable = ""
    if plugin is not None:
        from strands_cli.cli.plugin.starters import plugin_files, plugin_test, plugin_test_path

        own, path = plugin_files(plugin, "python")
        files |= {f"plugins/{plugin}/{name}": text for name, text in own.items()}
        files[plugin_test_path(plugin)] = plugin_test(plugin)
        executable = f"plugins/{plugin}/{path}"
    kept = [path for path in _OWN_FILES if (directory / path).is_file()]
    shared = directory / "pyproject.toml"
    if shared.is_file() and load_settings(directory).file == shared.resolve():
        kept.append(SETTINGS_NAME)  # the settings are in [tool.strands], which a strands.toml would hide
    _write_new_files(directory, {path: text for path, text in files.items() if path not in kept}, executable)
    enter = [] if directory.resolve() == Path.cwd() else [f"cd {shlex.quote(str(directory))}"]
    added = [f"strands plugin test {plugin}"] if plugin is not None else []
    for line in ("Next:", *enter, "strands tool test", "strands run workflows/keywords.yaml", *added):
        print_note(line if line == "Next:" else f"  {line}")


# --- A workflow -------------------------------------------------------------------------------------------

_PREFERRED = ("local", "anthropic", "openai", "gemini", "ollama", "bedrock")
"""The embedded model needs neither account nor server; the SDK itself has what bedrock needs."""


@click.group(cls=LazyGroup)
def workflow() -> None:
    """Create workflows."""


@workflow.command("new")
@click.argument("name")
@click.option(
    "--pattern",
    type=click.Choice([*PATTERNS]),
    default="chain",
    show_default=True,
    help="How its agents work together.",
)
@click.option(
    "--provider",
    type=ProviderName(),
    help=f"The provider of its model. Default: the first that is set up here of {', '.join(_PREFERRED)}.",
)
@log_option
def new_workflow(name: str, pattern: str, provider: str | None) -> None:
    """Create a workflow in the workflows/ directory of this project.

    It is a complete example of the pattern, with comments, for you to change.
    """
    if not re.fullmatch("[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name):
        hint = "Use at most 64 letters, digits, '-' and '_', with a letter or digit first."
        raise UsageError(f"{name!r} cannot be the name of a workflow.", hint=hint)
    project = load_settings().project
    chosen = provider or _ready_provider()
    path = f"workflows/{name}.yaml"
    files = {path: _starter(f"workflows/{pattern}.yaml", name=name, provider=chosen)}
    if (project / path).exists():
        raise UsageError(f"{path} already exists; nothing was written.", hint="Choose another name.")
    if not (project / _SCHEMA_PATH).exists():
        files[_SCHEMA_PATH] = schema_text("workflow")
    _write_new_files(project, files)
    shown = shlex.quote(_shown_path(project / path))
    if provider == "scripted":
        print_note(
            "Write its answers to workflows/answers.yaml first; 'strands schema script' prints the format."
        )
    if provider is None:
        print_note(f"It uses the provider {chosen}; --provider chooses another.")
        if chosen == _PREFERRED[-1]:
            print_note(f"The provider local needs no account. {install_hint('local')}")
    print_note(f"Next: strands plan {shown}, then strands run {shown}")


def _ready_provider() -> str:
    """Returns the first provider that has its package and its key here. The last one needs neither."""
    from strands_cli.providers.choice import ModelChoice, missing_for_provider

    return next(name for name in _PREFERRED if not any(missing_for_provider(ModelChoice(name))))


# --- A tool -----------------------------------------------------------------------------------------------

_KINDS = {
    "count": ("count", "words"),
    "delete": ("delete", "file"),
    "download": ("fetch", "page"),
    "fetch": ("fetch", "page"),
    "find": ("find", "lines"),
    "load": ("read", "text"),
    "parse": ("parse", "entries"),
    "read": ("read", "text"),
    "remove": ("delete", "file"),
    "search": ("find", "lines"),
    "send": ("send", "message"),
}
"""By the first word of a tool's name: its starter, and its object if the name has no other word."""
_SPECIAL = ("csv", "keywords")
"""Objects with a starter of their own."""
_COUNTED = {
    "characters": (".", "no"),
    "digits": (r"\d", "42"),
    "letters": (r"[^\W\d_]", "no"),
    "lines": (r"[^\n]+", r"one line\nanother line"),
    "sentences": (r"[^.!?]+[.!?]", "One. Two!"),
    "vowels": ("[aeiou]", "tea"),
    "words": (r"\w+", "two words"),
}
"""What counts as one, as a regular expression, and a text that has two."""


def _tool_starter(name: str) -> tuple[str, str, str]:
    """Returns a tool, its test and arguments to try it with, all guessed from its name."""
    words = [word.lower() for word in re.findall("[A-Z]?[a-z0-9]+|[A-Z]+", name)]
    kind, noun = _KINDS.get(words[0], ("text", ""))
    if kind in ("parse", "text"):
        kind = next((word for word in words if word in _SPECIAL), kind)
    noun = " ".join(words[1:]) or noun
    singular = noun.removesuffix("s")
    pattern, sample = _COUNTED.get(noun, (rf"\b{singular}", f"{singular}, {singular}"))
    text = _starter(
        f"tools/{kind}.txt",
        name=name,
        noun=noun,
        singular=singular,
        pattern=pattern,
        sample=sample,
    )
    first, _, rest = text.partition("\n")
    tool, _, test = rest.partition("# test:\n")
    return tool, test, first.removeprefix("# try: ")


def _is_python_name(word: str) -> bool:
    return re.fullmatch("[A-Za-z][A-Za-z0-9_]{0,63}", word) is not None and not iskeyword(word)


def _refuse_hidden_module(project: Path, path: str, *, is_family: bool) -> None:
    """Refuses a module and a family of one name: Python prefers the family, and never loads the module."""
    taken = f"{path}.py" if is_family else f"{path}/__init__.py"
    if (project / taken).exists():
        hint = f"Python never loads {path}.py beside the family {path}/. Choose another name."
        raise UsageError(f"{taken} already exists; nothing was written.", hint=hint)


@click.command("new")
@click.argument("name")
@click.option("--family", help="Create it in a family of tools: tools/FAMILY/NAME.py.")
@log_option
def new_tool(name: str, family: str | None) -> None:
    """Create a tool and its test in this project.

    The first word of NAME decides what you start with: count, delete, fetch, find, parse, read or send. Any
    other name gets a tool that takes a text and returns one.
    """
    for kind, word in (("tool", name), ("family", family)):
        if word is not None and not _is_python_name(word):
            hint = "Use a Python name of at most 64 letters, digits and '_' that starts with a letter."
            near = re.sub(r"[-.\s]+", "_", word)
            hint = f"Did you mean {near!r}? {hint}" if _is_python_name(near) else hint
            raise UsageError(f"{word!r} cannot be the name of a {kind}.", hint=hint)
    if not is_module_name(f"{name}.py"):
        hint = "Files with this name hold tests. Choose another name."
        raise UsageError(f"{name!r} cannot be the name of a tool.", hint=hint)
    registry = ToolRegistry()
    if taken := registry.get(name):
        raise UsageError(f"The tool {name!r} already exists ({taken.origin}).", hint="Choose another name.")
    project = registry.settings.project
    directory = f"tools/{family}" if family else "tools"
    _refuse_hidden_module(project, f"tools/{family}" if family else f"tools/{name}", is_family=bool(family))
    tool, test, arguments = _tool_starter(name)
    files = {f"{directory}/{name}.py": tool, f"tests/test_{name}.py": test}
    if family and not (project / directory / "__init__.py").exists():
        files = {f"{directory}/__init__.py": f'"""The tools of the family {family}."""\n', **files}
    _write_new_files(project, files)
    print_note(f"Try it: strands tool call {name} {arguments}")
    print_note(f"Test it: strands tool test {name}")
