"""Files in the spelling of the public runner: one for each thing that its files may hold.

A row is what is put into a small workflow, as YAML, and what is said about it: nothing where it is accepted
as it is, the beginning of a warning, or the place and the beginning of an error.
"""

from typing import Any, NamedTuple

import yaml

BASE = """\
version: 0
name: row
runtime: {provider: ollama, host: "http://localhost:11434"}
inputs: {required: {topic: string}}
agents:
  a: {prompt: You help.}
  b: {prompt: You judge.}
pattern: {type: chain, config: {steps: [{agent: a, input: "{{ topic }}"}, {agent: b}]}}
"""


class Row(NamedTuple):
    given: str
    """Sections of the file, in place of those of the base."""
    warning: str = ""
    """How a warning begins."""
    place: str = ""
    """The pointer of what is said, in the text as it is written."""
    error: str = ""
    """How the error begins, for what is refused."""
    code: int = 0
    """The exit code of `validate`."""
    stays: bool = False
    """Whether the warning is about a value that a converted file still has."""


def with_sections(given: str, base: str = BASE) -> str:
    """The text of a small workflow with other sections; None removes one."""
    sections: dict[str, Any] = {**yaml.safe_load(base), **(yaml.safe_load(given) or {})}
    kept = {key: value for key, value in sections.items() if value is not None}
    return str(yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, width=1000))


def refused(given: str, place: str, error: str, code: int = 3) -> Row:
    return Row(given, place=place, error=error, code=code)


CHAIN = "pattern: {{type: chain, config: {{steps: [{{agent: a, input: x}}, {0}, {{agent: b}}]}}}}"
NODES = "nodes: {one: {agent: a, input: x}, two: {agent: b}}"
HOST = 'provider: ollama, host: "http://localhost:11434"'
RUNTIME = f"runtime: {{{HOST}, %s}}"
EXECUTOR = "tools: {http_executors: [{id: api, base_url: 'https://api.example.com', %s}]}"
HITL = "type: hitl, prompt: 'Go on?'"
EVALUATOR = (
    "pattern: {type: evaluator_optimizer, config: {producer: a, evaluator: {agent: b, input: '{{ draft }}'},"
    " accept: {min_score: 70}%s}}"
)
WORKERS = "pattern: {type: orchestrator_workers, config: {orchestrator: {agent: a%s}, worker_template: {agent: b}%s}}"
ROUTING = (
    "pattern: {type: routing, config: {router: {agent: a, input: '{{ topic }}'%s}, "
    "routes: {x: {then: [{agent: b, input: '{{ topic }}'}]}}}}"
)

