"""How long a command takes to start, against a bare interpreter."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from measuring import PYTHON, STRANDS, Row, child_cpu, environment, interleaved

BUDGETS = {
    "strands --version": 3,
    "strands --help": 10,
    "strands list-tools": 10,
    "strands tool call echo message=hi": 15,
    "strands validate echo-demo.yaml": 15,
}

ECHO_DEMO = """\
version: 0
name: echo-demo
runtime:
  provider: ollama
  model_id: llama3.2:3b
inputs:
  required:
    topic: string
agents:
  assistant:
    prompt: You are a helpful assistant with access to tools.
pattern:
  type: chain
  config:
    steps:
      - agent: assistant
        input: "Use the echo tool to say something about {{ topic }}."
tools:
  python:
    - echo
outputs:
  artifacts:
    - path: ./result.txt
      from: "{{ last_response }}"
"""


def measure(rounds: int = 21) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as place:
        Path(place, "echo-demo.yaml").write_text(ECHO_DEMO, "utf-8")
        run = partial(child_cpu, cwd=Path(place), env=environment(XDG_CACHE_HOME=f"{place}/cache"))
        cases = {"python -c pass": lambda: run([PYTHON, "-c", "pass"])}
        for text in BUDGETS:
            cases[text] = partial(run, [STRANDS, *text.split()[1:]])
        medians = interleaved(cases, rounds)
    floor = medians["python -c pass"]
    yield Row("python -c pass", floor, "ms")
    for text, budget in BUDGETS.items():
        yield Row(text, medians[text], "ms", "bare python", medians[text] / floor, budget)
