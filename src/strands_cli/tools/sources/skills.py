"""Skills: instructions that an agent is told of and loads when it needs them, each in its own directory."""

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from strands_cli.documents.files import Entry, NotRegular, Outside, Place, locate, walk_directory
from strands_cli.documents.reader import read_document
from strands_cli.errors import ToolFailed, did_you_mean
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.info import free_tool_name
from strands_cli.toolkit.results import sendable_text
from strands_cli.types.sections import Skill

MAIN_FILE = "SKILL.md"
_INSTEAD = "README.md"
"""Its main file where a skill has no SKILL.md."""
MAX_BYTES = 65_536
"""How much of a file a model gets: instructions that are longer belong into several files."""

_NAME = "load_skill"
_FRONT_MATTER = re.compile(r"\A---[ \t\r]*\n(.*?)^---[ \t\r]*$", re.DOTALL | re.MULTILINE)
_LONGEST_DESCRIPTION = 1000
_MAX_FILES = 100


def skill_tools(skills: Sequence[Skill], root: Path, taken: Collection[str] = ()) -> list[Tool]:
    """The tool that loads these skills, whose paths begin at `root`; none where there are no skills."""
    if not skills:
        return []
    by_id = {skill.id: skill for skill in skills}

    def load(arguments: dict[str, Any], context: object) -> str:
        directory, file = _skill_directory(by_id[arguments["id"]], root), arguments["file"]
        if file != MAIN_FILE:
            return _skill_text(directory, file)
        main = _main_file(directory)
        text = _skill_text(directory, main)
        others = [f"- {other}" for other in _skill_files(directory) if other != main]
        listing = ["", "Further files of this skill:", *others, ""] if others else [""]
        return _FRONT_MATTER.sub("", text).strip() + "\n" + "\n".join(listing)

    properties = {
        "id": {"type": "string", "enum": list(by_id), "description": "The skill"},
        "file": {
            "type": "string",
            "minLength": 1,
            "default": MAIN_FILE,
            "description": f"A file of the skill, as its {MAIN_FILE} names it",
        },
    }
    tool = Tool(
        id=free_tool_name(taken, _NAME),
        description=f"Loads a skill: its instructions ({MAIN_FILE}), or another text file that it has.",
        input_schema={"type": "object", "properties": properties, "required": ["id"]},
        invoke=load,
        max_output=0,
        annotations={"readOnlyHint": True},
    )
    return [tool]


def skills_prompt(skills: Sequence[Skill], root: Path, taken: Collection[str] = ()) -> str:
    """What an agent's system prompt says of its skills: what there is, and how one is loaded."""
    if not skills:
        return ""
    lines = [f"- {skill.id}: {_skill_description(skill, root)}".rstrip(": ") for skill in skills]
    intro = (
        "# Skills\nThese are instructions for particular tasks. Before you begin such a task, load its skill "
        f"with the tool {free_tool_name(taken, _NAME)!r} and follow it."
    )
    return "\n".join([intro, *lines])


def _skill_description(skill: Skill, root: Path) -> str:
    """From the workflow, else from the front matter of the skill's main file; nothing where that fails."""
    text: object = skill.description
    if not text:
        try:
            directory = _skill_directory(skill, root)
            front = _FRONT_MATTER.match(_skill_text(directory, _main_file(directory)))
        except ToolFailed:
            return ""  # it will be said when the skill is loaded
        values = read_document(front[1], MAIN_FILE).value if front else None
        text = values.get("description") if isinstance(values, dict) else None
    return " ".join(str(text or "").split())[:_LONGEST_DESCRIPTION]


# --- Files ------------------------------------------------------------------------------------------------


def _skill_directory(skill: Skill, root: Path) -> Path:
    outside = f"The skill {skill.id!r} is outside the workflow's directory"
    try:
        with locate_below(root.resolve(), skill.path, outside) as place:
            return place.path
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ToolFailed(f"The skill {skill.id!r} cannot be read: {reason}", code="not_found") from None


def _main_file(directory: Path) -> str:
    is_there = (directory / MAIN_FILE).exists() or not (directory / _INSTEAD).is_file()
    return MAIN_FILE if is_there else _INSTEAD


@contextmanager
def locate_below(
    directory: Path,
    path: str,
    refusal: str,
    *,
    make: bool = False,
    is_protected: Callable[[Path], bool] | None = None,
) -> Iterator[Place]:
    """What a path means below a directory, itself a real path; `denied` where it leaves it."""
    is_leaving = PureWindowsPath(path).drive or PurePosixPath(path).is_absolute()
    if is_leaving or ".." in PurePosixPath(path.replace("\\", "/")).parts:
        raise ToolFailed(refusal, code="denied")
    try:
        place = locate(path, directory, [directory], make=make, is_protected=is_protected)
    except Outside:
        raise ToolFailed(refusal, code="denied") from None
    except ValueError as error:
        raise ToolFailed(f"{path!r} is not a usable path: {error}", code="not_found") from None
    with place:
        yield place


def _skill_text(directory: Path, file: str) -> str:
    """The text of a skill's file, cut where it is too long."""
    try:
        with (
            locate_below(directory, file, f"{file} lies outside the skill's directory") as place,
            os.fdopen(place.open(), "rb") as stream,
        ):
            data, size = stream.read(MAX_BYTES), os.fstat(stream.fileno()).st_size
    except (FileNotFoundError, NotADirectoryError):
        files = _skill_files(directory)
        hint = did_you_mean(file, files) or f"There are: {', '.join(files) or 'no files'}."
        raise ToolFailed(f"The skill has no file {file}", code="not_found", hint=hint) from None
    except (IsADirectoryError, NotRegular):
        hint = f"There are: {', '.join(_skill_files(directory))}."
        raise ToolFailed(f"{file} is not a regular file", hint=hint) from None
    except OSError as error:
        raise ToolFailed(f"{file} cannot be read: {error.strerror or error}") from None
    try:
        text = data.decode("utf-8-sig", "strict" if size <= MAX_BYTES else "ignore")
    except UnicodeDecodeError:
        raise ToolFailed(f"{file} is not text in UTF-8", hint="Only text files can be loaded.") from None
    note = f"\n… Only the first {MAX_BYTES} of {size} bytes are shown.\n"
    return sendable_text(text) + (note if size > MAX_BYTES else "")


def _skill_files(directory: Path) -> list[str]:
    """What a model may be told of: at most so many files, none of them hidden or a link."""

    def is_shown(entry: Entry) -> bool:
        return not entry.parts[-1].startswith(".")

    try:
        with locate(".", directory, [directory]) as place:
            seen = (
                entry for entry in walk_directory(place, is_shown) if entry.kind == "file" and is_shown(entry)
            )
            return [sendable_text("/".join(entry.parts)) for entry in islice(seen, _MAX_FILES)]
    except OSError:
        return []
