"""`strands tool package`: the tools of a project as a package that pip installs."""

import json
import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import click
import msgspec
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from strands_cli.cli.options import complete_tools, json_option, log_option
from strands_cli.cli.output import count_text, print_json, print_line, print_note
from strands_cli.cli.package_sources import OWN_MODULES, PackageSources, family_directory, project_module
from strands_cli.errors import ArtifactError, Issue, SpecError, UnsupportedError, UsageError, did_you_mean
from strands_cli.settings import load_settings
from strands_cli.toolkit.info import ToolInfo, version_key
from strands_cli.tools._discovery.scan import NO_CACHE
from strands_cli.tools.registry import ToolRegistry
from strands_cli.tools.sources.modules import Project
from strands_cli.tools.sources.packages import GROUP

_MOST_SHOWN = 10


@click.command("package")
@click.argument("names", metavar="[TOOL | FAMILY]…", nargs=-1, shell_complete=complete_tools)
@click.option("--name", help="The name of the package, such as acme-tools. Default: from what is packaged.")
@click.option("--version", help="Its version. Default: the highest version of the tools.")
@click.option(
    "--description", help="One line about it. Default: the description of the tool, or their names."
)
@click.option("--author", metavar="'NAME <EMAIL>'", help="Who wrote it.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="The directory to create. Default: dist-tools/NAME."
)
@click.option(
    "--include",
    metavar="PATTERN",
    multiple=True,
    help="Data files to ship too, as in 'tools/stock/*.csv'. Can be given several times.",
)
@click.option(
    "--build",
    is_flag=True,
    help="Also build the wheel and the sdist, in its directory dist. Needs hatchling.",
)
@json_option
@log_option
def package(
    *,
    names: tuple[str, ...],
    name: str | None,
    version: str | None,
    description: str | None,
    author: str | None,
    out: Path | None,
    include: tuple[str, ...],
    build: bool,
    as_json: bool,
) -> None:
    """Make a Python package of this project's tools, for pip.

    Without TOOL and FAMILY, all tools in tools/ are packaged, with the modules that they import and the data
    files that these name. The packages that they require become dependencies. Nothing is run.
    """
    project = load_settings().project
    every, infos = _chosen_tools(project, names)
    plan = _Plan(
        name=_distribution_name(name or _default_name(project, names), project),
        version=_distribution_version(version, infos),
        description=_one_line(description or _default_description(infos)),
        author=author or "",
        infos=tuple(infos),
    )
    target = out if out is not None else _as_seen_from_here(project / "dist-tools" / plan.name)
    if target.exists() or target.is_symlink():
        raise ArtifactError(f"{target} already exists.", hint="Remove it, or choose another --out.")
    if build:
        _require_hatchling()
    sources = PackageSources(project, plan.module)
    sources.add_tools(infos, every)
    sources.add_data(include)
    if sources.issues:
        raise SpecError("These tools cannot be packaged.", issues=sources.issues)
    files = {**_documents(plan, sources), **sources.contents()}
    built = _write(target, files, build=build)
    if as_json:
        print_json(
            {
                "name": plan.name,
                "version": plan.version,
                "directory": str(target),
                "files": sorted(files),
                "tools": [info.reference for info in infos],
                "dependencies": sources.dependencies,
                "left_out": sources.left_out,
                "built": built,
            }
        )
        return
    for file in (*sorted(files), *built):
        print_line(str(target / file))
    for note in sources.notes:
        print_note(note)
    _print_left_out(sources.left_out)
    wheel = next((file for file in built if file.endswith(".whl")), "")
    command = shlex.join(["pip", "install", str(target / wheel)])
    print_note(f"{count_text(len(infos), 'tool')} in {plan.name} {plan.version}. Install it: {command}")


