"""Workflows of all seven patterns, as text; and one whose every text is hostile."""

HEAD = """version: 0
name: {name}
description: {description}
runtime:
  provider: ollama
  model_id: llama3.2:3b
  host: http://localhost:11434
  max_parallel: 2
tools:
  python: [echo, native:calculator, strands_tools.http_request.http_request, file_write]
agents:
  writer: {{prompt: You write., tools: [echo]}}
  critic: {{prompt: You judge., tools: [], provider: openai, model_id: gpt-4o-mini}}
  helper: {{prompt: You help.}}
outputs:
  artifacts:
    - {{path: ./result.md, from: "{{{{ last_response }}}}"}}
pattern:
"""

PATTERNS = {
    "chain": """
  type: chain
  config:
    steps:
      - {agent: helper, input: "Find out about owls"}
      - {id: draft, agent: writer, input: "Write it down"}
      - {agent: critic}
""",
    "workflow": """
  type: workflow
  config:
    tasks:
      - {id: fetch, agent: helper, input: Fetch}
      - {id: facts, agent: writer, needs: [fetch]}
      - {id: figures, agent: writer, needs: [fetch]}
      - {id: sources, agent: helper}
      - {id: report, agent: critic, needs: [facts, figures, sources, fetch]}
""",
    "routing": """
  type: routing
  config:
    router: {agent: critic, input: "Which one?"}
    default: other
    routes:
      billing: {description: Money, steps: [{agent: writer}, {id: check, agent: critic}]}
      technical: {description: Machines, steps: [{agent: helper}]}
      other: {steps: [{agent: writer}, {agent: helper}, {agent: critic}]}
""",
    "parallel": """
  type: parallel
  config:
    branches:
      - {id: web, steps: [{agent: helper, input: Search}, {id: condense, agent: writer}]}
      - {id: docs, steps: [{agent: helper}]}
      - {id: people, steps: [{human: {prompt: What do you know?}}, {agent: writer}]}
    reduce: {agent: critic, input: Join them}
""",
    "evaluator_optimizer": """
  type: evaluator_optimizer
  config:
    producer: {agent: writer, input: Write}
    evaluator: {agent: critic}
    min_score: 85
    max_iters: 4
""",
    "orchestrator_workers": """
  type: orchestrator_workers
  config:
    orchestrator: {agent: critic, input: Divide the work}
    worker: {agent: helper}
    reduce: {agent: writer}
    max_tasks: 5
    max_rounds: 2
""",
    "graph": """
  type: graph
  config:
    start: draft
    max_visits: 3
    nodes:
      draft: {agent: writer, input: Draft}
      review: {agent: critic}
      facts: {agent: helper}
      polish: {agent: writer}
      publish: {agent: helper}
    edges:
      - {from: draft, to: [review, facts]}
      - {from: review, to: draft, when: "nodes.review.response contains 'again'"}
      - {from: review, to: polish, when: "nodes.review.response contains 'approved'"}
      - {from: facts, to: polish}
      - {from: polish, to: polish, when: "nodes.polish.response contains 'rough'"}
      - {from: polish, to: publish}
""",
}

PEOPLE = {  # the same with humans in them
    "human tasks": """
  type: workflow
  config:
    tasks:
      - {id: draft, agent: writer, input: Draft}
      - {id: approval, needs: [draft], human: {prompt: "Publish?", choices: [yes, no], default: no, timeout_s: 60}}
      - {id: publish, agent: helper, needs: [approval]}
""",
    "human nodes": """
  type: graph
  config:
    start: draft
    nodes:
      draft: {agent: writer}
      look: {human: {prompt: "Good?"}}
    edges:
      - {from: draft, to: look}
      - {from: look, to: draft, when: "nodes.look.response != 'yes'"}
""",
    "human reduce": """
  type: parallel
  config:
    branches:
      - {id: web, steps: [{agent: helper}]}
      - {id: docs, steps: [{agent: helper}]}
    reduce: {human: {prompt: "Which one?"}}
""",
    "reviewed route": """
  type: routing
  config:
    router: {agent: critic, review: {prompt: "Take {{ route }}?"}}
    routes:
      billing: {steps: [{agent: writer}, {agent: critic}]}
      other: {steps: [{agent: helper}]}
""",
    "reviewed draft": """
  type: evaluator_optimizer
  config:
    producer: {agent: writer}
    evaluator: {agent: critic, review: {prompt: "Another round?"}}
""",
    "reviewed tasks": """
  type: orchestrator_workers
  config:
    orchestrator: {agent: critic, review: {prompt: "Do {{ plan | join(', ') }}?"}}
    worker: {agent: helper}
    reduce: {agent: writer, review: {prompt: "Good enough?"}}
    max_rounds: 2
""",
    "reviewed result": """
  type: parallel
  config:
    branches:
      - {id: web, steps: [{agent: helper}]}
      - {id: docs, steps: [{agent: helper}]}
    reduce: {agent: writer, review: {prompt: "Good enough?"}}
""",
}

HOSTILE = """]]> </svg><script>alert(1)</script> "quoted" 'single' \\\\ %%{init}%% `code` #35; &lt; | {{ x }} → 漢字 🦉\\nnext"""

HOSTILE_GRAPH = f"""
  type: graph
  config:
    start: one
    nodes:
      one: {{agent: writer, input: "{HOSTILE.replace('"', chr(92) + '"')}"}}
      two: {{agent: "{HOSTILE.replace('"', chr(92) + '"')}"}}
    edges:
      - {{from: one, to: two, when: "{HOSTILE.replace('"', chr(92) + '"')}"}}
      - {{from: two, to: two, when: "{HOSTILE.replace('"', chr(92) + '"')}"}}
"""


def workflow(pattern: str, name: str = "demo", description: str = "Shows a pattern") -> str:
    return HEAD.format(name=name, description=description) + pattern.lstrip("\n")
