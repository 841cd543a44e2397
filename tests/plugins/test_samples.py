"""The sample plugins of `examples/plugins`: from the shell, from a workflow, and where something is missing."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from strands_cli.exec.run import run_sync
from strands_cli.exec.steps import RunOptions
from strands_cli.loader import load_spec
from strands_cli.plugins.plugin import read_plugin
from strands_cli.schema.validator import Validator
from tests.exec.flows import Flow, steps
from tests.fakes import ScriptedModel, tool_call
from tests.plugins.makers import need
from tests.projects import Outcome, Project
from tests.sites import answer, serving

SAMPLES = Path(__file__).resolve().parents[2] / "examples" / "plugins"
NAMES = sorted(directory.name for directory in SAMPLES.iterdir())
SEED_FORMAT = r"""#!/bin/bash
# Read JSON input
input=$(cat)

# Extract parameters
file=$(echo "$input" | jq -r '.file')
language=$(echo "$input" | jq -r '.language // "auto"')

# Do the work
result=$(prettier --write "$file" 2>&1)

# Return JSON output
echo "{\"success\": true, \"message\": \"Formatted $file\", \"output\": \"$result\"}"
"""
SEED_VALIDATE = """#!/usr/bin/env node
const fs = require('fs');

// Read JSON from stdin
let input = '';
process.stdin.on('data', chunk => input += chunk);
process.stdin.on('end', () => {
  const params = JSON.parse(input);

  // Do validation
  const content = fs.readFileSync(params.file, 'utf8');
  const isValid = content.includes('TODO') === false;

  // Return result
  console.log(JSON.stringify({
    valid: isValid,
    issues: isValid ? [] : ['Contains TODO comments']
  }));
});
"""
UNTIDY, TIDY = "const a = {b:1}\n", "const a = { b: 1 };\n"
SAID_BY_PRETTIER = re.compile(r"src/main\.js \d+ms")


@pytest.fixture
def samples(project: Project) -> Project:
    """A project that has all of them, the one in C compiled."""
    need("gcc", "make")
    shutil.copytree(SAMPLES, project.root / "plugins")
    subprocess.run(["make", "-s", "-C", project.root / "plugins" / "line-count"], check=True)
    project.write("src/main.js", UNTIDY)
    return project


def called(project: Project, tool: str, arguments: dict[str, Any], **environment: str) -> Any:
    outcome = project.strands("tool", "call", tool, json.dumps(arguments), cwd=None, **environment)
    assert outcome.exit_code == 0, outcome
    return outcome.json


def refused(project: Project, tool: str, arguments: dict[str, Any], **environment: str) -> dict[str, Any]:
    outcome = project.strands("tool", "call", tool, json.dumps(arguments), "--json", cwd=None, **environment)
    assert outcome.exit_code != 0, outcome
    return dict(outcome.json["error"])


def path_without(project: Project, *programs: str) -> str:
    """A PATH in the workspace with what the samples need, but for some."""
    directory = project.root / "bin"
    directory.mkdir()
    for program in {"bash", "cat", "env", "jq", "node", "prettier"} - set(programs):
        (directory / program).symlink_to(str(shutil.which(program)))
    return str(directory)


# --- The seed's two ---------------------------------------------------------------------------------------


def test_the_seeds_programs_are_as_the_seed_has_them() -> None:
    assert (SAMPLES / "my-plugin/cli-tools/format.sh").read_text() == SEED_FORMAT
    assert (SAMPLES / "my-plugin/cli-tools/validate.js").read_text() == SEED_VALIDATE


def test_validate_returns_all_its_keys(samples: Project) -> None:
    need("node")
    good = called(samples, "my-plugin__validate", {"file": "src/main.js"})
    assert good == {"valid": True, "issues": []}
    samples.write("src/main.js", "// TODO: all of it\n")
    bad = called(samples, "my-plugin__validate", {"file": "src/main.js"})
    assert bad == {"valid": False, "issues": ["Contains TODO comments"]}


def test_validate_says_why_it_failed(samples: Project) -> None:
    need("node")
    found = refused(samples, "my-plugin__validate", {"file": "src/none.js"})
    assert found["code"] == "failed"
    assert "ENOENT: no such file or directory, open 'src/none.js'" in found["message"]


def test_format_returns_all_its_keys_and_formats(samples: Project) -> None:
    need("jq", "prettier")
    answer = called(samples, "my-plugin__format", {"file": "src/main.js"})
    assert answer == {"success": True, "message": "Formatted src/main.js", "output": answer["output"]}
    assert SAID_BY_PRETTIER.fullmatch(answer["output"])
    assert (samples.root / "src/main.js").read_text() == TIDY


def test_format_works_from_a_directory_below(samples: Project) -> None:
    need("jq", "prettier")
    outcome = samples.strands(
        "tool", "call", "my-plugin__format", '{"file": "main.js"}', cwd=samples.root / "src"
    )
    assert outcome.exit_code == 0, outcome
    assert outcome.json["message"] == "Formatted main.js"
    assert (samples.root / "src/main.js").read_text() == TIDY


def test_format_is_unavailable_without_prettier_and_says_so(samples: Project) -> None:
    need("jq", "prettier")
    path = path_without(samples, "prettier")
    found = refused(samples, "my-plugin__format", {"file": "src/main.js"}, PATH=path)
    assert found["code"] == "unavailable"
    assert "prettier is not on the PATH" in found["message"]
    assert (samples.root / "src/main.js").read_text() == UNTIDY


def test_format_that_declares_nothing_answers_what_it_prints(samples: Project) -> None:
    """The seed's own manifest: without prettier its JSON says so; where it may not write, it is no JSON."""
    need("jq", "prettier")
    tool = {"name": "format", "path": "cli-tools/format.sh"}
    samples.write("plugins/my-plugin/plugin.json", json.dumps({"name": "my-plugin", "cli_tools": [tool]}))
    path = path_without(samples, "prettier")
    answer = called(samples, "my-plugin__format", {"file": "src/main.js"}, PATH=path)
    assert answer["success"] is True
    assert "prettier: command not found" in answer["output"]
    assert as_text(samples.strands("tool", "call", "my-plugin__format", '{"file": "src/main.js"}'))
    assert (samples.root / "src/main.js").read_text() == UNTIDY


