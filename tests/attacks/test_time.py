"""Whatever a template, a condition or a server asks for, the answer comes soon and takes little memory."""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from strands_cli.capability import check_capability
from strands_cli.conditions import LONGEST, ConditionError, condition_holds, parse_condition
from strands_cli.http_tools.executors import http_tools
from strands_cli.http_tools.pauses import requested_pause
from strands_cli.http_tools.targets import parse_target
from strands_cli.loader import examine_workflow
from strands_cli.templates import Meter, TemplateError, names_in_template, render, render_known
from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.results import error_of
from strands_cli.types.sections import HttpExecutor
from tests.attacks.template_attacks import ATTACKS
from tests.mutations import EXAMPLES
from tests.projects import Project
from tests.sites import Site, answer, failing, serving
from tests.test_http_tools import workflow

pytestmark = pytest.mark.long

MAX_SECONDS = 8.0
"""Of CPU for one template: four times what it may take, for slow machines."""
MAX_MEGABYTES = 700


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as running:
        yield running


RENDERER = """
import json, resource, sys, time
from strands_cli.templates import TemplateError, names_in_template, render, render_known
if sys.platform == "linux":
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
render("{{ 1 }}", {})
for text in json.load(sys.stdin):
    started = time.process_time()
    names_in_template(text)
    try:
        outcome = f"made {len(render(text, {'b': [1]}))} characters"
    except TemplateError as error:
        outcome = "" if "MemoryError" not in str(error) else "took all memory"
    if sys.platform == "linux":  # getrusage also counts what the process was before it was this program
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        memory = int(status["VmHWM"].split()[0]) >> 10
    else:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 20
    print(json.dumps([outcome, time.process_time() - started, memory]), flush=True)
"""


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ATTACKS)
@pytest.mark.parametrize("most", [3, pytest.param(None, marks=pytest.mark.long)])
def test_a_template_is_stopped_before_it_takes_long_or_makes_much(kind: str, most: int | None) -> None:
    texts = ATTACKS[kind][:most]
    try:
        done = subprocess.run(
            [sys.executable, "-c", RENDERER],
            input=json.dumps(texts),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        printed = done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        printed = (late.stdout or b"").decode()
    answers = [json.loads(line) for line in printed.splitlines() if line.startswith("[")]
    assert len(answers) == len(texts), (texts[len(answers)][:200], printed[-2000:])
    wrong = [
        (text[:200], outcome, seconds, memory)
        for text, (outcome, seconds, memory) in zip(texts, answers, strict=True)
        if outcome or seconds > 3 * MAX_SECONDS or memory > MAX_MEGABYTES
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("{% for a in range(1000) %}{% for b in range(100) %}x{% endfor %}{% endfor %}", 100_000),
        ("{% for row in rows %}- {{ row.name | upper }}: {{ row.text | trim }}\n{% endfor %}", 522_890),
        ("{{ rows | map(attribute='text') | join(', ') }}", 503_998),
        ("{{ rows | sort(attribute='name') | length }}{{ rows | tojson | length }}", 10),
        ("{{ text | replace('x', 'yy') | wordwrap(80) | length }}", 6),
        ("{% set ns = namespace(n=0) %}{% for r in rows %}{% set ns.n = ns.n + r.text | length %}{% endfor %}"
         "{{ ns.n }}", 6),
        ("{{ 1731800000000000000 + 1 }}{{ 2 ** 64 }}{{ '%05d' | format(7) }}{{ '{:>8}'.format('a') }}", 52),
    ],
)  # fmt: skip
def test_an_honest_template_on_large_values_is_rendered(text: str, size: int) -> None:
    rows = [{"name": f"row{number}", "text": "t" * 250} for number in range(2000)]
    assert len(render(text, {"rows": rows, "text": "x " * 200_000})) == size


def test_what_a_template_has_left_is_shared_where_several_are_rendered_together() -> None:
    text = "{% for a in range(99999) %}x{% endfor %}"
    with Meter().running():
        assert len(render(text, {})) == 99_999
        render_known("".join([text] * 50), {})
        with pytest.raises(TemplateError, match="takes too long"):
            render(text, {})
    assert len(render(text, {})) == 99_999


def test_a_limit_of_time_holds_where_the_work_would_not_reach_it() -> None:
    with Meter(work=10**15, seconds=0.2).running(), pytest.raises(TemplateError, match="takes too long"):
        render("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", {})


