"""A run that ends after any of its rows comes to the same end, with the same requests, and repeats nothing."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from strands_cli.exec.run import run
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.stores import MemoryStore
from strands_cli.loader.spec import Spec
from strands_cli.types import RunResult
from tests.exec.test_durable import Durable
from tests.exec.test_durable import flow as flow
from tests.fakes import Call, Part, Request, ScriptedModel, fitting

NOTE = """
from strands_cli import ToolContext, tool

@tool
def note(text: str, context: ToolContext) -> str:
    '''Notes.

    Args:
        text: What.
    '''
    with open("log.txt", "a") as file:
        file.write(context.key + "\\n")
    return text * 100
"""
HUMAN, GATE = {"human": {"prompt": "Again?"}}, {"review": {"prompt": "Fine?"}}
BEGUN = 3
"""The rows with which every run begins."""


def ask(text: str, agent: str = "worker", **more: Any) -> dict[str, Any]:
    return {"agent": agent, "input": text, **more}


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "chain": (
        "chain",
        {"steps": [ask("one"), ask("two"), ask("data", "clerk"), HUMAN, ask("three", conversation="fresh")]},
    ),
    "tasks": (
        "workflow",
        {
            "tasks": [
                {"id": "a", **ask("a")},
                {"id": "b", "needs": ["a"], **ask("b")},
                {"id": "c", **HUMAN},
                {"id": "d", "needs": ["b", "c"], **ask("d")},
            ]
        },
    ),
    "branches": (
        "parallel",
        {
            "branches": [{"id": name, "steps": [ask(name), ask("more")]} for name in "abc"],
            "reduce": {**ask("sum"), **GATE},
        },
    ),
    "routes": (
        "routing",
        {
            "router": {**ask("choose", "judge"), **GATE},
            "routes": {"tried": {"steps": [ask("yes"), ask("more")]}},
        },
    ),
    "rounds": (
        "evaluator_optimizer",
        {"producer": ask("write"), "evaluator": {**ask("judge", "judge"), **GATE}, "max_iters": 3},
    ),
    "workers": (
        "orchestrator_workers",
        {"orchestrator": {**ask("plan", "judge"), **GATE}, "worker": ask("do {{ task }}"), "max_rounds": 2},
    ),
    "loop": (
        "graph",
        {
            "nodes": {"a": ask("a"), "b": {"tool": "note", "arguments": {"text": "b"}}, "review": HUMAN},
            "edges": [
                {"from": "a", "to": ["b", "review"]},
                {"from": "review", "to": "a", "when": "last_response == 'yes'"},
            ],
            "start": "a",
            "max_visits": 2,
        },
    ),
    "items": (
        "chain",
        {
            "steps": [
                ask("{{ item }}", foreach=["a", "b"]),
                {"workflow": "inner.yaml", "foreach": [1, 2]},
                {"tool": "note", "arguments": {"text": "{{ index }}"}, "foreach": [1, 2]},
            ]
        },
    ),
}
AGENTS = {
    "worker": {"prompt": "You work."},
    "judge": {"prompt": "You judge.", "tools": []},
    "clerk": {"prompt": "You count.", "output_schema": {"properties": {"n": {"type": "integer"}}}},
}


def answer(request: Request) -> Part | list[Part]:
    """Two calls for each question, then an answer that tells what was asked before."""
    said = [message for message in request.messages if message["role"] == "user"]
    if "summarise" in str(request.system_prompt):
        return f"summary of {len(request.prompt)} characters"
    if request.turn == 0 and "note" in request.tools:
        calls = [Call("note", {"text": f"{name} {request.prompt}"}, id=f"{len(said)}{name}") for name in "ab"]
        return [*calls]
    if "answer" in request.tools:
        schema = next(spec for spec in request.tool_specs if spec["name"] == "answer")["inputSchema"]["json"]
        given = fitting(schema)
        return Call("answer", {**given, "score": 10} if "score" in given else given, id=f"{len(said)}")
    return f"{len(said)}: {request.prompt[-30:]}"


class WrittenStore(MemoryStore):
    """Knows in which order rows came."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[tuple[str, bytes]] = []

    def put(self, run: str, fence: int, rows: Mapping[str, bytes]) -> None:
        self.written += rows.items()
        super().put(run, fence, rows)


async def agree(question: str) -> str:
    return "yes"


def go(
    flow: Durable, spec: Spec, store: MemoryStore, run_id: str = ""
) -> tuple[RunResult, list[str], set[str]]:
    """The result, what the model was asked, and which calls were made."""
    model, log = ScriptedModel(reply=answer, tokens=3000), flow.directory / "log.txt"
    log.write_text("")
    options = RunOptions(store=store, resume=run_id, model=model, ask_human=agree, directory=flow.directory)
    result = asyncio.run(run(spec, None, options))
    asked = [json.dumps([one.system_prompt, one.messages], sort_keys=True) for one in model.requests]
    return result, asked, {line.partition("/")[2].rpartition("/")[0] for line in log.read_text().splitlines()}


@pytest.mark.parametrize("case", CASES)
def test_a_run_that_ended_after_any_of_its_rows_comes_to_the_same_end(flow: Durable, case: str) -> None:
    kind, config = CASES[case]
    more = {
        "agents": AGENTS,
        "tools": {"python": ["./tools/note.py"]},
        "runtime": {"provider": "ollama", "max_parallel": 2},
        "context_policy": {"compaction": {"when_tokens_over": 1000, "preserve_recent_messages": 2}},
    }
    flow.directory.joinpath("tools").mkdir()
    flow.directory.joinpath("tools/note.py").write_text(NOTE)
    inner = flow.document("chain", {"steps": [ask("in"), ask("more")]}, **more)
    flow.directory.joinpath("inner.yaml").write_text(yaml.safe_dump(inner))
    spec = flow.spec(kind, config, **more)
    store = WrittenStore()
    whole, asked, made = go(flow, spec, store)
    for count in range(BEGUN, len(store.written) + 1):
        rows, rest = dict(store.written[:count]), MemoryStore()
        fence = rest.take(whole.run_id)
        rest.put(whole.run_id, fence, rows)
        rest.release(whole.run_id, fence)
        result, asked_again, made_again = go(flow, spec, rest, whole.run_id)
        after = f"after {count} rows, the last of them {store.written[count - 1][0]}"
        assert [*map(outcome, result.steps)] == [*map(outcome, whole.steps)], after
        assert (result.last_response, result.usage) == (whole.last_response, whole.usage), after
        answered = sum("/model/" in key or "/summary/" in key for key in rows)
        assert (len(asked_again), set(asked_again) - set(asked)) == (len(asked) - answered, set()), after
        assert made_again == made - {key.replace("/tool/", "/") for key in rows if "/tool/" in key}, after
        assert rest.load(whole.run_id).keys() == store.load(whole.run_id).keys(), after


def outcome(step: Any) -> tuple[Any, ...]:
    return step.key, step.response, step.output, step.usage
