"""Each check: a workflow in which it finds something, with the place; and one that it leaves alone."""

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from strands_cli.capability import CapabilityIssue, CapabilityReport, check_capability
from strands_cli.errors import Issue
from strands_cli.loader import load_spec
from strands_cli.loader.spec import Spec
from strands_cli.plugins.directories import Approved, Lock, write_decision
from strands_cli.tools import get_registry
from tests.projects import Project

HEAD = """\
version: 0
name: test
runtime: {provider: ollama}
inputs:
  required: {topic: string}
  optional: {tone: {type: string, default: plain}}
"""
AGENTS = "agents: {a: {prompt: Hello}}\n"
STEP = "pattern: {type: chain, config: {steps: [{agent: a, input: hi}]}}\n"
PLAIN = HEAD + AGENTS + STEP
ANSWERS = """\
agents:
  a:
    prompt: Hello
    output_schema:
      type: object
      required: [k, required_only]
      properties:
        k: {type: number}
        more: {anyOf: [{$ref: '#/$defs/more'}, {type: 'null'}]}
        list: {type: array, items: {type: object, properties: {name: {type: string}}}}
        open: {type: object, additionalProperties: {type: string}}
        either: {anyOf: [{type: object, properties: {a: {}}}, {type: array, items: {type: string}}]}
        either_open: {anyOf: [{type: object, properties: {a: {}}}, {type: object}]}
        rows: {$ref: '#/$defs/rows'}
      $defs:
        more: {type: object, properties: {inner: {type: string}, again: {$ref: '#/$defs/more'}}}
        rows: {type: array, items: {$ref: '#/$defs/rows'}}
"""


def load(tmp_path: Path, text: str, **variables: Any) -> Spec:
    file = tmp_path / "flow.yaml"
    file.write_text(text, "utf-8")
    return load_spec(file, variables)


def found(tmp_path: Path, text: str) -> list[Issue]:
    return list(check_capability(load(tmp_path, text)).issues)


def pattern(kind: str, config: str, agents: str = AGENTS) -> str:
    body = textwrap.indent(textwrap.dedent(config).strip("\n"), "    ")
    return f"{HEAD}{agents}pattern:\n  type: {kind}\n  config:\n{body}\n"


def chain(steps: str, agents: str = AGENTS) -> str:
    return pattern("chain", "steps:\n" + textwrap.indent(textwrap.dedent(steps).strip("\n"), "  "), agents)


def second_step(template: str, agents: str = AGENTS) -> str:
    return chain(f"- {{agent: a}}\n- {{agent: a, input: {json.dumps(template)}}}", agents)


def branches(template: str, agents: str = AGENTS) -> str:
    """Two branches, and a template over them."""
    both = "branches: [{id: x, steps: [{agent: a}]}, {id: y, steps: [{agent: a}]}]"
    return pattern("parallel", f"{both}\nreduce: {{agent: a, input: {json.dumps(template)}}}", agents)


def workers(template: str, agents: str = AGENTS) -> str:
    config = f"orchestrator: {{agent: a}}\nworker: {{agent: a}}\nreduce: {{agent: a, input: {json.dumps(template)}}}"
    return pattern("orchestrator_workers", config, agents)


GRAPH = """
nodes:
  one: {agent: a, input: "{{ topic }}"}
  two: {agent: a, input: "{{ last_response }}{{ nodes.one.response }}"}
  three: {agent: a, input: "{{ nodes.two.response }}"}
edges:
"""

TOOLS = "tools: {python: [echo, file_list]}\n"
STEP_0 = "/pattern/config/steps/0"


def called(step: str, tools: str = TOOLS) -> str:
    """A chain of a tool step and one of the agent."""
    return chain(f"- {{{step}}}\n- {{agent: a}}") + tools


STEP_INPUT, REDUCE = "/pattern/config/steps/1/input", "/pattern/config/reduce/input"