TOP_LEVEL = {
    "version 1": Row("version: 1"),
    "version as text": Row('version: "1.0.0"'),
    "version 2": refused("version: 2", "/version", "'version' must be 0"),
    "name with blanks": Row('name: "My report: München (v2)"'),
    "name of 200": Row(f"name: {'x' * 200}"),
    "name of 201": refused(f"name: {'x' * 201}", "/name", "'name' must be text that matches"),
    "tags": Row("tags: [a, b-c]"),
    "metadata": Row("metadata: {name: x, description: y, labels: {strands.io/agent_type: atomic}}"),
    "metadata of another form": refused("metadata: {colour: red}", "/metadata/colour", "There is no key"),
    "unknown key": refused("colour: red", "/colour", "There is no key 'colour' here."),
}
RUNTIME_ROWS = {
    "inference in runtime": Row(RUNTIME % "temperature: 0.5, top_p: 0, max_tokens: 10"),
    "inference twice": refused(
        RUNTIME % "temperature: 1, inference: {temperature: 1}",
        "/runtime/temperature",
        "'temperature' means the same as 'temperature', and both are given.",
    ),
    "temperature too high": refused(
        RUNTIME % "temperature: 3", "/runtime/temperature", "'temperature' must be at most 2"
    ),
    "space_id": refused(RUNTIME % "space_id: x", "/runtime/space_id", "'space_id' is not supported."),
    "budgets": Row(RUNTIME % "budgets: {max_steps: 9, max_tokens: 100000, max_duration_s: 60}"),
    "warn_threshold": Row(RUNTIME % "budgets: {max_tokens: 1000, warn_threshold: 0.5}"),
    "waits": Row(RUNTIME % "failure_policy: {retries: 1, backoff: jittered, wait_min: 0, wait_max: 0}"),
    "wait below 0": refused(
        RUNTIME % "failure_policy: {wait_min: -1}",
        "/runtime/failure_policy/wait_min",
        "'wait_min' must be at least 0",
    ),
    "max_parallel": Row(RUNTIME % "max_parallel: 2"),
    "azure": refused("runtime: {provider: azure_openai}", "/runtime/provider", "'provider' must be one of"),
}
IMPLIED = "inputs: null\n"
INPUT_ROWS = {
    "types": Row(
        "inputs: {required: {topic: string}, optional: {n: {type: integer, description: d, default: 3, enum: [3, 4]}}}"
    ),
    "default in required": Row("inputs: {required: {topic: {type: string, default: tea}}}"),
    "values": Row("inputs: {values: {topic: tea, n: 3}}"),
    "values beside declared inputs": Row(
        RUNTIME
        % "temperature: 1"
        + "\ninputs: {required: {topic: string}, values: {n: 3, m: 1.5, ok: true}}\n"
        "agents: {a: {prompt: '{{ n }} {{ m }} {{ ok }}'}, b: {prompt: x}}"
    ),
    "a slip in values": refused(
        RUNTIME % "temperature: 1" + "\ninputs: {required: {topic: string}, values: {topik: tea}}",
        "/inputs/values/topik",
        "There is no input 'topik'.",
    ),
    "no inputs": Row(IMPLIED, "topic is not declared: it is an input", "/pattern/config/steps/0/input"),
    "no inputs, in a prompt": Row(
        IMPLIED + "agents: {a: {prompt: 'About {{ topic }} in {{ language.lower() }}'}, b: {prompt: x}}",
        "topic, language are not declared: they are inputs",
        "/pattern/config/steps/0/input",
    ),
    "no inputs, a slip": refused(
        IMPLIED + CHAIN.format("{agent: a, input: '{{ lst_response }}'}"),
        "/pattern/config/steps/1/input",
        "There is no name 'lst_response'",
        18,
    ),
    "no inputs, a slip in a name of there": refused(
        IMPLIED + CHAIN.format(f"{{{HITL}}}, {{agent: a, input: '{{{{ hitl_respons }}}}'}}"),
        "/pattern/config/steps/2/input",
        "There is no name 'hitl_respons'",
        18,
    ),
    "secret without a name": Row(
        "env: {secrets: [{key: API_TOKEN, source: env}]}\n"
        + EXECUTOR % "headers: {Authorization: 'Bearer ${API_TOKEN}'}",
        "The environment variable API_TOKEN is not set.",
        "/env/secrets/0/key",
    ),
    "secret by its name": Row(
        "env: {secrets: [{key: API_TOKEN, source: env, name: token}]}\n"
        + EXECUTOR % "headers: {Authorization: 'Bearer ${token}'}",
        "The environment variable API_TOKEN is not set.",
        "/env/secrets/0/key",
    ),
    "secret of ssm": refused(
        "env: {secrets: [{key: API_TOKEN, source: ssm}]}",
        "/env/secrets/0/source",
        "Secrets of ssm are not supported.",
        18,
    ),
    "secret of a manager": refused(
        "env: {secrets: [{key: API_TOKEN, source: secrets_manager}]}",
        "/env/secrets/0/source",
        "Secrets of secrets_manager are not supported.",
        18,
    ),
    "secret in a prompt": refused(
        "env: {secrets: [{key: API_TOKEN, source: env}]}\n"
        "agents: {a: {prompt: 'Use ${API_TOKEN}'}, b: {prompt: x}}",
        "/agents/a/prompt",
        "API_TOKEN is a secret",
    ),
    "mounts": Row("env: {mounts: {data: /data}}", "'mounts' has no effect here", "/env/mounts"),
    "a variable as text": Row(
        RUNTIME % "temperature: 1" + "\nagents: {a: {prompt: 'Write ${HOME_TOWN}'}, b: {prompt: x}}",
        "${HOME_TOWN} stays as it is written",
        "/agents/a/prompt",
    ),
    "a variable in our spelling": refused(
        "agents: {a: {prompt: 'Write ${HOME_TOWN}'}, b: {prompt: x}}",
        "/agents/a/prompt",
        "The file uses the environment variable HOME_TOWN, but does not declare it.",
    ),
}
TOOL_ROWS = {
    "native by its module": Row("tools: {python: [calculator, {callable: strands_cli.tools.echo}]}"),
    "executor's time": Row(EXECUTOR % "timeout_ms: 1500"),
    "executor's texts": Row(
        EXECUTOR % "description: API, response_format: JSON, authentication_info: none, "
        "common_endpoints: [{path: /a, description: reads a, method: GET}], "
        "examples: [{description: e, method: POST, path: /a, json_data: {x: 1}}]"
    ),
    "executor's endpoints of another form": refused(
        EXECUTOR % "common_endpoints: [{path: /a}]",
        "/tools/http_executors/0/common_endpoints/0/description",
        "The key 'description' is missing.",
    ),
    "executor that is text": refused(
        "tools: {http_executors: [api]}", "/tools/http_executors/0", "This item must be an object"
    ),
    "executor's time that is text": refused(
        EXECUTOR % "timeout_ms: soon", "/tools/http_executors/0/timeout_ms", "'timeout_ms' must be a number"
    ),
    "executor's format that is a list": refused(
        EXECUTOR % "response_format: [json]",
        "/tools/http_executors/0/response_format",
        "'response_format' must be a string, got array of 1 item.",
    ),
    "undeclared native tool": Row(
        "agents: {a: {prompt: x, tools: [python_exec]}, b: {prompt: x}}",
        "The native tool 'python_exec' is not declared",
        "/agents/a/tools/0",
    ),
    "word of a section": Row(
        "agents: {a: {prompt: x, tools: [http_executors, python]}, b: {prompt: x}}",
        "'http_executors' is the name of a section",
        "/agents/a/tools/0",
    ),
    "unknown tool": refused(
        "agents: {a: {prompt: x, tools: [nonsense]}, b: {prompt: x}}",
        "/agents/a/tools/0",
        "There is no tool 'nonsense'.",
        18,
    ),
    "no tools": Row("agents: {a: {prompt: x, tools: []}, b: {prompt: x}}"),
}
AGENT_ROWS = {
    "unknown name in a prompt": Row(
        RUNTIME % "temperature: 1" + "\nagents: {a: {prompt: 'For {{ user.name }}'}, b: {prompt: x}}",
        "{{ user.name }} stays as it is written",
        "/agents/a/prompt",
    ),
    "a prompt that teaches templates": Row(
        RUNTIME % "temperature: 1" + "\nagents: {a: {prompt: 'Write {% for %} loops.'}, b: {prompt: x}}",
        "The template stays as it is written",
        "/agents/a/prompt",
    ),
    "a comment in a prompt": Row(
        RUNTIME % "temperature: 1" + "\nagents: {a: {prompt: 'Keep {# notes #} in texts.'}, b: {prompt: x}}",
        "{# notes #} stays as it is written",
        "/agents/a/prompt",
    ),
    "a prompt about raw blocks": Row(
        RUNTIME % "temperature: 1"
        + "\nagents: {a: {prompt: 'Close it with {% endraw %} and \"quotes\".'}, b: {prompt: x}}",
        "The template stays as it is written",
        "/agents/a/prompt",
    ),
    "unknown name in our spelling": refused(
        "agents: {a: {prompt: 'For {{ user.name }}'}, b: {prompt: x}}",
        "/agents/a/prompt",
        "There is no name 'user'",
        18,
    ),
    "models of agents": Row(
        "agents: {a: {prompt: x, provider: ollama, model_id: m, inference: {temperature: 0, max_tokens: 9}},"
        " b: {prompt: x}}"
    ),
    "input_schema": Row("agents: {a: {prompt: x, input_schema: {type: object}}, b: {prompt: x}}"),
}
STEP_ROWS = {
    "vars": Row(CHAIN.format("{agent: a, input: '{{ tone }}', vars: {tone: calm, n: 3, loud: false}}")),
    "tool_overrides": Row("tools: {python: [echo]}\n" + CHAIN.format("{agent: a, tool_overrides: [echo]}")),
    "empty tool_overrides": Row("tools: {python: [echo]}\n" + CHAIN.format("{agent: a, tool_overrides: []}")),
    "human": Row(CHAIN.format(f"{{{HITL}}}")),
    "human with all keys": Row(
        CHAIN.format(
            f"{{{HITL}, context_display: '{{{{ last_response }}}}', default: 'yes', timeout_seconds: 0}}"
        )
    ),
    "human with a time": Row(CHAIN.format(f"{{{HITL}, default: 'yes', timeout_seconds: 60}}")),
    "human with an unknown name": Row(
        CHAIN.format("{type: hitl, prompt: 'Like {{ this.one }}?'}"),
        "{{ this.one }} stays as it is written",
        "/pattern/config/steps/1/prompt",
    ),
    "human without a prompt": refused(
        CHAIN.format("{type: hitl, default: x}"),
        "/pattern/config/steps/1/prompt",
        "The key 'prompt' is missing.",
    ),
    "human with an agent": refused(
        CHAIN.format(f"{{{HITL}, agent: a}}"),
        "/pattern/config/steps/1/agent",
        "There is no key 'agent' here.",
    ),
    "time below 0": refused(
        CHAIN.format(f"{{{HITL}, timeout_seconds: -1}}"),
        "/pattern/config/steps/1/timeout_seconds",
        "'timeout_seconds' must be at least 0",
    ),
}
STEP_ROWS |= {
    "a slip in a key of a human step": refused(
        CHAIN.format("{type: hitl, promt: x}"),
        "/pattern/config/steps/1/promt",
        "There is no key 'promt' here.",
    ),
    "names that mean nothing in a question, but below it": Row(
        CHAIN.format(
            "{type: hitl, prompt: 'Like ${X} {{ a }} {{ b }}?', context_display: '{{ steps[0].agent }}'}"
        ),
        "{{ a }}, {{ b }} stay as they are written: they mean nothing",
        "/pattern/config/steps/1/prompt",
    ),
    "an unknown name in context_display": refused(
        CHAIN.format(
            "{type: hitl, prompt: 'Like ${X} {{ a }}?', context_display: '{{ stepps[0].response }}'}"
        ),
        "/pattern/config/steps/1/prompt",
        "There is no name 'stepps'",
        18,
    ),
    "context_display that is a number": refused(
        CHAIN.format(f"{{{HITL}, context_display: 5}}"),
        "/pattern/config/steps/1/context_display",
        "'context_display' must be a string, got integer 5.",
    ),
    "another type of step": refused(
        CHAIN.format("{type: human, prompt: x}"), "/pattern/config/steps/1/type", "'type' must be 'hitl'"
    ),
}
TASKS = "pattern: {type: workflow, config: {tasks: [{id: one, agent: a, input: x}, %s]}}"
PATTERN_ROWS = {
    "deps": Row(TASKS % "{id: two, agent: b, deps: [one], description: Second}"),
    "human task": Row("agents: {a: {prompt: x}}\n" + TASKS % f"{{id: two, {HITL}, deps: [one]}}"),
    "deps of nothing": refused(
        TASKS % "{id: two, agent: b, deps: [onne]}",
        "/pattern/config/tasks/1/deps/0",
        "There is no task 'onne'.",
        18,
    ),
    "deps that are not a list": refused(
        TASKS % "{id: two, agent: b, deps: one}", "/pattern/config/tasks/1/deps", "'deps' must be an array"
    ),
    "a task that sees another": Row(
        TASKS % "{id: two, agent: b, deps: []}, {id: three, agent: a, input: '{{ tasks.two.response }}'}",
        "The task 'three' uses the answer of 'two'",
        "/pattern/config/tasks/2",
    ),
    "then": Row(ROUTING % ""),
    "max_retries": Row(ROUTING % ", max_retries: 1"),
    "review_router": Row(
        ROUTING % f", review_router: {{{HITL}, context_display: '{{{{ router.chosen_route }}}}'}}"
    ),
    "a route without then": refused(
        "pattern: {type: routing, config: {router: {agent: a}, routes: {x: {than: [{agent: b}]}}}}",
        "/pattern/config/routes/x/than",
        "There is no key 'than' here.",
    ),
    "evaluator": Row(EVALUATOR % ""),
    "evaluator with all keys": Row(
        EVALUATOR % f", revise_prompt: '{{{{ draft }}}} {{{{ evaluation.issues }}}} {{{{ iteration }}}}', "
        f"review_gate: {{{HITL}, context_display: '{{{{ current_draft }}}} {{{{ iteration_index }}}}'}}"
    ),
    "validation": Row(
        EVALUATOR % f", review_gate: {{{HITL}, validation: {{pattern: '^a'}}}}",
        "'validation' has no effect here",
        "/pattern/config/review_gate/validation",
    ),
    "accept with another key": refused(
        EVALUATOR.replace("min_score: 70", "min_score: 70, min_scor: 3") % "",
        "/pattern/config/accept/min_scor",
        "There is no key 'min_scor' here.",
    ),
    "accept out of range": refused(
        EVALUATOR.replace("70", "700") % "",
        "/pattern/config/accept/min_score",
        "'min_score' must be at most 100",
    ),
    "accept that is a number": refused(
        EVALUATOR.replace("{min_score: 70}", "70") % "",
        "/pattern/config/accept",
        "'accept' must be an object",
    ),
    "workers": Row(WORKERS % (", limits: {max_workers: 2, max_rounds: 1}", "")),
    "worker's tools": Row(
        "tools: {python: [echo]}\n" + WORKERS.replace("{agent: b}", "{agent: b, tools: [echo]}") % ("", "")
    ),
    "workers with reduce and writeup": Row(
        WORKERS
        % (
            "",
            ", reduce: {agent: a, input: '{% for w in workers %}{{ w.task }}{{ w.response }}{% endfor %}'}, "
            "writeup: {agent: b, input: '{{ reduce_response }} {{ num_workers }}'}",
        )
    ),
    "gates of workers": Row(
        WORKERS
        % (
            "",
            f", decomposition_review: {{{HITL}, context_display: '{{{{ task_count }}}}'}}, "
            f"reduce: {{agent: a}}, reduce_review: {{{HITL}, context_display: '{{{{ worker_count }}}}'}}",
        )
    ),
    "reduce_review without reduce": refused(
        WORKERS % ("", f", reduce_review: {{{HITL}}}"),
        "/pattern/config/reduce_review",
        "'reduce_review' needs the key 'reduce'",
    ),
    "human reduce": Row(
        "pattern: {type: parallel, config: {branches: [{id: x, steps: [{agent: a, input: x}]}, "
        f"{{id: y, steps: [{{agent: b, input: x}}]}}], reduce: {{{HITL}}}}}}}"
    ),
    "choose": Row(
        f"pattern: {{type: graph, config: {{max_iterations: 3, {NODES}, edges: [{{from: one, to: [two]}}, "
        "{from: two, choose: [{when: \"'x' in nodes.two.response.lower()\", to: one}, "
        "{when: '{{ nodes.two.iteration >= 3 }}', to: one}, {when: ELSE, to: one}]}]}}"
    ),
    "human node": Row(
        "agents: {a: {prompt: x}}\npattern: {type: graph, config: {nodes: {one: {agent: a, input: x}, ask: {"
        + HITL
        + "}}, "
        "edges: [{from: one, to: [ask]}, {from: ask, choose: [{when: \"hitl_response == 'again'\", to: one}]}]}}"
    ),
    "nodes with words of steps as names": Row(
        "agents: {a: {prompt: x}}\npattern: {type: graph, config: {nodes: {inputs: {agent: a, input: x}, "
        f"review: {{{HITL}, context_display: '{{{{ nodes.inputs.response }}}}'}}, vars: {{{HITL}}}}}, "
        "edges: [{from: inputs, to: [review]}, {from: review, choose: [{when: else, to: vars}]}]}}"
    ),
    "a slip in a node named review": refused(
        "agents: {a: {prompt: x}}\npattern: {type: graph, config: {max_iterations: 2, nodes: "
        "{one: {agent: a, input: x}, review: {agent: a, input: '{{ nothing }}'}}, "
        "edges: [{from: one, to: [review]}]}}",
        "/pattern/config/nodes/review/input",
        "There is no name 'nothing'.",
        18,
    ),
    "routes with words of steps as names": Row(
        "tools: {python: [echo]}\n"
        + ROUTING.replace("{x: {then: [{", "{inputs: {then: [{tool_overrides: [echo], ") % ""
    ),
    "a choice after else": Row(
        f"pattern: {{type: graph, config: {{{NODES}, edges: [{{from: one, choose: "
        '[{when: else, to: two}, {when: "nodes.one.iteration > 2", to: one}]}]}}',
        "This choice is never taken: 'else' is before it.",
        "/pattern/config/edges/0/choose/1",
    ),
    "choose with a broken condition": refused(
        f"pattern: {{type: graph, config: {{{NODES}, edges: [{{from: one, choose: "
        "[{when: 'nodes.one.response ==', to: two}]}]}}",
        "/pattern/config/edges/0/choose/0/when",
        "Invalid condition: The condition ends where a value is expected",
    ),
    "choose with an empty condition": refused(
        f"pattern: {{type: graph, config: {{{NODES}, edges: [{{from: one, choose: [{{when: '', to: two}}]}}]}}}}",
        "/pattern/config/edges/0/choose/0/when",
        "Invalid condition: The condition ends where a value is expected",
    ),
    "choose without a target": refused(
        f"pattern: {{type: graph, config: {{{NODES}, edges: [{{from: one, to: [two]}}, {{from: two, choose: "
        "[{when: else}]}]}}",
        "/pattern/config/edges/1/choose/0/to",
        "The key 'to' is missing.",
    ),
    "choose of an unknown node": refused(
        f"pattern: {{type: graph, config: {{{NODES}, edges: [{{from: one, to: [two]}}, {{from: two, choose: "
        "[{when: else, to: tree}]}]}}",
        "/pattern/config/edges/1/choose/0/to",
        "There is no node 'tree'.",
        18,
    ),
    "start at the first node": Row(
        f"pattern: {{type: graph, config: {{max_iterations: 2, {NODES}, edges: [{{from: one, to: [two]}}, "
        "{from: two, to: [one]}]}}"
    ),
}
OTHER_ROWS = {
    "$TRACE": Row(
        "outputs: {artifacts: [{path: t.json, from: '$TRACE'}]}",
        "'$TRACE' is read as '{{ TRACE }}'.",
        "/outputs/artifacts/0/from",
    ),
    "sections in artifacts": Row(
        RUNTIME
        % "temperature: 1"
        + "\noutputs: {artifacts: [{path: t.txt, from: '{{ runtime.temperature }} {{ runtime.items() | list }} "
        "{{ runtime.failure_policy.retries }} {{ context_policy.compaction }}'}]}"
    ),
    "an unknown key of a section in artifacts": refused(
        "outputs: {artifacts: [{path: t.txt, from: '{{ runtime.colour }}'}]}",
        "/outputs/artifacts/0/from",
        "There is no key of runtime 'colour'.",
        18,
    ),
    "compaction": Row(
        "context_policy: {compaction: {enabled: true, when_tokens_over: 2000, summary_ratio: 0.3, "
        "preserve_recent_messages: 4}}",
        "'summary_ratio' has no effect here",
        "/context_policy/compaction/summary_ratio",
    ),
    "summarization_model": Row("context_policy: {compaction: {summarization_model: small}}"),
    "notes": Row("context_policy: {notes: {file: notes.jsonl, include_last: 3, format: json}}"),
    "notes among artifacts": Row(
        "context_policy: {notes: {file: ./artifacts/notes.md}}",
        "The file of notes is relative to the output directory",
        "/context_policy/notes/file",
        stays=True,
    ),
    "jit_tools": Row("context_policy: {retrieval: {jit_tools: [grep, head, tail, search]}}"),
    "retrieval's servers": Row(
        "context_policy: {retrieval: {mcp_servers: [x]}}",
        "'mcp_servers' has no effect here",
        "/context_policy/retrieval/mcp_servers",
    ),
    "otel": Row("telemetry: {otel: {endpoint: 'http://localhost:4318', service_name: s, sample_ratio: 0.5}}"),
    "otel by gRPC": Row(
        "telemetry: {otel: {endpoint: 'http://localhost:4317'}}",
        "4317 is the port of collectors for gRPC",
        "/telemetry/otel/endpoint",
        stays=True,
    ),
    "otel with another key": refused(
        "telemetry: {otel: {url: x}}", "/telemetry/otel/url", "There is no key 'url' here."
    ),
    "redact": Row("telemetry: {redact: {tool_inputs: true, tool_outputs: false}}"),
    "guardrails": Row(
        "tools: {python: [echo]}\nsecurity: {guardrails: {deny_network: true, allow_tools: [echo]}}"
    ),
    "pii_redaction": Row(
        "security: {guardrails: {pii_redaction: true}}",
        "'pii_redaction' has no effect here",
        "/security/guardrails/pii_redaction",
    ),
}
ROWS: dict[str, Row] = {
    **TOP_LEVEL,
    **RUNTIME_ROWS,
    **INPUT_ROWS,
    **TOOL_ROWS,
    **AGENT_ROWS,
    **STEP_ROWS,
    **PATTERN_ROWS,
    **OTHER_ROWS,
}