def test_format_that_prints_no_json_is_answered_as_text_with_a_hint(samples: Project) -> None:
    need("jq", "prettier")
    samples.write("src/broken.js", "const = ;\n")
    outcome = samples.strands("tool", "call", "my-plugin__format", '{"file": "src/broken.js"}')
    assert '"message": "Formatted src/broken.js"' in as_text(outcome)
    assert "SyntaxError" in outcome.out


def as_text(outcome: Outcome) -> str:
    """What the call printed, which is no JSON and comes with the remark that it is none."""
    assert outcome.exit_code == 0, outcome
    assert "This looks like JSON but is not" in outcome.out
    with pytest.raises(ValueError, match=r"Invalid control character|Expecting"):
        json.loads(outcome.out)
    return outcome.out


# --- From a workflow --------------------------------------------------------------------------------------


@pytest.fixture
def flow(samples: Project, inside: Project) -> Flow:
    return Flow(inside.root)


def answers_in(flow: Flow, model: ScriptedModel, plugin: str, *calls: Any) -> list[Any]:
    """What the model is told when it makes these calls in one turn."""
    model.enqueue(*calls).enqueue("Done.")
    result = flow.run("chain", {"steps": steps("Go")}, tools={"plugins": [plugin]})
    assert result.last_response == "Done."
    found = model.requests[1].results
    assert [answer["status"] for answer in found] == ["success"] * len(calls), found
    return [
        next((block["json"] for block in answer["content"] if "json" in block), answer) for answer in found
    ]