# what is wrong, the workflow, the pointer, how the reason begins, what the remedy has in it, the severity
FAILING: list[tuple[str, str, str, str, str]] = [
    (
        called("tool: ecko"),
        f"{STEP_0}/tool",
        "There is no tool 'ecko'.",
        "Did you mean 'echo'? Declare it in tools.python.",
        "error",
    ),
    (
        called("tool: file_read, arguments: {path: x}"),
        f"{STEP_0}/tool",
        "The tool 'file_read' is not declared in this workflow.",
        "Add it to tools.python.",
        "error",
    ),
    (
        called("tool: native:echo"),
        f"{STEP_0}/arguments/message",
        "The argument 'message' of the tool 'native:echo' is missing.",
        "'strands tool show native:echo' shows what it takes.",
        "error",
    ),
    (
        called("tool: file_list, arguments: {patern: '*'}"),
        f"{STEP_0}/arguments/patern",
        "The tool 'file_list' has no argument 'patern'.",
        "Did you mean 'pattern'?",
        "error",
    ),
    (
        called("tool: file_list, arguments: {recursive: [1]}"),
        f"{STEP_0}/arguments/recursive",
        "The argument 'recursive' of the tool 'file_list' must be a boolean, got array of 1 item.",
        "'strands tool show file_list'",
        "error",
    ),
    (
        called("tool: echo, arguments: {message: '{{ topik }}'}"),
        f"{STEP_0}/arguments/message",
        "There is no name 'topik'",
        "Did you mean 'topic'?",
        "error",
    ),
    (
        called("tool: echo, arguments: {message: '{{ item }}'}"),
        f"{STEP_0}/arguments/message",
        "'item' is not available yet: only a step with 'foreach' has one.",
        "",
        "error",
    ),
    (
        called("tool: echo, foreach: '{{ item }}', arguments: {message: '{{ item }}{{ index }}'}"),
        f"{STEP_0}/foreach",
        "'item' is not available yet",
        "",
        "error",
    ),
    (
        called("tool: echo, foreach: 'a, b', arguments: {message: x}"),
        f"{STEP_0}/foreach",
        "'foreach' needs a list, got string 'a, b'.",
        "Write a list, or one {{ … }} that is a list",
        "error",
    ),
    (
        called("agent: a, foreach: [1], conversation: continue"),
        f"{STEP_0}/conversation",
        "A step with 'foreach' continues no conversation",
        "Remove",
        "warning",
    ),
    (
        pattern("chain", "steps: [{agent: b}]"),
        "/pattern/config/steps/0/agent",
        "There is no agent 'b'.",
        "Available: a.",
        "error a",
    ),
    (
        HEAD + "agents: {a: {prompt: x}, unused: {prompt: y}}\n" + STEP,
        "/agents/unused",
        "The agent 'unused' is never used.",
        "Name it in the pattern",
        "warning",
    ),
    (
        PLAIN + "tools: {python: [eco]}\n",
        "/tools/python/0/callable",
        "Python callable 'eco' not in allowlist",
        "Use an existing native tool or add one under strands_cli.tools. Did you mean 'echo'?",
        "error",
    ),
    (
        PLAIN + "tools: {python: [{callable: os.system}]}\n",
        "/tools/python/0/callable",
        "Python callable 'os.system' not in allowlist",
        "add 'os.system' to 'allow' in strands.toml, or to the environment variable STRANDS_CUSTOM_TOOL_ALLOWLIST.",
        "error",
    ),
    (
        PLAIN + "tools: {python: [echo, native:echo]}\n",
        "/tools/python/1/callable",
        "native:echo is the same tool as echo",
        "Keep only one",
        "warning",
    ),
    (
        HEAD + "tools: {python: [strands_tools.file_read]}\nagents: {a: {prompt: x, tools: [strands_tools.file_read]}}\n" + STEP,
        "/tools/python/0/callable",
        "strands_tools.file_read is a legacy name of the tool file_read.",
        "Write native:file_read.",
        "warning",
    ),
    (
        HEAD + "tools: {python: [echo]}\nagents: {a: {prompt: x, tools: [strands_tools.echo.echo]}}\n" + STEP,
        "/agents/a/tools/0",
        "strands_tools.echo.echo is a legacy name of the tool echo.",
        "Write native:echo.",
        "warning",
    ),
    (
        PLAIN + "tools:\n  http_executors:\n    - {id: api, base_url: 'https://a.b'}\n    - {id: api, base_url: 'https://c.d'}\n",
        "/tools/http_executors/1/id",
        "The id 'api' is taken by another HTTP executor.",
        "different",
        "error",
    ),
    (
        PLAIN + "tools:\n  python: [echo]\n  http_executors:\n    - {id: echo, base_url: 'https://a.b'}\n",
        "/tools/http_executors/0/id",
        "The id 'echo' is taken by the tool echo.",
        "",
        "error",
    ),
    (
        HEAD + "tools: {python: [calculator]}\nagents: {a: {prompt: x, tools: [calculater]}}\n" + STEP,
        "/agents/a/tools/0",
        "There is no tool 'calculater'.",
        "Did you mean 'calculator'?",
        "error",
    ),
    (
        HEAD + "agents: {a: {prompt: x, tools: [echo]}}\n" + STEP,
        "/agents/a/tools/0",
        "The native tool 'echo' is not declared in tools.python; it is used as if it were.",
        "Declare it: tools: {python: [echo]}",
        "warning",
    ),
    (
        PLAIN + "security: {consent: {echo: allow}}\n",
        "/security/consent/echo",
        "There is no tool 'echo' in this workflow.",
        "Remove the rule.",
        "warning",
    ),
    (
        HEAD + "agents: {a: {prompt: x, skills: [notes]}}\n" + STEP,
        "/agents/a/skills/0",
        "There is no skill 'notes'.",
        "declared under skills",
        "error",
    ),
    (
        HEAD + "agents: {a: {prompt: x, output_schema: {type: objekt}}}\n" + STEP,
        "/agents/a/output_schema/type",
        "Invalid JSON Schema",
        "Fix it",
        "error",
    ),
    (
        chain("- {agent: a, id: x}\n- {agent: a, id: x}"),
        "/pattern/config/steps/1/id",
        "The id 'x' is used twice",
        "different",
        "error",
    ),
    (
        pattern("workflow", "tasks: [{id: x, agent: a, needs: [y]}]"),
        "/pattern/config/tasks/0/needs/0",
        "There is no task 'y'.",
        "Available: x.",
        "error",
    ),
    (
        pattern("workflow", "tasks: [{id: x, agent: a, needs: [x]}]"),
        "/pattern/config/tasks/0/needs/0",
        "The task 'x' needs itself.",
        "",
        "error",
    ),
    (
        pattern("workflow", "tasks: [{id: x, agent: a, needs: [y]}, {id: y, agent: a, needs: [x]}]"),
        "/pattern/config/tasks/0/needs",
        "These tasks wait for each other: ",
        "Remove one",
        "error",
    ),
    (
        pattern("routing", "router: {agent: a}\nroutes: {one: {steps: [{agent: a}]}}\ndefault: two"),
        "/pattern/config/default",
        "There is no route 'two'.",
        "Available: one.",
        "error",
    ),
    (
        pattern("graph", "nodes: {one: {agent: a}}\nedges: [{from: one, to: tow}]"),
        "/pattern/config/edges/0/to",
        "There is no node 'tow'.",
        "Available: one.",
        "error",
    ),
    (
        pattern("graph", "nodes: {one: {agent: a}, two: {agent: a}}\nedges: [{from: one, to: [two, six]}]"),
        "/pattern/config/edges/0/to/1",
        "There is no node 'six'.",
        "",
        "error",
    ),
    (
        pattern("graph", "nodes: {one: {agent: a}}\nedges: []\nstart: two"),
        "/pattern/config/start",
        "There is no node 'two'.",
        "",
        "error also unreachable",
    ),
    (
        pattern("graph", "nodes: {one: {agent: a}, two: {agent: a}}\nedges: []\nstart: one"),
        "/pattern/config/nodes/two",
        "The node 'two' can never be reached from one.",
        "Add an edge",
        "error",
    ),
    (
        pattern("graph", "nodes: {one: {agent: a}}\nedges: [{from: one, to: one}]"),
        "/pattern/config",
        "The graph has no start",
        "start: NODE",
        "error",
    ),
    (
        pattern("graph", GRAPH + "  - {from: one, to: two, when: 'nodes.one.response = 3'}\n  - {from: two, to: three}\n"),
        "/pattern/config/edges/0/when",
        "Invalid condition: '=' has no meaning in a condition (column 20 of the text).",
        "Write '=='.",
        "error",
    ),
    (
        pattern("graph", GRAPH + "  - {from: one, to: two}\n  - {from: two, to: three, when: 'node.one'}\n  - {from: two, to: three, when: 'not node.one'}"),
        "/pattern/config/edges/1/when",
        "There is no name 'node'.",
        "Did you mean 'nodes'?",
        "error twice",
    ),
    (
        pattern("graph", GRAPH + "  - {from: one, to: two, when: 'nodes.three or not nodes.three'}\n  - {from: two, to: three}\n"),
        "/pattern/config/edges/0/when",
        "'nodes.three' is not available yet: no edge leads from 'three' to 'one'.",
        "Available here: one.",
        "error and more",
    ),
    (
        pattern("graph", GRAPH + "  - {from: one, to: [two, three], when: '1 > 2'}\n  - {from: one, to: two, when: 'not (1 > 2)'}\n  - {from: two, to: three}"),
        "/pattern/config/edges/0/when",
        "This condition is never true.",
        "remove the edge",
        "error and more",
    ),
    (
        pattern("graph", GRAPH + "  - {from: one, to: two}\n  - {from: one, to: two, when: topic}\n  - {from: two, to: three}"),
        "/pattern/config/edges/1",
        "The edge in line ",
        "Keep only one",
        "warning",
    ),
    (
        pattern("graph", GRAPH + "  - {from: one, to: two}\n  - {from: two, to: three, when: topic}"),
        "/pattern/config/edges/1/when",
        "If none of its conditions is true, the graph ends at 'two'.",
        "opposite",
        "warning",
    ),
    (
        HEAD.replace("topic: string", "steps: string") + AGENTS + STEP,
        "/inputs/required/steps",
        "Templates have a 'steps' of their own",
        "{{ inputs.steps }}",
        "warning",
    ),
    (chain('- {agent: a, input: "{{ topik }}"}'), "/pattern/config/steps/0/input", "There is no name 'topik'.", "'topic'", "error"),
    (chain('- {agent: a, input: "{{ inputs.x }}"}'), "/pattern/config/steps/0/input", "There is no input 'x'.", "topic", "error"),
    (
        chain('- {agent: a, input: "{{ last_response }}"}'),
        "/pattern/config/steps/0/input",
        "'last_response' is not available yet: nothing has answered before the first step.",
        "",
        "error",
    ),
    (
        chain('- {agent: a}\n- {agent: a, input: "{{ steps[2] }}"}\n- {agent: a}'),
        "/pattern/config/steps/1/input",
        "'steps[2]' is not available yet: that step has not run.",
        "Available here: 0.",
        "error",
    ),
    (
        chain('- {agent: a}\n- {agent: a, input: "{{ steps[0].respons }}"}'),
        "/pattern/config/steps/1/input",
        "There is no part of a result 'respons'.",
        "Did you mean 'response'?",
        "error",
    ),
    (
        chain('- {agent: a, input: "{{ tasks.x }}{{ secrets.KEY | trim }}"}'),
        "/pattern/config/steps/0/input",
        "'tasks' is not available yet: only workflows and orchestrators have tasks.",
        "",
        "error twice",
    ),
    *(
        (text, at, f"There is no {what}.", hint, "error")
        for text, at, what, hint in (
            (second_step("{% for s in steps %}{{ s.respnse }}{% endfor %}"), STEP_INPUT, "part of a result 'respnse'", "'response'"),
            (second_step("{% set s = steps[0] %}{{ s.respnse }}"), STEP_INPUT, "part of a result 'respnse'", "'response'"),
            (second_step("{{ steps | map(attribute='respnse') | join }}"), STEP_INPUT, "part of a result 'respnse'", "'response'"),
            (branches("{% for b in branches.values() %}{{ b.respnse }}{% endfor %}"), REDUCE, "part of a result 'respnse'", "'response'"),
            (branches("{% for id, b in branches.items() %}{{ b.respnse }}{% endfor %}"), REDUCE, "part of a result 'respnse'", "'response'"),
            (second_step("{{ steps[0].output.kk }}", ANSWERS), STEP_INPUT, "output key 'kk'", "'k'"),
            (second_step("{{ steps[0].output.more.iner }}", ANSWERS), STEP_INPUT, "output key 'iner'", "'inner'"),
            (second_step("{{ steps[0].output.list[0].nme }}", ANSWERS), STEP_INPUT, "output key 'nme'", "'name'"),
            (second_step("{% for s in steps %}{% for i in s.output.list %}{{ i.nme }}{% endfor %}{% endfor %}", ANSWERS), STEP_INPUT, "output key 'nme'", "'name'"),
            (second_step("{{ steps[0].output.k }}"), STEP_INPUT, "output key 'k'", "Give the agent 'a' an output_schema."),
        )
    ),
    (
        branches("{% for b in branches %}{{ b.response }}{% endfor %}"),
        REDUCE,
        "There is no 'response' here: a loop over 'branches' goes through its names.",
        "branches.values()",
        "error",
    ),
    (
        workers("{% for t in tasks %}{{ t.respnse }}{% endfor %}"),
        REDUCE,
        "There is no part of a result 'respnse'.",
        "'response'",
        "error",
    ),
    (
        pattern("graph", GRAPH + "  - {from: one, to: two, when: nodes.one.output.kk > 3}\n  - {from: two, to: three}", ANSWERS),
        "/pattern/config/edges/0/when",
        "There is no output key 'kk'.",
        "'k'",
        "error and more",
    ),
    (
        pattern("graph", GRAPH + "  - {from: one, to: two, when: inputs.tone < 3}\n  - {from: one, to: three, when: inputs.tone >= 3}\n  - {from: two, to: three}"),
        "/pattern/config/edges/1/when",
        "If none of its conditions is true, the graph ends at 'one'.",
        "opposite",
        "warning",
    ),
    (
        chain("- agent: a\n  input: |\n    First\n    {{ topic"),
        "/pattern/config/steps/0/input",
        "Invalid template: unexpected end of template",
        "",
        "error",
    ),
    (
        pattern("workflow", 'tasks: [{id: x, agent: a}, {id: y, agent: a, input: "{{ tasks.x }}"}]'),
        "/pattern/config/tasks/1/input",
        "'tasks.x' is not available yet: the task does not need 'x'.",
        "",
        "error",
    ),
    (
        pattern("workflow", 'tasks: [{id: x, agent: a, input: "{{ last_response }}"}]'),
        "/pattern/config/tasks/0/input",
        "'last_response' is not available yet: it is clear only in a task that needs exactly one other",
        "",
        "error",
    ),
    (
        pattern("parallel", 'branches: [{id: x, steps: [{agent: a, input: "{{ branches.x }}"}]}]'),
        "/pattern/config/branches/0/steps/0/input",
        "'branches' is not available yet",
        "",
        "error",
    ),
    (
        pattern("parallel", 'branches: [{id: x, steps: [{agent: a}]}]\nreduce: {agent: a, input: "{{ branches.y }}"}'),
        "/pattern/config/reduce/input",
        "There is no branch 'y'.",
        "Available here: x.",
        "error",
    ),
    (
        pattern("evaluator_optimizer", 'producer: {agent: a, input: "{{ evaluation.score }}"}\nevaluator: {agent: a}'),
        "/pattern/config/producer/input",
        "'evaluation' is not available yet",
        "",
        "error",
    ),
    (
        pattern("evaluator_optimizer", 'producer: {agent: a}\nevaluator: {agent: a}\nrevise: "{{ evaluation.scores }}"'),
        "/pattern/config/revise",
        "There is no part of an evaluation 'scores'.",
        "'score'",
        "error",
    ),
    (
        pattern("orchestrator_workers", 'orchestrator: {agent: a, input: "{{ task }}"}\nworker: {agent: a}'),
        "/pattern/config/orchestrator/input",
        "'task' is not available yet: only a worker is given a task.",
        "",
        "error",
    ),
    (
        pattern("graph", 'nodes: {one: {agent: a, input: "{{ nodes.two }}"}, two: {agent: a}}\nedges: [{from: one, to: two}]'),
        "/pattern/config/nodes/one/input",
        "'nodes.two' is not available yet: nothing has run before",
        "",
        "error",
    ),
    (
        HEAD + 'agents: {a: {prompt: "Use {{ last_response }}"}}\n' + STEP,
        "/agents/a/prompt",
        "'last_response' is not available yet: nothing has answered before the first step (for /pattern/config/steps/0).",
        "",
        "error",
    ),
    (
        PLAIN + 'outputs: {artifacts: [{path: x.txt, from: "{{ last_respons }}"}]}\n',
        "/outputs/artifacts/0/from",
        "There is no name 'last_respons'.",
        "Did you mean 'last_response'?",
        "error",
    ),
    (
        PLAIN + 'tools: {http_executors: [{id: x, base_url: "https://a.b", headers: {A: "{{ secrets.KEY }}"}}]}\n',
        "/tools/http_executors/0/headers/A",
        "There is no secret 'KEY'.",
        "None is available here.",
        "error",
    ),
    (
        PLAIN + "outputs: {artifacts: [{path: x.txt, from: x}, {path: ./x.txt, from: y}]}\n",
        "/outputs/artifacts/1/path",
        "Another artifact, /outputs/artifacts/0, has the path",
        "different",
        "error",
    ),
    (PLAIN + "outputs: {artifacts: [{path: /etc/x, from: x}]}\n", "/outputs/artifacts/0/path", "'/etc/x' is absolute.", "", "error"),
    (PLAIN + "outputs: {artifacts: [{path: 'C:\\x', from: x}]}\n", "/outputs/artifacts/0/path", "'C:\\\\x' is absolute.", "", "error"),
    (PLAIN + "outputs: {artifacts: [{path: a/../../x, from: x}]}\n", "/outputs/artifacts/0/path", "'a/../../x' leaves", "", "error"),
    (PLAIN + "outputs: {artifacts: [{path: a/, from: x}]}\n", "/outputs/artifacts/0/path", "'a/' is not the name of a file.", "", "error"),
    (PLAIN + "context_policy: {notes: {file: ../x}}\n", "/context_policy/notes/file", "'../x' leaves the output", "", "error"),
    (PLAIN + "skills: [{id: x, path: ../x}]\n", "/skills/0/path", "'../x' leaves the directory of the workflow.", "", "error"),
    (PLAIN + "skills: [{id: x, path: x}]\n", "/skills/0/path", "There is no x/SKILL.md.", "", "error"),
    (PLAIN + "env: {secrets: [{name: NOT_SET_HERE}]}\n", "/env/secrets/0/name", "The environment variable NOT_SET_HERE is not set.", "", "warning"),
    (PLAIN + "env: {secrets: [{name: A, source: file, path: gone}]}\n", "/env/secrets/0/path", "There is no file 'gone'.", "", "warning"),
    (PLAIN + "env: {secrets: [{name: PATH}, {name: PATH}]}\n", "/env/secrets/1/name", "The secret 'PATH' is declared twice.", "", "error"),
    (PLAIN + "env: {variables: [A_TOKEN]}\n", "/env/variables/0", "A_TOKEN looks like a secret", "secrets: [{name: A_TOKEN}]", "warning"),
    (PLAIN + "env: {variables: [LANG]}\n", "/env/variables/0", "The variable LANG is declared, but nothing uses it.", "${LANG}", "warning"),
    (PLAIN + "env: {variables: [PATH], secrets: [{name: x, key: PATH}]}\n", "/env/variables/0", "PATH is declared as a secret and", "env.secrets only", "error"),
    (PLAIN + "tools: {mcp: [{id: files}]}\n", "/tools/mcp/0/id", "There is no MCP server 'files' in the settings.", "Give it a 'command' or a 'url', or add it to strands.toml.", "error"),
    (PLAIN + "tools: {plugins: [x]}\n", "/tools/plugins/0", "There is no plugin 'x'", "strands plugin list", "error"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "pointer", "reason", "remedy", "severity"), FAILING)
