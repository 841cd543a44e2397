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

_TOOL = "stats"

_BASH = r"""#!/bin/bash
# JSON comes on standard input, JSON goes to standard output, and everything else to standard error.
exec jq '.text | if test("\\S") then
  {
    lines: (rtrimstr("\n") | split("\n") | length),
    words: ([scan("\\S+")] | length),
    characters: length
  }
else
  {error: "The text is empty"}
end'
"""

_PYTHON = r'''#!/usr/bin/env python3
"""JSON comes on standard input, JSON goes to standard output, and everything else to standard error."""

import json
import sys

text = json.load(sys.stdin)["text"]
if text.strip():
    lines = text.removesuffix("\n").split("\n")
    answer = {"lines": len(lines), "words": len(text.split()), "characters": len(text)}
else:
    answer = {"error": "The text is empty"}
json.dump(answer, sys.stdout)
'''

_NODE = r"""#!/usr/bin/env node
// JSON comes on standard input, JSON goes to standard output, and everything else to standard error.
let input = '';
process.stdin.on('data', (chunk) => (input += chunk));
process.stdin.on('end', () => {
  const { text } = JSON.parse(input);
  const answer = {
    lines: text.replace(/\n$/, '').split('\n').length,
    words: text.split(/\s+/).filter(Boolean).length,
    characters: [...text].length,
  };
  console.log(JSON.stringify(answer.words ? answer : { error: 'The text is empty' }));
});
"""

_C = r"""/* JSON comes on standard input, JSON goes to standard output, all else to standard error. */
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The text between the quotes of a string, still escaped as JSON. */
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

/* The next character; what is not ASCII is an 'x', and the rest of such a character is 0. */
static int next_character(char **at)
{
    int found = (unsigned char)*(*at)++;
    if (found != '\\')
        return found < 0x80 ? found : found < 0xc0 ? 0 : 'x';
    switch (*(*at)++) {
    case 'n':
        return '\n';
    case 'r':
    case 't':
        return ' ';
    case 'u':
        break;
    default:
        return 'x';
    }
    char digits[5] = "";
    strncpy(digits, *at, 4);
    *at += strlen(digits);
    long code = strtol(digits, NULL, 16);
    return code < 0x80 ? (int)code : code >= 0xdc00 && code < 0xe000 ? 0 : 'x';
}

int main(void)
{
    char *input = NULL;
    size_t room = 0;
    ssize_t length = getdelim(&input, &room, '\0', stdin); /* all of it: JSON has no such character */
    char *text = length > 0 ? string_of(input, "\"text\":") : NULL;
    long lines = 0, words = 0, characters = 0;
    int last = '\n', was_space = 1;
    while (text && *text) {
        int one = next_character(&text);
        if (!one)
            continue;
        characters++;
        lines += last == '\n';
        words += was_space && !isspace(one);
        was_space = isspace(one);
        last = one;
    }
    if (words)
        printf("{\"lines\": %ld, \"words\": %ld, \"characters\": %ld}\n", lines, words, characters);
    else
        printf("{\"error\": \"The text is empty\"}\n");
    return 0;
}
"""

_MAKEFILE = """cli-tools/stats: src/stats.c
\tmkdir -p cli-tools
\tcc -O2 -Wall -o $@ $<
"""

_TEST = '''"""Tests of the plugin {name}. Run them with: strands tool test"""

from strands_cli.testing import call


def test_lines_words_and_characters_are_counted() -> None:
    assert call("{tool}", text="one\\ntwo words\\n").data == {{"lines": 2, "words": 3, "characters": 14}}


def test_an_empty_text_is_refused() -> None:
    call("{tool}", text=" ").expect("failed")


def test_a_text_is_required() -> None:
    call("{tool}").expect("input_invalid", "/text")
'''


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
    "python": Starter("cli-tools/stats.py", {"cli-tools/stats.py": _PYTHON}, ("python3",)),
    "bash": Starter("cli-tools/stats.sh", {"cli-tools/stats.sh": _BASH}, ("bash", "jq")),
    "node": Starter("cli-tools/stats.js", {"cli-tools/stats.js": _NODE}, ("node",)),
    "c": Starter(
        "cli-tools/stats",
        {"src/stats.c": _C, "Makefile": _MAKEFILE},
        build=("cc", "-O2", "-Wall", "-o", "cli-tools/stats", "src/stats.c"),
    ),
}


def _starter_manifest(name: str, starter: Starter) -> dict[str, object]:
    """The `plugin.json` of a new plugin."""
    text = {"type": "string", "description": "The text to measure", "examples": ["one\ntwo words\n"]}
    counts = ("lines", "words", "characters")
    requires = {"requires": {"binaries": starter.binaries}} if starter.binaries else {}
    return {
        "name": name,
        "version": "0.1.0",
        "description": "Measures texts.",
        "cli_tools": [
            {
                "name": _TOOL,
                "path": starter.path,
                "description": "Count the lines, words and characters of a text.",
                "parameters": {"type": "object", "properties": {"text": text}, "required": ["text"]},
                "output_schema": {
                    "type": "object",
                    "properties": {count: {"type": "integer"} for count in counts},
                    "required": counts,
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
    strands tool call {name}__{_TOOL} text='two words'

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
    files, _ = plugin_files(name, language)
    settings, starter = load_settings(), _STARTERS[language]
    place = plugin_roots(settings)["project"] / name
    test = settings.project / plugin_test_path(name)
    for taken in (place, test):
        if os.path.lexists(taken):
            raise UsageError(f"{taken} already exists; nothing was written.", hint="Choose another name.")
    with staging_directory(place.parent) as stage:
        directory = stage / name
        _write_starter(directory, starter, files)
        reading = read_plugin(directory)
        if reading.plugin is None:
            raise SpecError("The new plugin is invalid.", issues=reading.issues)
        test.parent.mkdir(exist_ok=True)
        test.write_text(plugin_test(name), "utf-8")
        directory.rename(place)
    for path in plugin_digests(place):
        print_line(str((place / path).relative_to(settings.project)))
    print_line(str(test.relative_to(settings.project)))
    if missing := missing_requirements({"binaries": list(starter.binaries)}):
        print_warning(f"It cannot be called here: {'; '.join(missing)}.")
    print_note(f"Try it: strands tool call {name}__{_TOOL} text='two words'")
    print_note(f"Test it: strands plugin test {name}, then strands tool test")


def plugin_files(name: str, language: str) -> tuple[dict[str, str], str]:
    """Returns the texts of a new plugin by path, and the path of its executable."""
    pattern = published_schema("plugin").schema["properties"]["name"]["pattern"]
    if not re.search(pattern, name) or tool_name_problem(f"{name}__{_TOOL}"):
        hint = "Use letters, digits, '-' and '_', with a letter or digit first, and at most 57 of them."
        raise UsageError(f"{name!r} cannot be the name of a plugin.", hint=hint)
    starter = _STARTERS[language]
    manifest = json.dumps(_starter_manifest(name, starter), indent=2) + "\n"
    readme = _starter_readme(name, starter)
    return {MANIFEST_NAME: manifest, "README.md": readme, **starter.files}, starter.path


def plugin_test_path(name: str) -> str:
    """Returns where the project has the test of a new plugin.

    It is not in the plugin's directory: tests run unconfined, so those of a plugin from elsewhere must not.
    """
    return f"tests/test_{name}__{_TOOL}.py"


def plugin_test(name: str) -> str:
    return _TEST.format(name=name, tool=f"{name}__{_TOOL}")


def _write_starter(place: Path, starter: Starter, files: dict[str, str]) -> None:
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
