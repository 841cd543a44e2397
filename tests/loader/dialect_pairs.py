"""One workflow for each pattern, twice: as the public runner spells it, and as we do."""

SCRIPT = """\
- {system: You write, when: Round 2, answers: [The second text.]}
- {system: You write, answers: [The first text.]}
- {system: You judge, when: second, answers: [{output: {score: 95, issues: []}}]}
- {system: You judge, answers: [{output: {score: 40, issues: [too long, too dry]}}]}
- {system: You route, answers: [{output: {route: letters}}]}
- {system: You plan, answers: [{output: {tasks: [look left, look right]}}]}
- {system: You work, answers: [Done that.]}
- {system: You sum up, answers: [All in all.]}
- {system: You check, when: time 2, answers: [This is fine.]}
- {system: You check, answers: [This is NOT fine.]}
"""
_RUNTIME = {
    "theirs": """\
runtime:
  provider: scripted
  model_id: answers.yaml
  temperature: 0.3   # dry
  max_tokens: 500
  failure_policy: {retries: 1, backoff: jittered, wait_min: 0, wait_max: 1}
""",
    "ours": """\
runtime:
  provider: scripted
  model_id: answers.yaml
  inference:
    temperature: 0.3   # dry
    max_tokens: 500
  failure_policy: {retries: 1, backoff: jitter, wait_s: 0, max_wait_s: 1}
""",
}
_AGENTS = {
    "writer": "You write",
    "judge": "You judge",
    "router": "You route",
    "planner": "You plan",
    "worker": "You work",
    "closer": "You sum up",
    "checker": "You check",
}


def _pair(name: str, agents: str, theirs: str, ours: str, outputs: str = "") -> tuple[str, str]:
    declared = "".join(
        f"  {agent}: {{prompt: {_AGENTS[agent]} about the topic.}}\n" for agent in agents.split()
    )
    artifacts = f"outputs: {{artifacts: [{{path: out.txt, from: {outputs!r}}}]}}\n" if outputs else ""

    def text(spelling: str, version: str, config: str) -> str:
        return (
            f"version: {version}\nname: {name}\n{_RUNTIME[spelling]}"
            f"inputs: {{values: {{topic: tea}}}}\nagents:\n{declared}{config}{artifacts}"
        )

    return text("theirs", '"1.0"', theirs), text("ours", "0", ours)