def test_a_check_finds(
    tmp_path: Path, text: str, pointer: str, reason: str, remedy: str, severity: str
) -> None:
    severity, _, more = severity.partition(" ")
    issues = found(tmp_path, text)
    assert len(issues) == 1 or more, issues
    issue = next(issue for issue in issues if issue.reason.startswith(reason))
    assert (issue.pointer, issue.severity) == (pointer, severity)
    assert remedy in issue.remediation
    assert issue.remediation
    assert issue.file == str(tmp_path / "flow.yaml")
    assert issue.line > 0


PASSING = [
    *(
        second_step(text, ANSWERS)
        for text in (
            "{{ steps[0].output.list.count('x') }}{{ steps[0].output.list.index('x') }}",
            "{% for key in steps[0].output %}{{ key[0] }}{{ key[1:] }}{% endfor %}",
            "{% for pair in steps[0].output.items() | list %}{{ pair[0] }}{{ pair[1].x }}{% endfor %}",
            "{{ steps[0].output.items() | map(attribute='1.x') | list }}",
            "{{ steps | sort(attribute='agent,id') | map(attribute='id') | join }}",
            "{{ steps | selectattr('output.other', 'defined') | list }}",
            "{{ steps[0].output.either[0] }}{{ steps[0].output.either.a }}",
            "{{ steps[0].output.either_open.b }}{{ steps[0].output.required_only.x }}",
            "{% for row in steps[0].output.rows %}{% for cell in row %}{{ cell[0][0] }}{% endfor %}{% endfor %}",
        )
    ),
    second_step("{% for s in steps %}{{ s.output.k }}{{ s.output.more.again.inner }}{{ s.output.list[0].name }}{% endfor %}", ANSWERS),
    second_step("{{ steps[0].output.open.anything }}{% for k, v in steps[0].output.items() %}{{ k.upper() }}{% endfor %}", ANSWERS),
    second_step("{% for topic in steps %}{{ topic.response }}{% endfor %}{{ topic }}{{ steps | map(attribute='x', default='') | list }}"),
    branches("{% for name in branches %}{{ name.upper() }}{{ branches[name].response }}{% endfor %}"),
    workers("{% for t in tasks %}{{ t.response }}{% endfor %}{{ tasks[0].response }}"),
    pattern("graph", GRAPH + "  - {from: one, to: two, when: nodes.one.output.k < 3}\n  - {from: one, to: three, when: nodes.one.output.k >= 3}\n  - {from: two, to: three}", ANSWERS),
    PLAIN,
    HEAD + "tools: {python: [echo]}\nagents: {a: {prompt: x, tools: ['native:echo']}}\n" + STEP,
    HEAD + "tools: {python: ['native:echo']}\nagents: {a: {prompt: x, tools: [echo], output_schema: {type: object}}}\n" + STEP,
    HEAD + "agents: {a: {prompt: '{{ topic }} {{ tone | upper }} {{ inputs.tone }}', tools: []}}\n" + STEP,
    chain('- {agent: a, id: x}\n- {agent: a, input: "{{ last_response }}{{ steps[0].response }}{{ steps.x }}{{ steps[-1] }}"}'),
    chain('- {agent: a, input: "{{ steps[5].response | default(topic) }}{% if task is defined %}{{ task.x }}{% endif %}"}'),
    chain('- {agent: a}\n- {agent: a, input: "{% for s in steps %}{{ s.response }}{{ loop.index }}{% endfor %}"}'),
    pattern("workflow", 'tasks: [{id: x, agent: a}, {id: y, agent: a, needs: [x], input: "{{ last_response }}"}, {id: z, agent: a, needs: [y], input: "{{ tasks.x }}{{ tasks[\'y\'].output.k }}"}]', ANSWERS),
    pattern("routing", 'router: {agent: a, input: "{{ topic }}"}\nroutes: {one: {steps: [{agent: a, input: "{{ route }}"}, {agent: a, input: "{{ steps[0] }}"}]}}\ndefault: one'),
    pattern("parallel", 'branches: [{id: x, steps: [{agent: a}]}]\nreduce: {agent: a, input: "{{ branches.x.response }}{% for k, v in branches.items() %}{{ v }}{% endfor %}"}'),
    pattern("evaluator_optimizer", 'producer: {agent: a}\nevaluator: {agent: a, input: "{{ draft }}"}\nrevise: "{{ evaluation.feedback }}{{ draft }}{{ last_response }}"'),
    pattern("orchestrator_workers", 'orchestrator: {agent: a}\nworker: {agent: a, input: "{{ task }}"}\nreduce: {agent: a, input: "{{ tasks | length }}"}'),
    pattern("graph", GRAPH + "  - {from: one, to: two, when: \"topic == 'x'\"}\n  - {from: one, to: three, when: \"topic != 'x'\"}\n  - {from: two, to: three}"),
    # The end of a loop: to stop there is what its author wants.
    pattern("graph", GRAPH + "  - {from: one, to: two}\n  - {from: two, to: three}\n  - {from: three, to: two, when: nodes.three.output.k}", ANSWERS),
    PLAIN + 'outputs: {artifacts: [{path: "{{ topic }}.md", from: "{{ TRACE }}{{ last_response }}{{ steps[0] }}"}, {path: ./b.md, from: x}]}\n',
    PLAIN + 'env: {secrets: [{name: KEY, key: PATH}]}\ntools: {http_executors: [{id: x, base_url: "https://a.b", headers: {A: "{{ secrets.KEY }}"}}]}\n',
    # An input may be called like a name of another pattern.
    HEAD.replace("topic", "task") + 'agents: {a: {prompt: "{{ task }}"}}\n' + STEP,
]  # fmt: skip