def test_no_name_of_a_template_is_followed_for_ever() -> None:
    chain = "".join(f"{{% set a{n + 1} = a{n}.b %}}" for n in range(4000))
    started = time.process_time()
    names, flaws = names_in_template(chain + "{{ a4000.c }}")
    assert time.process_time() - started < MAX_SECONDS
    assert not flaws
    assert max(len(name.path) for name in names) < 100


@pytest.mark.parametrize(
    "condition",
    [
        " or ".join(["text contains 'b'"] * 90),
        " or ".join(["text == other"] * 100),
        " or ".join(["deep == same"] * 100),
        " or ".join(["'b' in rows"] * 100),
        " and ".join(["text != other"] * 100),
    ],
)
def test_a_condition_is_decided_soon_or_not_at_all(condition: str) -> None:
    deep, same = [1], [1]
    for _ in range(40):
        deep, same = [deep, deep], [same, same]
    scope = {
        "text": "a" * 9_000_000,
        "other": "a" * 8_999_999 + "c",
        "deep": deep,
        "same": same,
        "rows": ["x" * 90] * 100_000,
    }
    assert len(condition) <= LONGEST
    started = time.process_time()
    with pytest.raises(ConditionError, match="takes too long"):
        condition_holds(parse_condition(condition), scope)
    assert time.process_time() - started < MAX_SECONDS


# --- Commands ---------------------------------------------------------------------------------------------

FLOW = """
version: 0
name: slow
runtime: {provider: ollama}
agents:
  writer: {prompt: "Write."}
pattern:
  type: chain
  config:
    steps:
      - agent: writer
        input: %s
"""


@pytest.mark.parametrize("command", ["plan", "validate", "explain", "run"])
@pytest.mark.parametrize("kind", ["loops", "doubling"])
def test_a_command_on_such_a_workflow_ends(command: str, kind: str, project: Project) -> None:
    project.write("flow.yaml", FLOW % json.dumps(ATTACKS[kind][0]))
    done = project.strands(command, "flow.yaml")
    assert done.exit_code == (3 if command == "run" else 0), done
    assert command != "run" or "The template was stopped" in done.err


def workflow_with(texts: list[str], **parts: Any) -> str:
    steps = [{"agent": "writer", "input": text} for text in texts]
    document = {
        "version": 0,
        "name": "odd",
        "runtime": {"provider": "ollama"},
        "agents": {"writer": {"prompt": "Write."}},
        "pattern": {"type": "chain", "config": {"steps": steps}},
    }
    return json.dumps({**document, **parts})