def test_the_seeds_two_return_all_their_keys_in_a_workflow(flow: Flow, model: ScriptedModel) -> None:
    need("jq", "node", "prettier")
    file = "src/main.js"
    formatted, valid = answers_in(
        flow,
        model,
        "my-plugin",
        tool_call("my-plugin__format", file=file),
        tool_call("my-plugin__validate", file=file),
    )
    assert formatted.keys() == {"success", "message", "output"}
    assert SAID_BY_PRETTIER.fullmatch(formatted["output"])
    assert valid == {"valid": True, "issues": []}
    assert (flow.directory / file).read_text() == TIDY


def test_a_workflow_names_a_plugin_by_its_directory(flow: Flow, model: ScriptedModel) -> None:
    need("jq")
    shutil.move(flow.directory / "plugins" / "json-query", flow.directory / "elsewhere")
    (flow.directory / "elsewhere").rename(flow.directory / "json-query")
    (flow.directory / "a.json").write_text('{"a": [1, 2]}')
    query = tool_call("json-query__query", file="a.json", filter=".a[]")
    assert answers_in(flow, model, "./json-query", query) == [{"results": [1, 2], "count": 2}]


def test_a_worker_serves_a_workflow(flow: Flow, model: ScriptedModel) -> None:
    (flow.directory / "a.csv").write_text("n\n1\n2\n")
    sums = [
        tool_call("csv-tools__query", file="a.csv", sql=f"SELECT sum(n) + {n} FROM data") for n in range(3)
    ]
    found = answers_in(flow, model, "csv-tools", *sums)
    assert [answer["rows"] for answer in found] == [[[3]], [[4]], [[5]]]


def test_the_example_workflow_checks_and_tidies_a_package(
    samples: Project, inside: Project, model: ScriptedModel
) -> None:
    need("jq", "node", "prettier")
    samples.write("data/package/src/main.js", UNTIDY)
    samples.write("data/package/package.json", '{"version": "1.4.0"}')
    samples.write("data/package/README.md", "[nowhere](none.md)\n")
    model.enqueue(
        tool_call("my-plugin__validate", file="src/main.js"),
        tool_call("json-query__query", file="package.json", filter=".version"),
        tool_call("markdown__broken-links", file="README.md"),
    )
    model.enqueue("Version 1.4.0, one link leads nowhere.")
    model.enqueue(tool_call("my-plugin__format", file="src/main.js")).enqueue("It is tidy.")
    file = shutil.copy(SAMPLES.parent / "chain-with-plugins.yaml", samples.root)
    spec = load_spec(Path(file), {"script": "src/main.js"})
    result = run_sync(spec, options=RunOptions(directory=samples.root))
    assert [answer["content"][0]["json"] for answer in model.requests[1].results] == [
        {"valid": True, "issues": []},
        {"results": ["1.4.0"], "count": 1},
        {"checked": 1, "broken": [{"target": "none.md", "line": 1}]},
    ]
    assert (samples.root / "data/package/src/main.js").read_text() == TIDY
    assert result.artifacts[0].read_text().count("\n\n") == 2


# --- The others -------------------------------------------------------------------------------------------