@pytest.mark.usefixtures("trusting")
@pytest.mark.parametrize("text", PASSING)
def test_the_checks_leave_alone(tmp_path: Path, text: str) -> None:
    report = check_capability(load(tmp_path, text))
    assert report == CapabilityReport(())
    assert report.supported


YES = "'yes' in nodes.one.response.lower()"


@pytest.mark.parametrize(
    "conditions",
    [
        [
            YES,
            f"not ({YES}) and (nodes.one.response | int > 3)",
            f"not ({YES}) and not (nodes.one.response | int > 3)",
        ],
        [
            "nodes.one.response | int >= 80",
            "nodes.one.response | int < 80 and nodes.one.response | int >= 50",
            "nodes.one.response | int < 50",
        ],
        ["nodes.one.iteration < 3", "len(nodes.one.response) == 3", "nodes.one.iteration >= 3"],
    ],
)
def test_conditions_that_cover_every_case_need_no_edge_for_the_others(
    tmp_path: Path, conditions: list[str]
) -> None:
    targets = ("two", "three", "one")
    edges = [
        f'  - {{from: one, to: {to}, when: "{when}"}}' for to, when in zip(targets, conditions, strict=True)
    ]
    text = "start: one\n" + GRAPH + "\n".join([*edges, "  - {from: two, to: three}"])
    assert found(tmp_path, pattern("graph", text)) == []
    assert len(found(tmp_path, pattern("graph", text.replace(edges[-1], "")))) == 1