def _print_left_out(files: list[str]) -> None:
    if files:
        print_note("Left out, since no module names them (--include adds them):")
    for file in files[:_MOST_SHOWN]:
        print_note(f"  {file}")
    if len(files) > _MOST_SHOWN:
        print_note(f"  and {len(files) - _MOST_SHOWN} more")


class _Plan(msgspec.Struct, frozen=True):
    """What the package is called, and whose tools it has."""

    name: str
    version: str
    description: str
    author: str
    infos: tuple[ToolInfo, ...]

    @property
    def module(self) -> str:
        return _module_name(self.name)


# --- what is packaged, and what it is called --------------------------------------------------------------


def _chosen_tools(project: Path, names: tuple[str, ...]) -> tuple[list[ToolInfo], list[ToolInfo]]:
    """Returns the tools in `tools/`, and those that the names mean; without names, all of them."""
    found = Project(load_settings(project), NO_CACHE).discover()
    chosen = [
        info
        for info in found.infos
        if not names or {info.id, info.reference, family_directory(info, project)} & {*names}
    ]
    known = {
        word for info in found.infos for word in (info.id, info.reference, family_directory(info, project))
    }
    for name in names:
        if name not in known:
            raise _unknown_tool(name, sorted(known - {""}), found.issues)
    files = {info.file for info in chosen}
    if broken := [
        issue for issue in found.issues if issue.severity == "error" and (not names or issue.file in files)
    ]:
        raise SpecError("These tools cannot be packaged.", issues=broken)
    if not chosen:
        hint = "Create a tool with 'strands tool new NAME'."
        raise UsageError(f"There is nothing to package: {project / 'tools'} has no tools.", hint=hint)
    return list(found.infos), chosen


def _unknown_tool(name: str, known: list[str], issues: tuple[Issue, ...]) -> UsageError | SpecError:
    if other := ToolRegistry.to_look_at().get(name):
        hint = "Only the tools in the project's tools/ can be packaged."
        return UsageError(f"{name} is not a tool of this project: it comes from {other.origin}.", hint=hint)
    if broken := [issue for issue in issues if issue.severity == "error"]:
        return SpecError(f"Unknown tool: {name}", issues=broken)
    hint = did_you_mean(name, known) or f"This project has {', '.join(known) or 'no tools'}."
    return UsageError(f"There is no tool and no family {name!r} in this project.", hint=hint)


def _default_name(project: Path, names: tuple[str, ...]) -> str:
    word = names[0] if len(names) == 1 else project.name
    plain = re.sub(r"[^a-z0-9]+", "-", word.partition("@")[0].lower()).strip("-")
    return f"{plain.removesuffix('-tools') or 'my'}-tools"


