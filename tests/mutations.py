"""Files made wrong in every way that a hurried person, a broken editor or an attacker makes them.

Workflows, manifests, settings, and what was decided about plugins. `mutated(seed)` is the same text for the same
seed, for as long as the examples stay the same.
"""

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import yaml

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SETTINGS = """\
workspace = [".", "../shared"]
allow = ["textwrap.shorten"]
threads = 20
thread_wait = 120
timeout = 60

[http]
allow = ["127.0.0.1:8080", "10.0.0.0/8", "intranet.example"]
max_bytes = 1_000_000

[sandbox]
accept = "seccomp"

[local]
threads = 4

[prices."gpt-4o-mini"]
input = 0.15
output = 0.6
"""
DECISIONS = (
    """{"version": 1, "plugins": {"plugins/line-count": {"files": {"plugin.json": "sha256:00", "a": "link:b"},
    "source": "https://host.example/x", "ref": "main", "commit": "0123"}, "plugins/markdown": {"files": {}}}}""",
    """{"plugins": {"@ROOT@/plugins/line-count": {"name": "line-count", "digest": "0123", "permissions": ["a"],
    "approved": "2026-01-01T00:00:00Z"}, "@ROOT@/plugins/one": {"name": "markdown", "digest": "../.."}}}""",
    """{"@ROOT@": {"0123456789abcdef": "a workflow reads /etc", "x": ""}, "/home": {}}""",
    """{"disabled": ["@ROOT@/plugins/markdown"]}""",
    """{"disabled": ["/home/somebody/project/plugins/one", "/home/somebody/two"]}""",
)

Tree = Any
Place = tuple[Any, Any]
"""A dict or a list, and a key or an index of it."""