def test_a_schema_that_refers_to_itself_many_times_is_checked_at_once(tmp_path: Path) -> None:
    node = {"type": "object", "properties": {f"p{number}": {"$ref": "#/$defs/node"} for number in range(30)}}
    schema = json.dumps({"$ref": "#/$defs/node", "$defs": {"node": node}})
    agents = f"agents: {{a: {{prompt: x, output_schema: {schema}}}}}\n"
    path = ".p1" * 20
    assert found(tmp_path, second_step(f"{{{{ steps[0].output{path} }}}}", agents)) == []
    (issue,) = found(tmp_path, second_step(f"{{{{ steps[0].output{path}.q }}}}", agents))
    assert issue.reason == "There is no output key 'q'."


@pytest.mark.parametrize(
    "schema",
    ["{required: true, properties: {a: {}}}", "{required: [{}], properties: {a: {anyOf: 3}}}", "{type: 5, oneOf: {}}",
     "{properties: {a: {type: [5], oneOf: [7, {type: {}}]}}}", "{anyOf: [{type: [object]}, 3], items: {type: 1}}"],
)  # fmt: skip
def test_an_invalid_output_schema_is_a_problem_and_never_a_crash(tmp_path: Path, schema: str) -> None:
    agents = f"agents: {{a: {{prompt: x, output_schema: {schema}}}}}\n"
    edges = "  - {from: one, to: two, when: nodes.one.output.a < 3}\n  - {from: one, to: three, when: nodes.one.output.a >= 3}"
    for text in (second_step("{{ steps[0].output.a.b }}", agents), pattern("graph", GRAPH + edges, agents)):
        assert any(issue.reason.startswith("Invalid JSON Schema") for issue in found(tmp_path, text))