def _module_name(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _distribution_name(name: str, project: Path) -> str:
    """Returns the name of the package; UsageError where it is not one, or somebody else's."""
    module = _module_name(name)
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", name) or not module.isidentifier():
        hint = "Use letters, digits and '-', beginning with a letter, as in --name acme-tools."
        raise UsageError(f"{name!r} cannot be the name of a package.", hint=hint)
    owner = ""
    if module in sys.stdlib_module_names:
        owner = "a module of Python"
    elif canonicalize_name(name) == "strands-cli" or module in OWN_MODULES:
        owner = "strands-cli"
    elif project_module(project, module):
        owner = f"the module {module} of this project"
    else:
        try:
            there = distribution(name)
            owner = "" if there.entry_points.select(group=GROUP) else f"the installed package {there.name}"
        except PackageNotFoundError:
            pass
    if owner:
        raise UsageError(f"The name {name!r} is taken by {owner}.", hint="Choose another --name.")
    return canonicalize_name(name)


def _distribution_version(version: str | None, infos: list[ToolInfo]) -> str:
    highest = max((info.version for info in infos), key=version_key)
    try:
        return str(Version(version or ("0.1.0" if highest == "0.0.0" else highest)))
    except InvalidVersion:
        hint = "Write it as in --version 1.0.0."
        raise UsageError(f"{version or highest!r} is not a version of a Python package.", hint=hint) from None


def _default_description(infos: list[ToolInfo]) -> str:
    ids = sorted({info.id for info in infos})
    return infos[0].description if len(ids) == 1 else f"Tools for strands-cli: {', '.join(ids)}"


def _as_seen_from_here(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _one_line(text: str) -> str:
    return " ".join(text.split("\n\n", 1)[0].split())


# --- the files around them --------------------------------------------------------------------------------

_PYPROJECT = """[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = {name}
version = {version}
description = {description}
readme = "README.md"
requires-python = ">=3.11"
{author}dependencies = [
{dependencies}
]

[project.entry-points."{group}"]
{entry_points}

# The directory may lie in a repository that ignores it.
[tool.hatch.build]
ignore-vcs = true

[tool.hatch.build.targets.wheel]
only-include = [{modules}]
sources = ["src"]

[tool.hatch.build.targets.sdist]
include = ["/src", "/tests"]
"""
_README = """# {name}

{description}

Install the package into the environment of strands-cli:

```sh
pip install {name}
strands list-tools
```

| tool | version | |
|---|---|---|
{tools}
"""


def _documents(plan: _Plan, sources: PackageSources) -> dict[str, bytes]:
    """Returns `pyproject.toml` and the README."""
    author = re.fullmatch(r"\s*([^<>]*?)\s*(?:<([^<>\s]+)>)?\s*", plan.author)
    if author is None:
        hint = "Write it as in --author 'Ada Lovelace <ada@example.org>'."
        raise UsageError(f"{plan.author!r} is not an author.", hint=hint)
    facts = {
        key: _toml(value) for key, value in zip(("name", "email"), author.groups(), strict=True) if value
    }
    text = _PYPROJECT.format(
        name=_toml(plan.name),
        version=_toml(plan.version),
        description=_toml(plan.description),
        author=f"authors = [{{ {', '.join(f'{k} = {v}' for k, v in facts.items())} }}]\n" if facts else "",
        dependencies="\n".join(f"    {_toml(one)}," for one in sources.dependencies),
        group=GROUP,
        entry_points="\n".join(
            f"{_toml(key)} = {_toml(value)}" for key, value in sources.entry_points.items()
        ),
        modules=", ".join(map(_toml, sources.modules.values())),
    )
    about = [(info, _one_line(info.description).replace("|", r"\|")) for info in plan.infos]
    rows = [f"| `{info.id}` | {info.version} | {text} |" for info, text in about]
    readme = _README.format(name=plan.name, description=plan.description, tools="\n".join(rows))
    return {"pyproject.toml": text.encode(), "README.md": readme.encode()}


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _require_hatchling() -> None:
    from importlib.util import find_spec

    if find_spec("hatchling") is None:
        hint = "Install it: pip install hatchling. Or leave out --build, and build it elsewhere."
        raise UnsupportedError("--build needs the package hatchling, which is not installed.", hint=hint)


def _write(target: Path, files: dict[str, bytes], *, build: bool) -> list[str]:
    """Writes the directory, whole or not at all; returns what was built in it."""
    from strands_cli.cli.plugin.installation import staging_directory

    try:
        with staging_directory(target.parent) as stage:
            directory = stage / target.name
            for path, data in files.items():
                file = directory / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
            if build:
                _build(directory)
            directory.rename(target)
    except OSError as error:
        reason = f"{target} cannot be written: {error.strerror or error}."
        raise ArtifactError(reason, hint="Choose another --out.") from None
    return sorted(f"dist/{file.name}" for file in (target / "dist").iterdir()) if build else []


def _build(directory: Path) -> None:
    import subprocess

    command = [sys.executable, "-m", "hatchling", "build"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ArtifactError(
            f"hatchling could not build the package: {(done.stderr or done.stdout).strip()}",
            hint="Leave out --build to see the directory that it failed for.",
        )