ODD_VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, -(2**63), 2**64, 10**40, 1e308, 1e400, 0.5, "", " ", "\n", "0", "null",
    "~", "yes", [], {}, [[]], [None], {"": None}, {"a": {}}, "x" * 5000, "\u0000", "\ufeff", "é", "日本語",
    "\u202e\u200b", "🦄" * 100, "../../etc/passwd", "/dev/zero", "/proc/self/mem", "file:///etc/passwd", "http://[",
    "https://", "//", "native:", "native:echo", "echo@", "echo@999.0.0", "echo@^1", "./", "./missing.py:", ":", "@",
    "\ud800", "\udfff" * 3, "10s", "1e9h", "P1D", "-5m", "sha256:" + "0" * 64, "link:../..", "special", "plugins/../..",
    "strands_tools.", "..", "a.b.c.d", "os.system", "strands_cli.tools.echo.", "plugin__tool", "${", "${}", "$${A}",
    "${A:-${B}}", "${HOME}", "${NOT_SET_ANYWHERE}", "${A:-", "${PATH:-x}" * 50, "*", "&a", "!!python/object:x.y {}",
    "<<", "chain", "graph", "file", "env", "string", "$ref", ["a", "a"], [1, "a", None, {}], {"$ref": "nowhere.yaml"},
    {"$ref": "."}, {"$ref": ""}, {"$ref": "../" * 30 + "etc/passwd"}, {"$ref": "agents/editor.yaml", "extra": 1},
    {"$ref": {}}, {"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}},
    {"$ref": "a\u0000b"}, 4.0, 0.0, 1e3, "9" * 5000, -0.0, {"type": "nonsense"}, {"$ref": "#"}, {"pattern": "("}, {"type": ["string", 5]}, {"minimum": "a"},
]  # fmt: skip
TEMPLATES = [
    "{{", "}}", "{{ }}", "{{ }", "{%", "{% if %}", "{% if x %}", "{% endif %}", "{% for a in b %}{{ a }}",
    "{% for a in range(10**9) %}{% endfor %}", "{{ 10**10**10 }}", "{{ 'a' * 10**9 }}", "{{ ''.__class__.__mro__ }}",
    "{{ x | nonsense }}", "{{ x is nonsense }}", "{{ nowhere }}", "{{ nowhere.a.b.c }}", "{{ steps[99].response }}",
    "{{ steps.nowhere.response }}", "{{ nodes }}", "{{ last_response", "{{ last_response }}}", "{# open", "{{ \"'\" }}",
    "{% include 'x' %}", "{% import 'os' as o %}", "{% extends 'x' %}", "{% raw %}", "{% block a %}{% endblock %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{% set a = 1 %}{{ a }}", "{{ " + "(" * 500 + " }}",
    "{{ " + "a." * 2000 + "b }}", "{{ " + "not " * 3000 + "a }}", "{{ [" + "[" * 300 + " }}", "{{ 1 if }}",
    "{{ inputs['a']['b'] }}", "{{ self }}", "{{ cycler.__init__.__globals__ }}", "{{ \ud83e\udd84 }}", "{{\t\n}}",
    "{{ secrets.X }}", "{{ TRACE }}", "{{ 0x }}", "{{ 1e }}", "{{ 'open }}", "{%- -%}", "{{ a~b }}", "{{ a|map }}",
    "{{ a[-'x'] }}", "{{ 'x' | center(200000000) }}", "{{ '%999999999d' | format(1) }}", "{{ a[None] }}", "{{ a[1:2] }}",
    "{{ 'a' | int(base=99) }}", "{{ {'a b': 1} | xmlattr }}", "{{ [1, 'a'] | sort }}", "{{ super() }}", "{% call a() %}",
    "{% for a in b recursive %}{{ loop(a) }}{% endfor %}", "{% if a %}" * 300 + "{% endif %}" * 300, "{{ a " * 5000,
]  # fmt: skip
CONDITIONS = [
    "", " ", "true", "not", "and", "a and", "a ==", "== 1", "()", "(" * 400, "a" * 4000, "nodes", "nodes.", "nodes..a",
    "nodes.write.response", "nodes.nowhere.response == 'x'", "1 == 1", "1 == 2", "'a' contains", "not " * 2000 + "a",
    "a or " * 2000 + "b", "__import__('os')", "nodes.write.__class__", "lambda: 1", "[x for x in nodes]", "1 < 'a'",
    "nodes.write.response contains 'x' and not (nodes.write.response contains 'x')", "'open", '"', "a = 1", "a === b",
    "nodes['write']['response'] == 1", "inputs.nowhere > 3", "9" * 5000 + " > 1", "1 / 0", "10 ** 10 ** 10", "\u0000",
    "{{ nodes.write.response }}", "x if y else z", "a; b", "é == 'é'", "nodes[" + "9" * 400 + "]", "nodes[1.5]", "nodes['a\\'b']", "-" * 50 + "1", "[" * 300, "[1, [2, [3]]] contains 1",
    "nodes.write.response matches '(a+)+$'",
]  # fmt: skip
SPLICES = [
    "\t", "\tagents:", "- ", "-", ": ", ":", "? ", "&a", "*a", "*nowhere", "!!binary x", "!tag x", "%YAML 9.9", "---",
    "...", "<<: *a", "<<: 1", "|", ">", "'", '"', "{", "}", "[", "]", "#", "@", "`", "a: b: c", "\u2028", "\u0085",
    "\x07", "\ufeff", "\u202e", "agents: &a {b: *a}", "version: 0", "version: 1", "name: other", "key: |2\n x",
    "x: !!float nan", "x: .inf", "x: 0o17", "x: 0x1f", "x: 1_000", "x: 12:30:00", "x: 2026-01-01", "? [a, b]\n: c",
    "x = " + "9" * 5000, "a." * 5000 + "b = 1", "x = " + "[" * 5000, "[" * 50_000, '{"a":' * 20_000, '"\\ud800"', "[[x]]",
    "x = 0x" + "f" * 20_000, '"""', "\'\'\'", "9" * 5000, '"a" "a"', "\\u0000", "NaN", "-Infinity", "1e999", "\ud800",
    "x: " + "9" * 5000, "x: 1e99999", "x: " + "[" * 200, "x: " + "{a: " * 200, "pattern:", "tools: {mcp: [{}]}",
]  # fmt: skip