def test_a_workflow_without_inputs_has_those_that_its_templates_name(tmp_path: Path) -> None:
    text = PLAIN.replace(HEAD, HEAD.partition("inputs:")[0]).replace("hi", "'{{ color }}'")
    for given in ({}, {"color": "red"}):
        report = check_capability(load(tmp_path, text, **given))
        assert report.supported
        (warning,) = report.warnings
        assert warning.reason == "color is not declared: it is an input of type string that must be given."
        assert (warning.pointer, warning.line) == ("/pattern/config/steps/0/input", 5)
    assert not check_capability(load(tmp_path, text.replace("name:", "inputs: {}\nname:", 1))).supported


def test_warnings_do_not_make_a_workflow_unsupported(tmp_path: Path) -> None:
    report = check_capability(load(tmp_path, PLAIN + "env: {secrets: [{name: NOT_SET_HERE}]}\n"))
    assert report.supported
    assert (len(report.warnings), len(report.errors)) == (1, 0)
    assert CapabilityIssue is Issue


def test_many_tools_are_a_warning_for_the_agent_that_gets_them(tmp_path: Path) -> None:
    executors = "".join(f"    - {{id: t{number}, base_url: 'https://a.b'}}\n" for number in range(65))
    tools = f"tools:\n  http_executors:\n{executors}"
    (issue,) = found(tmp_path, PLAIN + tools)
    assert (issue.pointer, issue.severity) == ("/agents/a", "warning")
    assert found(tmp_path, PLAIN.replace("prompt: Hello", "prompt: Hello, tools: [t1]") + tools) == []


