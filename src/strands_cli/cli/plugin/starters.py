"""`strands plugin new`: what a new plugin consists of, in each language, and how it is written."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import click
import msgspec

from strands_cli.cli.output import print_line, print_note, print_warning
from strands_cli.cli.plugin.installation import staging_directory
from strands_cli.errors import SpecError, UnsupportedError, UsageError
from strands_cli.plugins.directories import MANIFEST_NAME, plugin_digests, plugin_roots
from strands_cli.plugins.plugin import read_plugin
from strands_cli.schema.validator import published_schema
from strands_cli.settings import load_settings
from strands_cli.toolkit.info import missing_requirements, tool_name_problem

_TOOL = "greet"

_BASH = r"""#!/bin/bash
# JSON comes on standard input, JSON goes to standard output, and everything else to standard error.
input=$(cat)
name=$(jq -r '.name' <<<"$input")

if [ -z "$name" ]; then
  echo '{"error": "No name provided"}'
  exit 0
fi

jq '{message: "Hello, \(.name)!"}' <<<"$input"
"""

_PYTHON = '''#!/usr/bin/env python3
"""JSON comes on standard input, JSON goes to standard output, and everything else to standard error."""

import json
import sys

given = json.load(sys.stdin)
name = given["name"].strip()
if name:
    json.dump({"message": f"Hello, {name}!"}, sys.stdout)
else:
    json.dump({"error": "No name provided"}, sys.stdout)
'''

_NODE = """#!/usr/bin/env node
// JSON comes on standard input, JSON goes to standard output, and everything else to standard error.
let input = '';
process.stdin.on('data', (chunk) => (input += chunk));
process.stdin.on('end', () => {
  const name = JSON.parse(input).name.trim();
  const answer = name ? { message: `Hello, ${name}!` } : { error: 'No name provided' };
  console.log(JSON.stringify(answer));
});
"""

_C = r"""/* JSON comes on standard input, JSON goes to standard output, all else to standard error. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>

/* The text between the quotes of a string, still escaped as JSON, so that it can be printed as it is. */
static char *string_of(char *text, const char *key)
{
    char *start = strstr(text, key);
    if (!start || !(start = strchr(start + strlen(key), '"')))
        return NULL;
    char *end = ++start;
    while (*end && *end != '"')
        end += end[0] == '\\' && end[1] ? 2 : 1;
    *end = '\0';
    return start;
}

int main(void)
{
    char *text = NULL;
    size_t room = 0;
    ssize_t length = getdelim(&text, &room, '\0', stdin); /* all of it: JSON has no such character */
    char *name = length > 0 ? string_of(text, "\"name\":") : NULL;
    if (name && *name)
        printf("{\"message\": \"Hello, %s!\"}\n", name);
    else
        printf("{\"error\": \"No name provided\"}\n");
    return 0;
}
"""

_MAKEFILE = """cli-tools/greet: src/greet.c
\tmkdir -p cli-tools
\tcc -O2 -Wall -o $@ $<
"""


class Starter(msgspec.Struct, frozen=True):
    path: str
    """The tool's executable."""
    files: dict[str, str]
    """Texts by path; that of the tool itself is executable."""
    binaries: tuple[str, ...] = ()
    """Programs that the tool needs when it is called."""
    build: tuple[str, ...] = ()
    """A command that makes the executable, in the plugin's directory."""


_STARTERS = {
    "python": Starter("cli-tools/greet.py", {"cli-tools/greet.py": _PYTHON}, ("python3",)),
    "bash": Starter("cli-tools/greet.sh", {"cli-tools/greet.sh": _BASH}, ("bash", "jq")),
    "node": Starter("cli-tools/greet.js", {"cli-tools/greet.js": _NODE}, ("node",)),
    "c": Starter(
        "cli-tools/greet",
        {"src/greet.c": _C, "Makefile": _MAKEFILE},
        build=("cc", "-O2", "-Wall", "-o", "cli-tools/greet", "src/greet.c"),
    ),
}