FILES = {
    "data.json": '{"version": "1.4.0", "items": [{"name": "a \\"quoted\\" name"}, {"name": "b"}]}',
    "sales.csv": "region,amount\nnorth,10\nsouth,32\nnorth,8\n",
    "notes.md": "# Notes #\n\n```\n# no heading\n```\n## Links\n[a](data.json) [b](none.md#x) [c](https://example.com)\n",
}
ANSWERS: list[tuple[str, dict[str, Any], Any]] = [
    ("json-query__query", {"file": "data.json", "filter": ".version"}, {"results": ["1.4.0"], "count": 1}),
    (
        "json-query__query",
        {"file": "data.json", "filter": ".items[].name"},
        {"results": ['a "quoted" name', "b"], "count": 2},
    ),
    ("json-query__query", {"file": "data.json", "filter": "empty"}, {"results": [], "count": 0}),
    (
        "csv-tools__describe",
        {"file": "sales.csv"},
        {
            "rows": 3,
            "columns": {
                "region": {"type": "text"},
                "amount": {"type": "number", "min": 8, "max": 32, "mean": 50 / 3},
            },
        },
    ),
    (
        "csv-tools__query",
        {"file": "sales.csv", "sql": "SELECT region, sum(amount) AS total FROM data GROUP BY region"},
        {"columns": ["region", "total"], "rows": [["north", 18], ["south", 32]]},
    ),
    (
        "csv-tools__query",
        {"file": "sales.csv", "sql": "SELECT x'00ff' AS a, 9e999 AS b, NULL AS c", "limit": 1},
        {"columns": ["a", "b", "c"], "rows": [["00ff", "inf", None]]},
    ),
    (
        "markdown__outline",
        {"file": "notes.md"},
        {"headings": [{"level": 1, "text": "Notes", "line": 1}, {"level": 2, "text": "Links", "line": 6}]},
    ),
    (
        "markdown__broken-links",
        {"file": "notes.md"},
        {"checked": 2, "broken": [{"target": "none.md#x", "line": 7}]},
    ),
    ("line-count__count", {"file": "sales.csv"}, {"lines": 4, "words": 4, "bytes": 40}),
    ("line-count__count", {"file": "ü \"n\".txt"}, {"lines": 0, "words": 2, "bytes": 7}),
]  # fmt: skip
ERRORS: list[tuple[str, dict[str, Any], str, str]] = [
    ("json-query__query", {"file": "none.json"}, "not_found", "There is no file none.json"),
    ("json-query__query", {"file": "data.json", "filter": "bad("}, "failed", "syntax error"),
    ("csv-tools__describe", {"file": "none.csv"}, "not_found", "There is no file none.csv"),
    ("csv-tools__query", {"file": "none.csv", "sql": "SELECT 1"}, "not_found", "There is no file none.csv"),
    ("csv-tools__query", {"file": "sales.csv", "sql": "DROP TABLE data"}, "failed", "not authorized"),
    ("csv-tools__query", {"file": "sales.csv", "sql": " "}, "failed", "has to be a SELECT"),
    ("csv-tools__query", {"file": "sales.csv", "sql": "SELECT 1; SELECT 2"}, "failed", "one statement"),
    ("csv-tools__query", {"file": "a\u0000b", "sql": "SELECT 1"}, "failed", "null"),
    ("markdown__outline", {"file": "none.md"}, "not_found", "no such file"),
    ("markdown__outline", {"file": "notes.md", "depth": 9}, "input_invalid", "depth"),
    ("line-count__count", {"file": "none"}, "not_found", "No such file"),
    ("line-count__count", {"file": "src"}, "failed", "Is a directory"),
    ("line-count__count", {"file": "a\u0000b"}, "failed", "a text that can name a file"),
]


@pytest.fixture
def filled(samples: Project) -> Project:
    need("jq", "node")
    for name, text in FILES.items():
        samples.write(name, text)
    samples.write('ü "n".txt', "two wds")
    return samples


@pytest.mark.parametrize(("tool", "arguments", "answer"), ANSWERS)
def test_a_sample_answers(filled: Project, tool: str, arguments: dict[str, Any], answer: Any) -> None:
    assert called(filled, tool, arguments) == answer


@pytest.mark.parametrize(("tool", "arguments", "code", "said"), ERRORS)
def test_a_sample_says_what_is_wrong(
    filled: Project, tool: str, arguments: dict[str, Any], code: str, said: str
) -> None:
    found = refused(filled, tool, arguments)
    assert found["code"] == code, found
    assert said in json.dumps(found)


def test_a_setting_reaches_a_sample(filled: Project) -> None:
    filled.write("umsatz.csv", "n;m\n1;2\n")
    found = called(filled, "csv-tools__describe", {"file": "umsatz.csv"}, CSV_TOOLS_DELIMITER=";")
    assert found["columns"].keys() == {"n", "m"}
    wrong = refused(filled, "csv-tools__describe", {"file": "umsatz.csv"}, CSV_TOOLS_DELIMITER="x")
    assert wrong["code"] == "unavailable"