def test_a_skill_with_its_directory_is_fine(tmp_path: Path) -> None:
    (tmp_path / "skills" / "x").mkdir(parents=True)
    (tmp_path / "skills" / "x" / "SKILL.md").write_text("# x", "utf-8")
    agents = "agents: {a: {prompt: x, skills: [x]}}\n"
    assert found(tmp_path, HEAD + agents + STEP + "skills: [{id: x, path: skills/x}]\n") == []


TOOL = """
from strands_cli import tool

TOOL_SPEC = {"name": "old", "description": "Old", "inputSchema": {"json": {"type": "object"}}}

@tool(spec=TOOL_SPEC, version="1.2.0", deprecated=True, replaced_by="echo", requires={"no-such-package": "*"})
def old() -> str:
    return "old"
"""


def test_deprecated_and_unavailable_tools_are_warnings(inside: Project) -> None:
    inside.write("tools/old.py", TOOL)
    from strands_cli.tools import get_registry

    get_registry().refresh()
    report = check_capability(load(inside.root, PLAIN + "tools: {python: [old]}\n"))
    assert report.supported
    assert [issue.reason[:40] for issue in report.issues] == [
        "Tool old is deprecated as of v1.2.0.",
        "Tool old is not available here: the Pyth",
    ]
    assert report.issues[0].remediation == "Use echo."
    assert {issue.pointer for issue in report.issues} == {"/tools/python/0/callable"}