class Corpus(NamedTuple):
    """Good files of one kind."""

    texts: tuple[str, ...]
    trees: tuple[str, ...]
    """Their values, as JSON."""
    written: Callable[[Random, Tree], str]


@cache
def workflows() -> Corpus:
    texts = tuple(file.read_text("utf-8") for file in sorted(EXAMPLES.glob("*.yaml")))
    return Corpus(texts, tuple(json.dumps(yaml.safe_load(text)) for text in texts), _written)


@cache
def manifests() -> Corpus:
    texts = tuple(file.read_text("utf-8") for file in sorted(EXAMPLES.glob("plugins/*/plugin.json")))
    return Corpus(texts, texts, _written_json)


@cache
def settings() -> Corpus:
    inner = re.sub(r"^\[(.+)]$", r"[tool.strands.\1]", SETTINGS, flags=re.MULTILINE)
    texts = (SETTINGS, f"[project]\nname = 'x'\n\n[tool.strands]\n{inner}")
    return Corpus(texts, tuple(json.dumps(tomllib.loads(text)) for text in texts), _written_toml)


@cache
def decisions() -> Corpus:
    return Corpus(DECISIONS, DECISIONS, _written_json)


def mutated(seed: int, corpus: Corpus | None = None) -> bytes:
    """A file with one to four things wrong in it, by default a workflow, as bytes."""
    random, corpus = Random(seed), corpus or workflows()
    source = random.randrange(len(corpus.texts))
    times = random.choice((1, 1, 1, 2, 2, 3, 4))
    if random.random() < 0.6:
        with _room_for_depth():
            text = corpus.written(random, _tree(random, json.loads(corpus.trees[source]), times))
    else:
        text = corpus.texts[source]
        for _ in range(times):
            text = random.choice(TEXT_MUTATIONS)(random, text)
    data = text.encode("utf-8", "surrogatepass")
    return random.choice(BYTE_MUTATIONS)(random, data) if random.random() < 0.12 else data


# --- The values of a file ---------------------------------------------------------------------------------