CONDITIONS = [" or ".join(f"nodes.n{n}.response contains 'x{k}'" for k in range(45)) for n in range(299)]
EDGES = [{"from": f"n{n}", "to": f"n{n + 1}", "when": when} for n, when in enumerate(CONDITIONS)]
NODES = {f"n{n}": {"agent": "writer"} for n in range(300)}
DOCUMENTS = {
    "many long texts": workflow_with(["{{ 1" + "~1" * 8000 + " }}"] * 60),
    "one very long text": workflow_with(["{{ [" + "1," * 500_000 + "] }}"]),
    "long chains of filters": workflow_with(["{{ a" + "|d" * 90 + " }}"] * 900),
    "variables of variables": workflow_with(
        ["".join(f"{{% set a{n + 1} = a{n}.b %}}" for n in range(4000)) + "{{ a4000 }}"]
    ),
    "many wrong names among many": workflow_with(
        ["".join(f"{{{{ inptu_{n} }}}}" for n in range(50))] * 60,
        inputs={"values": {f"input_{n}": 1 for n in range(6000)}},
    ),
    "many unknown filters": workflow_with(["".join(f"{{{{ a | uper{n} }}}}" for n in range(500))] * 20),
    "many conditions": workflow_with(
        [], pattern={"type": "graph", "config": {"nodes": NODES, "edges": EDGES}}
    ),
}


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_an_odd_workflow_is_looked_at_soon(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text(DOCUMENTS[kind])
    started = time.process_time()
    spec, issues = examine_workflow(file)
    assert spec is not None, issues
    check_capability(spec, issues)
    assert time.process_time() - started < MAX_SECONDS


# --- Servers ----------------------------------------------------------------------------------------------

NONSENSE = [
    "Mon, 01 Jan 0000 00:00:00 GMT",
    "Mon, 01 Jan 0001 00:00:00 -0000",
    "Mon, 01 Jan 0001 00:00:00 +2359",
    "Fri, 31 Dec 9999 23:59:59 -2359",
    "Wed, 21 Oct 99999 07:28:00 GMT",
    "Wed, 21 Oct 2015 07:28:00 +99999999999999999999",
    "Wed, 21 Oct 2015 99:99:99 GMT",
    "Wed, 21 Oct -1 07:28:00 GMT",
    "9" * 5000,
    "-1e308",
    "nan",
    "inf",
    "1_0",
    "(" * 5000,
]


@pytest.mark.parametrize("pause", NONSENSE)
def test_a_nonsensical_pause_neither_holds_nor_breaks_a_call(pause: str, site: Site) -> None:
    site.answers["/"] = failing(1, answer(503, Retry_After=pause))
    begun = time.monotonic()
    [tool] = http_tools(workflow(HttpExecutor(id="api", base_url=site.url, retries=1)), {})
    result = asyncio.run(call_tool(tool, {"toolUseId": "1", "input": {"path": "/"}}, CallContext()))
    assert result["status"] == "success", result
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize("pause", [*NONSENSE, "٣", "３", "1e1", " "])
def test_a_pause_is_a_number_of_seconds_or_nothing(pause: str) -> None:
    asked = requested_pause(pause)
    assert asked is None or asked >= 0


UPWARDS = [
    "..%E2%88%95admin", "..∕admin", "..⁄admin", "..%E2%A7%B8x", "..%E2%95%B1x", "..⟋x", "..〳x",
    "a%E2%88%95..%E2%88%95x", ".%2e%E2%88%95x", "%252e%252e%25E2%2588%2595x", "..%E2%88%96x", "..⧵x", "..╲x",
    "..\u200b/x", "..%C2%AD/x", ".%E2%81%A0./x", "%EF%BB%BF../x", ".\u0307./x", "。。/x", "..%E3%80%82/x",
    "．．/x", "‥/x", "%2e%2e/x", "%252e%252e/x", "%25252e%25252e/x", "..\\x", "..%5cx", "..%255cx", "..;/x",
    "..;a=b/x", "a;../x", "..%3ba/x", "..%3fx", "..%23x", "..%00/x", "..%09/x", "..%0a/x", "..\t/x",
    "%c0%ae%c0%ae/x", "..%c0%afx", "%e0%80%ae./x", "..%2fx", "..%252fx", " ../x", "..%20/x", "%u002e%u002e/x",
    "x/..", "//other/x", "%2f%2fother/x", "∕∕other/x", "http:∕∕other/x",
]  # fmt: skip


@pytest.mark.parametrize("path", UPWARDS)
def test_no_spelling_of_a_path_leads_out_of_an_executors_base(path: str, site: Site) -> None:
    [tool] = http_tools(workflow(HttpExecutor(id="api", base_url=f"{site.url}/api")), {})
    result = asyncio.run(call_tool(tool, {"toolUseId": "1", "input": {"path": path}}, CallContext()))
    assert error_of(result)["code"] in ("forbidden", "input_invalid"), result
    assert site.seen == []


@pytest.mark.parametrize(
    "path",
    [
        "/items/7",
        "/a..b",
        "/v1.2/x",
        "/müller/straße",
        "/日本/東京",
        "/a;v=1/b",
        "/.well-known/x",
        "/👩‍🚀",
        "/a…",
    ],
)
def test_an_honest_path_passes(path: str) -> None:
    assert parse_target("http://host.example/api").url(path, {})


@pytest.mark.parametrize("times", [33, 1000])
def test_a_plugin_that_is_named_again_and_again_is_read_once(project: Project, times: int) -> None:
    shutil.copytree(EXAMPLES / "plugins", project.root / "plugins")
    flow = yaml.safe_load((EXAMPLES / "chain-with-plugins.yaml").read_text("utf-8"))
    flow["tools"]["plugins"] = ["./plugins/markdown", "csv-tools", "././plugins/json-query"] * times
    file = project.write("flow.yaml", json.dumps(flow))
    started = time.process_time()
    spec, issues = examine_workflow(file)
    if spec is not None:
        check_capability(spec)
    assert time.process_time() - started < MAX_SECONDS
    assert [issue.pointer for issue in issues if "plugins" in issue.pointer] == (
        ["/tools/plugins"] if times > 33 else []
    )