def test_a_tool_in_a_file_is_relative_to_the_workflow(inside: Project) -> None:
    inside.write(
        "flows/greet.py",
        TOOL.replace("old", "greet")
        .replace(', requires={"no-such-package": "*"}', "")
        .replace(', deprecated=True, replaced_by="echo"', ""),
    )
    (inside.root / "flows" / "below").mkdir()
    spec = load(
        inside.root / "flows", PLAIN + "tools: {python: [./greet.py, './greet.py:greet', ./gone.py]}\n"
    )
    assert [(issue.pointer, issue.severity) for issue in check_capability(spec).issues] == [
        ("/tools/python/2/callable", "error"),
        ("/tools/python/1/callable", "warning"),
    ]


def test_two_tools_of_one_id_are_an_error(inside: Project) -> None:
    inside.write("echo.py", TOOL.replace("old", "echo"))
    (issue,) = [
        i for i in found(inside.root, PLAIN + "tools: {python: [echo, ./echo.py]}\n") if i.severity == "error"
    ]
    assert issue.pointer == "/tools/python/1/callable"
    assert issue.reason.startswith("There are two tools of the id 'echo'")


@pytest.mark.parametrize("reference", ["./" + "x" * 5000 + ".py", "./a\\0b.py", "native:", "@", "a b"])
def test_a_strange_reference_is_no_bug(tmp_path: Path, reference: str) -> None:
    (issue,) = found(tmp_path, PLAIN + f'tools: {{python: ["{reference}"]}}\n')
    assert issue.pointer == "/tools/python/0/callable"


TWO_STEPS = 'steps: [{{id: a, agent: a, input: x}}, {{agent: a, input: "{text}"}}]'


@pytest.mark.parametrize("text", ["{{ steps.items() }}", "{{ steps.get('a') }}", "{{ steps[0].items() }}"])
def test_a_list_of_steps_and_a_result_have_no_methods_of_mappings(tmp_path: Path, text: str) -> None:
    (issue,) = found(tmp_path, pattern("chain", TWO_STEPS.format(text=text)))
    assert issue.reason.startswith("There is no ")


def test_an_index_in_quotes_is_no_index(tmp_path: Path) -> None:
    (issue,) = found(tmp_path, pattern("chain", TWO_STEPS.format(text="{{ steps['0'].response }}")))
    assert (issue.reason, issue.remediation) == (
        "There is no step with the id '0'.",
        "An index has no quotes: [0].",
    )


def test_a_task_may_be_called_like_a_method_of_mappings(tmp_path: Path) -> None:
    tasks = """tasks:
  - {id: items, agent: a, input: x}
  - {id: b, agent: a, needs: [items], input: "{{ tasks.items.response }}{{ tasks.keys() | list }}"}
  - {id: c, agent: a, input: "{{ tasks.items.response }}"}
"""
    (issue,) = found(tmp_path, pattern("workflow", tasks))
    assert "the task does not need 'items'" in issue.reason


@pytest.mark.parametrize(
    ("schema", "places"),
    [
        ("{type: array}", ["type"]),
        ("{properties: {score: {type: integer}, feedback: {type: string}}}", ["properties/score"]),
        ("{type: object, properties: {score: {type: number, description: x}, more: {}}}", []),
    ],
)
def test_what_an_evaluators_schema_cannot_change_is_told(
    tmp_path: Path, schema: str, places: list[str]
) -> None:
    text = (
        HEAD
        + f"""agents: {{a: {{prompt: x}}, b: {{prompt: y, output_schema: {schema}}}}}
pattern:
  type: evaluator_optimizer
  config: {{producer: {{agent: a, input: x}}, evaluator: {{agent: b, input: "{{{{ draft }}}}"}}}}
"""
    )
    at = "/agents/b/output_schema/"
    issues = found(tmp_path, text)
    assert [(issue.pointer, issue.severity) for issue in issues] == [
        (at + place, "warning") for place in places
    ]


def test_an_unknown_tool_is_told_with_the_project_that_was_searched(inside: Project) -> None:
    (issue,) = found(inside.root, PLAIN + "tools: {python: [word_count]}\n")
    assert issue.remediation.startswith("Use an existing native tool or add one under strands_cli.tools. ")
    assert f"Searched tools/ and plugins/ of the project {inside.root}." in issue.remediation


def test_a_plugin_that_changed_is_an_error_and_a_setting_without_a_value_a_warning(
    inside: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside.write("plugins/net/up", "#!/bin/sh\n").chmod(0o755)
    tool = {"name": "up", "path": "up", "config": {"region": {"type": "integer"}}}
    inside.write("plugins/net/plugin.json", json.dumps({"name": "net", "cli_tools": [tool]}))
    get_registry().refresh()
    text = PLAIN + "tools: {python: [net__up]}\n"
    (issue,) = found(inside.root, text)
    assert issue.severity == "warning"
    assert "net__up is not available here: the setting 'region' has no value" in issue.reason
    assert issue.remediation == "In the environment, set NET_REGION."
    monkeypatch.setenv("NET_REGION", "1")
    approved = Approved(files={"up": "sha256:other"})
    write_decision(inside.root / "strands-plugins.lock", Lock(plugins={"plugins/net": approved}))
    get_registry().refresh()
    (issue,) = found(inside.root, text)
    assert issue.severity == "error"
    assert "The plugin net has changed since it was approved" in issue.reason
    assert "strands plugin update net" in issue.remediation