# --- All of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_in_order(samples: Project, name: str) -> None:
    reading = read_plugin(samples.root / "plugins" / name)
    assert reading.plugin is not None, reading.issues
    manifest = reading.plugin.manifest
    assert manifest.name == name
    assert manifest.version != "0.0.0"
    for tool in manifest.cli_tools:
        assert tool.description
        assert tool.effects
        assert tool.parameters.get("required")
        Validator(tool.parameters)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "web-search"])
def test_a_sample_passes_the_conformance_run(samples: Project, name: str) -> None:
    need("jq", "node", "prettier")
    outcome = samples.strands("plugin", "test", f"plugins/{name}")
    assert outcome.exit_code == 0, outcome
    assert not re.search(r"^  (failed|skipped +good input)", outcome.out, re.MULTILINE), outcome


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_tells_people_and_editors_about_itself(name: str) -> None:
    document = json.loads((SAMPLES / name / "plugin.json").read_text())
    assert (SAMPLES / name / document["$schema"]).resolve().is_file()
    readme = (SAMPLES / name / "README.md").read_text()
    assert readme.startswith(f"# {name}\n")
    for tool in document["cli_tools"]:
        assert f"{name}__{tool['name']}" in readme


def test_what_is_not_built_yet_is_told_and_the_others_work(project: Project) -> None:
    need("jq")
    shutil.copytree(SAMPLES, project.root / "plugins", ignore=shutil.ignore_patterns("count"))
    project.write("a.json", "{}")
    listed = project.strands("list-tools", "--verbose")
    assert "There is no file cli-tools/count." in listed.out + listed.err
    assert called(project, "json-query__query", {"file": "a.json"}) == {"results": [{}], "count": 1}


# --- A search engine --------------------------------------------------------------------------------------

PAGES = [
    {"title": f"Owl {n}", "url": f"https://{n}.example", "content": "…", "score": 0.5, "x": 1} for n in "abc"
]


def test_a_search_engine_is_asked_with_its_key_from_inside_the_sandbox(project: Project) -> None:
    refused_before = project.strands("plugin", "add", str(SAMPLES / "web-search"))
    assert "TAVILY_API_KEY" in refused_before.out + refused_before.err
    assert project.strands("plugin", "add", str(SAMPLES / "web-search"), "--yes").exit_code == 0
    with serving() as site:
        found = {"answer": "Owls fly. key-0123456789abc", "results": PAGES}
        site.answers["/search"] = answer(body=json.dumps(found), content_type="application/json")
        env = {"TAVILY_API_KEY": "key-0123456789abc", "TAVILY_BASE_URL": site.url}
        asked = {"query": "owls", "max_results": 2, "include_answer": True}
        told = called(project, "web-search__tavily_search", asked, **env)
        assert [page["title"] for page in told["results"]] == ["Owl a", "Owl b"]
        assert told["answer"] == "Owls fly. ***"
        assert site.seen[0].headers["authorization"] == "Bearer key-0123456789abc"
        assert json.loads(site.seen[0].body) == asked
        outcome = project.strands("plugin", "test", "plugins/web-search", **env)
        assert outcome.exit_code == 0, outcome
        site.answers["/search"] = answer(401)
        assert refused(project, "web-search__tavily_search", {"query": "owls"}, **env)["code"] == "forbidden"
        site.answers["/search"] = answer(302, location=f"{site.url}/elsewhere")
        assert refused(project, "web-search__tavily_search", {"query": "owls"}, **env)["code"] == "failed"
        assert all(request.path == "/search" for request in site.seen)
    gone = refused(project, "web-search__tavily_search", {"query": "owls"}, **env)
    assert gone["code"] == "network"
    missing = refused(project, "web-search__tavily_search", {"query": "owls"})
    assert (missing["code"], "TAVILY_API_KEY" in str(missing)) == ("unavailable", True)