ARTIFACTS = {
    "chain": "3 All in all. approved",
    "workflow": "success All in all.",
    "routing": "letters letters router The first text.",
    "parallel": "Branch a:\nAll in all.\n\n---\n\nBranch b:\nThe first text.",
    "evaluator_optimizer": "2 95 80 The second text.",
    "orchestrator_workers": "2 All in all. The first text.",
    "graph": "close 2 5 All in all.",
}
"""What the artifact of each has in it."""
PAIRS = {
    "chain": _pair(
        "chain",
        "writer closer",
        """\
pattern:
  type: chain
  config:
    steps:
      - {agent: writer, input: "About {{ subject }} and {{ topic }}", vars: {subject: cups}}
      # a human looks at it
      - type: hitl
        prompt: Is it fine?
        context_display: "{{ steps[0].response }}"
        default: approved
        timeout_seconds: 0
      - {agent: closer, input: "{{ steps[0].response }} {{ hitl_response }}"}
""",
        """\
pattern:
  type: chain
  config:
    steps:
      - {agent: writer, input: "About {{ subject }} and {{ topic }}", vars: {subject: cups}}
      # a human looks at it
      - human:
          prompt: "Is it fine?\\n\\n{{ steps[0].response }}"
          default: approved
          timeout_s: 0
      - {agent: closer, input: "{{ steps[0].response }} {{ hitl_response }}"}
""",
        "{{ steps | length }} {{ last_response }} {{ steps[1].response }}",
    ),
    "workflow": _pair(
        "workflow",
        "writer closer",
        """\
pattern:
  type: workflow
  config:
    tasks:
      - {id: one, agent: writer, input: "{{ topic }}", description: The first}
      - {id: two, agent: writer, input: "More about {{ topic }}", deps: [one]}
      - id: end   # the last
        agent: closer
        deps: [one, two]
        input: "{{ tasks.one.response }} {{ tasks.two.response }}"
""",
        """\
pattern:
  type: workflow
  config:
    tasks:
      - {id: one, agent: writer, input: "{{ topic }}", description: The first}
      - {id: two, agent: writer, input: "More about {{ topic }}", needs: [one]}
      - id: end   # the last
        agent: closer
        needs: [one, two]
        input: "{{ tasks.one.response }} {{ tasks.two.response }}"
""",
        "{{ tasks.one.status }} {{ last_response }}",
    ),
    "routing": _pair(
        "routing",
        "router writer",
        """\
pattern:
  type: routing
  config:
    router: {agent: router, input: "{{ topic }}", max_retries: 1}
    routes:
      letters:
        then:
          - {agent: writer, input: "By {{ router.chosen_route }}"}
      calls:
        then:
          - {agent: writer, input: x}
""",
        """\
pattern:
  type: routing
  config:
    router: {agent: router, input: "{{ topic }}", max_retries: 1}
    routes:
      letters:
        steps:
          - {agent: writer, input: "By {{ router.chosen_route }}"}
      calls:
        steps:
          - {agent: writer, input: x}
""",
        "{{ router.chosen_route }} {{ chosen_route }} {{ router_agent }} {{ last_response }}",
    ),
    "parallel": _pair(
        "parallel",
        "writer closer",
        """\
pattern:
  type: parallel
  config:
    branches:
      - {id: b, steps: [{agent: writer, input: "{{ topic }}"}]}
      - {id: a, steps: [{agent: closer, input: "{{ topic }}", tool_overrides: []}]}
""",
        """\
pattern:
  type: parallel
  config:
    branches:
      - {id: b, steps: [{agent: writer, input: "{{ topic }}"}]}
      - {id: a, steps: [{agent: closer, input: "{{ topic }}"}]}
""",
        "{{ last_response }}",
    ),
    "evaluator_optimizer": _pair(
        "evaluator",
        "writer judge",
        """\
pattern:
  type: evaluator_optimizer
  config:
    producer: writer
    evaluator:
      agent: judge
      input: "Judge {{ draft }}"
    # good enough
    accept: {min_score: 80, max_iters: 3}
    revise_prompt: "Round {{ iteration }}: {{ evaluation.issues | join(', ') }}"
""",
        """\
pattern:
  type: evaluator_optimizer
  config:
    producer: {agent: writer}
    evaluator:
      agent: judge
      input: "Judge {{ draft }}"
    # good enough
    min_score: 80
    max_iters: 3
    revise: "Round {{ iteration }}: {{ evaluation.issues | join(', ') }}"
""",
        "{{ iterations }} {{ final_score }} {{ min_score }} {{ last_response }}",
    ),
    "orchestrator_workers": _pair(
        "workers",
        "planner worker closer writer",
        """\
pattern:
  type: orchestrator_workers
  config:
    orchestrator: {agent: planner, limits: {max_workers: 2, max_rounds: 1}}
    worker_template: {agent: worker}
    reduce:
      agent: closer
      input: "{% for one in workers %}{{ one.task }}: {{ one.response }} {% endfor %}"
    writeup: {agent: writer, input: "{{ reduce_response }} of {{ num_workers }}"}
""",
        """\
pattern:
  type: orchestrator_workers
  config:
    orchestrator: {agent: planner}
    max_workers: 2
    max_rounds: 1
    max_tasks: 256
    worker: {agent: worker}
    reduce:
      agent: closer
      input: "{% for one in workers %}{{ one.task }}: {{ one.response }} {% endfor %}"
    writeup: {agent: writer, input: "{{ reduce_response }} of {{ num_workers }}"}
""",
        "{{ num_workers }} {{ reduce_response }} {{ writeup_response }}",
    ),
    "graph": _pair(
        "graph",
        "writer checker closer",
        """\
pattern:
  type: graph
  config:
    max_iterations: 4
    nodes:
      write: {agent: writer, input: "{{ topic }}"}
      check: {agent: checker, input: "{{ nodes.write.response }} time {{ nodes.write.iteration }}"}
      close: {agent: closer, input: "{{ nodes.check.response }}"}
    edges:
      - {from: write, to: [check]}
      - from: check
        choose:
          - {when: "'not' in nodes.check.response.lower()", to: write}
          - {when: "nodes.write.iteration >= 9", to: write}
          - {when: else, to: close}
""",
        """\
pattern:
  type: graph
  config:
    start: write
    max_visits: 4
    nodes:
      write: {agent: writer, input: "{{ topic }}"}
      check: {agent: checker, input: "{{ nodes.write.response }} time {{ nodes.write.iteration }}"}
      close: {agent: closer, input: "{{ nodes.check.response }}"}
    edges:
      - {from: write, to: [check]}
      - {from: check, when: "'not' in nodes.check.response.lower()", to: write}
      - from: check
        when: "not ('not' in nodes.check.response.lower()) and (nodes.write.iteration >= 9)"
        to: write
      - from: check
        when: "not ('not' in nodes.check.response.lower()) and not (nodes.write.iteration >= 9)"
        to: close
""",
        "{{ terminal_node }} {{ iteration_counts.write }} {{ total_steps }} {{ last_response }}",
    ),
}
"""By pattern: the file as it is there, and here."""