@contextmanager
def _room_for_depth() -> Iterator[None]:
    """What is nested into itself four times is deeper than a writer's own recursion may be."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(6000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _tree(random: Random, tree: Tree, times: int) -> Tree:
    for _ in range(times):
        places = [*_places(tree)]
        if places:
            random.choice(TREE_MUTATIONS)(random, random.choice(places), places)
    return tree


def _places(tree: Tree) -> Iterator[Place]:
    if isinstance(tree, dict | list):
        for key in [*tree] if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def _written(random: Random, tree: Tree) -> str:
    if random.random() < 0.3 or _depth(tree) > 100:
        return json.dumps(tree, indent=random.choice((None, 1, 4)), ensure_ascii=random.random() < 0.5)
    return yaml.safe_dump(tree, sort_keys=False, allow_unicode=random.random() < 0.5, width=10**6)


def _written_json(random: Random, tree: Tree) -> str:
    return json.dumps(tree, indent=random.choice((None, 2)), ensure_ascii=random.random() < 0.5)


def _written_toml(random: Random, tree: Tree) -> str:
    return "".join(f"{json.dumps(key)} = {_toml_value(value)}\n" for key, value in tree.items())


def _toml_value(value: Tree) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key)} = {_toml_value(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return str(value) if isinstance(value, float) else json.dumps(value)


def _depth(tree: Tree) -> int:
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def _delete(random: Random, place: Place, places: list[Place]) -> None:
    del place[0][place[1]]


def _rename(random: Random, place: Place, places: list[Place]) -> None:
    parent, key = place
    if isinstance(parent, dict):
        others = [str(other) for _, other in places]
        name = random.choice(
            (key + "s", key[:-1], key.upper(), "", "$ref", "<<", "~/0", random.choice(others))
        )
        parent[name] = parent.pop(key)


def _odd(random: Random, place: Place, places: list[Place]) -> None:
    place[0][place[1]] = deepcopy(random.choice(ODD_VALUES))


def _odd_word(random: Random, place: Place, places: list[Place]) -> None:
    """Of the same type, so that more of it gets past the schema."""
    parent, key = place
    value = parent[key]
    if isinstance(value, str):
        words = [odd for odd in ODD_VALUES if isinstance(odd, str)]
        parent[key] = random.choice(
            (value + "x", value[:-1], value.upper(), value[::-1], random.choice(words))
        )
    elif isinstance(value, int | float):
        parent[key] = random.choice(
            (-value, value * 10**6, value + 0.5, float(value), str(value), [value], not value)
        )
    else:
        parent[key] = random.choice(({}, [], None, [value], {"a": value}))


def _template(random: Random, place: Place, places: list[Place]) -> None:
    texts = [(parent, key) for parent, key in places if isinstance(parent[key], str)]
    if texts:
        parent, key = random.choice(texts)
        parent[key] = random.choice((parent[key] + " ", "")) + random.choice(TEMPLATES)


def _condition(random: Random, place: Place, places: list[Place]) -> None:
    edges = [parent[key] for parent, key in places if isinstance(parent[key], dict) and "from" in parent[key]]
    if edges:
        random.choice(edges)["when"] = random.choice(CONDITIONS)


def _swap(random: Random, place: Place, places: list[Place]) -> None:
    other, index = random.choice(places)
    place[0][place[1]], other[index] = json.loads(json.dumps([other[index], place[0][place[1]]]))


def _copy_in(random: Random, place: Place, places: list[Place]) -> None:
    parent, key = random.choice(places)
    copied = json.loads(json.dumps(parent[key]))
    if isinstance(place[0], list):
        place[0].insert(place[1], copied)
    else:
        place[0][random.choice((str(key), f"{place[1]}2"))] = copied


def _reference(random: Random, place: Place, places: list[Place]) -> None:
    """Names that refer to something made to refer to something else: other nodes, agents, tools, themselves."""
    keys = ("agent", "to", "from", "start", "default", "needs", "id", "callable", "tools", "when", "type")
    found = [(parent, key) for parent, key in places if key in keys]
    names = [str(key) for _, key in places]
    if found:
        parent, key = random.choice(found)
        name = random.choice(names)
        parent[key] = [name, random.choice(names)] if isinstance(parent[key], list) else name


def _deep(random: Random, place: Place, places: list[Place]) -> None:
    value: Any = "x"
    for _ in range(random.choice((10, 49, 51, 200))):
        value = [value] if random.random() < 0.5 else {"a": value}
    place[0][place[1]] = value


def _many(random: Random, place: Place, places: list[Place]) -> None:
    parent, key = place
    value = parent[key]
    if isinstance(value, list) and value:
        parent[key] = value * _times(random, value)
    elif isinstance(value, dict) and value:
        name, first = next(iter(value.items()))
        parent[key] = {**value, **{f"{name}{i}": first for i in range(_times(random, first))}}


def _times(random: Random, value: Tree) -> int:
    """A few, or as many as the limits of a file just allow."""
    return random.choice((2, 50, 9_000 // (1 + sum(1 for _ in _places(value)))))


def _unsupported(random: Random, place: Place, places: list[Place]) -> None:
    root = places[0][0]
    name, value = random.choice(
        [
            ("tools", {"mcp": [{"id": "x"}]}), ("tools", {"plugins": ["../x"]}), ("context_policy", {"retrieval": {"jit_tools": ["grep"]}}),
            ("pattern", {"type": "chain", "config": {"steps": [{"human": {"prompt": "{{ x"}}]}}),
            ("env", {"secrets": [{"name": "A", "source": "file", "path": "/etc/shadow"}]}),
            ("skills", [{"id": "a", "path": "../.."}, {"id": "a", "path": "\u0000"}]),
            ("outputs", {"artifacts": [{"path": "../../x", "from": "{{ a"}, {"path": "", "from": ""}]}),
            ("telemetry", {"otlp_endpoint": "http://[::1", "sample_rate": 2}),
        ]
    )  # fmt: skip
    root[name] = value


TREE_MUTATIONS: list[Callable[[Random, Place, list[Place]], None]] = [
    _delete, _rename, _odd, _odd, _odd_word, _odd_word, _template, _template, _condition, _swap, _copy_in, _reference,
    _reference, _deep, _many, _unsupported,
]  # fmt: skip


# --- The text of a file -----------------------------------------------------------------------------------


def _cut(random: Random, text: str) -> str:
    return text[: random.randrange(len(text) + 1)]


def _line(random: Random, text: str) -> tuple[list[str], int]:
    lines = text.splitlines(keepends=True) or ["\n"]
    return lines, random.randrange(len(lines))


def _drop_line(random: Random, text: str) -> str:
    lines, index = _line(random, text)
    return "".join(lines[:index] + lines[index + 1 :])


def _repeat_line(random: Random, text: str) -> str:
    lines, index = _line(random, text)
    return "".join(lines[:index] + [lines[index]] * random.choice((2, 2, 30)) + lines[index + 1 :])


def _move_line(random: Random, text: str) -> str:
    lines, index = _line(random, text)
    line = lines.pop(index)
    lines.insert(random.randrange(len(lines) + 1), line)
    return "".join(lines)


def _indent_line(random: Random, text: str) -> str:
    lines, index = _line(random, text)
    lines[index] = random.choice((" ", "  ", "\t", "\u00a0", "")) + lines[index].lstrip(" ")
    return "".join(lines)


def _splice(random: Random, text: str) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(SPLICES) + text[at:]


def _splice_line(random: Random, text: str) -> str:
    lines, index = _line(random, text)
    indent = " " * random.choice((0, 0, 2, 4))
    return "".join([*lines[:index], indent + random.choice(SPLICES) + "\n", *lines[index:]])


def _splice_file(random: Random, text: str) -> str:
    other = random.choice(random.choice((workflows, manifests, settings, decisions))().texts)
    return _cut(random, text) + other[random.randrange(len(other)) :]


def _alias_bomb(random: Random, text: str) -> str:
    levels = random.choice((3, 9, 30))
    lines = ["bomb0: &b0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"bomb{i}: &b{i} [{', '.join([f'*b{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join(lines) + "\n" + text


def _anchors(random: Random, text: str) -> str:
    """Some value an anchor, some other an alias of it, maybe inside itself."""
    keys = [match.end() for match in re.finditer(r"^ *[a-z_]+:", text, re.MULTILINE)]
    if len(keys) < 2:
        return text
    first, second = sorted(random.sample(keys, 2))
    ending = random.choice((" *a", "\n  <<: *a", " [*a, *a]"))
    return text[:first] + " &a" + text[first:second] + ending + text[second:]


def _other_words(random: Random, text: str) -> str:
    words = re.findall(r"\w+", text) or ["a"]
    return text.replace(random.choice(words), random.choice(words), random.choice((1, -1)))


def _line_ends(random: Random, text: str) -> str:
    return text.replace("\n", random.choice(("\r\n", "\r", "\n\n", "\u2028", "")))


def _garbage_template(random: Random, text: str) -> str:
    at = random.randrange(len(text) + 1)
    return text[:at] + random.choice(TEMPLATES) + text[at:]


TEXT_MUTATIONS: list[Callable[[Random, str], str]] = [
    _cut, _drop_line, _repeat_line, _move_line, _indent_line, _splice, _splice, _splice_line, _splice_file, _alias_bomb,
    _anchors, _other_words, _line_ends, _garbage_template,
]  # fmt: skip


# --- The bytes of a file ----------------------------------------------------------------------------------


def _flip(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 5, 50)) if changed else 0):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _insert_bytes(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) + 1)
    return data[:at] + random.randbytes(random.choice((1, 3, 40))) + data[at:]


def _encode(random: Random, data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    return text.encode(
        random.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7")), "surrogatepass"
    )


def _zeros(random: Random, data: bytes) -> bytes:
    return random.choice(
        (b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", data + b"\x00", b"\x00" * 3000, data * 40)
    )


BYTE_MUTATIONS: list[Callable[[Random, bytes], bytes]] = [_flip, _insert_bytes, _encode, _zeros]