def _starter_manifest(name: str, starter: Starter) -> dict[str, object]:
    """The `plugin.json` of a new plugin."""
    who = {"type": "string", "description": "Who to greet", "examples": ["Ada"]}
    requires = {"requires": {"binaries": starter.binaries}} if starter.binaries else {}
    return {
        "name": name,
        "version": "0.1.0",
        "description": "Says hello.",
        "cli_tools": [
            {
                "name": _TOOL,
                "path": starter.path,
                "description": "Greet somebody by name. Say here what the tool does: the model reads it.",
                "parameters": {"type": "object", "properties": {"name": who}, "required": ["name"]},
                "output_schema": {
                    "type": "object",
                    "properties": {"message": {"type": "string"}},
                    "required": ["message"],
                },
                "annotations": {"readOnlyHint": True},
                **requires,
            }
        ],
    }


def _starter_readme(name: str, starter: Starter) -> str:
    build = "\n`make` builds it again after a change of its source.\n" if starter.build else ""
    return f"""# {name}

A plugin with one tool, `{name}__{_TOOL}`. `plugin.json` says what it takes, answers and may touch.
{build}
    strands plugin validate .
    strands plugin test .
    strands tool call {name}__{_TOOL} name=Ada

`strands plugin test` calls each tool with the `examples` of its parameters, in a copy of `fixtures/` if there
is such a directory here: put files there that the tool reads.
"""


# --- The command -------------------------------------------------------------------------------------------

_BUILD_SECONDS = 60


@click.command()
@click.argument("name")
@click.option(
    "--language",
    type=click.Choice([*_STARTERS]),
    default="python",
    show_default=True,
    help="The language of its tool.",
)
def new(name: str, language: str) -> None:
    """Create a plugin with a working tool in the plugins/ directory of this project."""
    pattern = published_schema("plugin").schema["properties"]["name"]["pattern"]
    if not re.search(pattern, name) or tool_name_problem(f"{name}__{_TOOL}"):
        hint = "Use letters, digits, '-' and '_', with a letter or digit first, and at most 57 of them."
        raise UsageError(f"{name!r} cannot be the name of a plugin.", hint=hint)
    settings, starter = load_settings(), _STARTERS[language]
    place = plugin_roots(settings)["project"] / name
    if os.path.lexists(place):
        raise UsageError(f"{place} already exists; nothing was written.", hint="Choose another name.")
    with staging_directory(place.parent) as stage:
        directory = stage / name
        _write_starter(directory, name, starter)
        reading = read_plugin(directory)
        if reading.plugin is None:
            raise SpecError("The new plugin is invalid.", issues=reading.issues)
        directory.rename(place)
    for path in plugin_digests(place):
        print_line(str((place / path).relative_to(settings.project)))
    if missing := missing_requirements({"binaries": list(starter.binaries)}):
        print_warning(f"It cannot be called here: {'; '.join(missing)}.")
    print_note(f"Try it: strands tool call {name}__{_TOOL} name=Ada")


def _write_starter(place: Path, name: str, starter: Starter) -> None:
    manifest = json.dumps(_starter_manifest(name, starter), indent=2) + "\n"
    files = {MANIFEST_NAME: manifest, "README.md": _starter_readme(name, starter), **starter.files}
    for path, text in files.items():
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
        if path == starter.path:
            file.chmod(0o755)
    if not starter.build:
        return
    compiler = shutil.which(starter.build[0])
    if compiler is None:
        reason = f"There is no {starter.build[0]!r} on the PATH, so nothing was written."
        raise UnsupportedError(reason, hint="Install a C compiler, or choose another --language.")
    (place / starter.path).parent.mkdir(exist_ok=True)
    done = subprocess.run(
        [compiler, *starter.build[1:]],
        cwd=place,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        reason = f"{compiler} failed, so nothing was written: {done.stderr.strip()}"
        raise UnsupportedError(reason, hint="Repair the compiler, or choose another --language.")
