"""What a hostile or unlucky world does to a run: each test is an attack that a run has to withstand."""

import asyncio
import gc
import json
import os
import pty
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from strands import Agent

from strands_cli.capability import check_capability
from strands_cli.errors import AnswerError, ArtifactError, BudgetExceeded, Paused, ProviderError, StrandsError
from strands_cli.events import Event, ModelStarted, ModelText, RunFinished, StepFinished
from strands_cli.exec.run import run, run_sync
from strands_cli.exec.steps import RunOptions
from strands_cli.runtime.agent_hooks import PendingCall
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.tools import get_registry
from tests.exec.flows import Flow, steps
from tests.fakes import Call, Pause, ScriptedModel, tool_call
from tests.projects import Project
from tests.standins import BedrockStandin, OllamaStandin, OpenAIStandin
from tests.standins.anthropic import AnthropicStandin
from tests.standins.base import Status

pytestmark = pytest.mark.long

ONE = {"steps": steps("go")}
TWO = {"steps": steps("a", "{{ last_response }}")}
HUMAN = {"steps": [{"human": {"prompt": "{{ i }}?"}}, {"agent": "worker", "input": "x"}]}
SECRET = "s3cr3t-value-of-the-test"
ENV = {"secrets": [{"name": "SEC"}]}
JUDGE = {
    "judge": {
        "prompt": "x",
        "output_schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    }
}
JUDGED = {"steps": [{"agent": "judge", "input": "x"}]}
FLOW = """\
version: 0
name: flow
runtime: {provider: ollama, failure_policy: {retries: 0}}
tools: {python: [echo]}
agents: {a: {prompt: x}}
pattern: {type: chain, config: {steps: [{agent: a, input: x}, {agent: a, input: "{{ last_response }}"}]}}
"""
PATIENCE_SECONDS = 3.0


@pytest.fixture
def flow(inside: Project) -> Flow:
    return Flow(inside.root)


def asked(model: ScriptedModel, number: int = -1) -> str:
    return model.requests[number].prompt


def budget(**limits: Any) -> dict[str, Any]:
    return {"provider": "ollama", "budgets": limits, "failure_policy": {"retries": 0}}


async def late_human(question: str) -> str:
    await asyncio.sleep(PATIENCE_SECONDS + 2)
    return "late"


async def late_consent(calls: Sequence[PendingCall]) -> list[str]:
    await asyncio.sleep(PATIENCE_SECONDS + 2)
    return [pending.call_id for pending in calls]


# --- Answers that get lost or come out wrong --------------------------------------------------------------


def test_tasks_are_seen_in_the_order_of_the_file_whichever_ends_first(
    flow: Flow, model: ScriptedModel
) -> None:
    model.enqueue(Pause(0.2), "slow").enqueue("fast").enqueue("end")
    listing = "{% for name, task in tasks.items() %}{{ name }}={{ task.response }};{% endfor %}"
    tasks = [
        {"id": "a", "agent": "worker", "input": "a"},
        {"id": "b", "agent": "worker", "input": "b"},
        {"id": "c", "agent": "worker", "needs": ["a", "b"], "input": listing},
    ]
    flow.run("workflow", {"tasks": tasks})
    assert asked(model) == "a=slow;b=fast;"


def test_a_worker_without_an_input_of_its_own_is_given_its_task(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("answer", tasks=["count the owls"])).enqueue("3")
    flow.run("orchestrator_workers", {"orchestrator": {"agent": "o", "input": "x"}, "worker": {"agent": "w"}})
    assert "count the owls" in asked(model)


@pytest.mark.parametrize("kind", ["parallel", "workflow", "orchestrator_workers"])
def test_a_step_after_several_others_without_an_input_is_given_their_answers_or_is_reported(
    flow: Flow, model: ScriptedModel, kind: str
) -> None:
    last: dict[str, Any] = {"agent": "last"}
    worker = {"agent": "w", "input": "{{ task }}"}
    config: dict[str, dict[str, Any]] = {
        "parallel": {
            "branches": [{"id": name, "steps": steps(name)} for name in ("a", "b")],
            "reduce": last,
        },
        "workflow": {
            "tasks": [
                *({"id": name, "agent": "w", "input": name} for name in ("a", "b")),
                {"id": "c", "needs": ["a", "b"], **last},
            ]
        },
        "orchestrator_workers": {
            "orchestrator": {"agent": "o", "input": "x"},
            "worker": worker,
            "reduce": last,
        },
    }
    if kind == "orchestrator_workers":
        model.enqueue(tool_call("answer", tasks=["a", "b"]))
    model.enqueue("first").enqueue("second").enqueue("end")
    spec = flow.spec(kind, config[kind])
    flow.run_spec(spec)
    is_given = "first" in asked(model) and "second" in asked(model)
    assert is_given or check_capability(spec).issues


def test_the_answers_of_a_run_whose_artifact_cannot_be_written_are_kept(
    flow: Flow, model: ScriptedModel
) -> None:
    model.default_answer = "precious"
    outputs = {"artifacts": [{"path": "out.txt", "from": "{{ 1 / (last_response | length - 8) }}"}]}
    with pytest.raises(ArtifactError) as failed:
        run_sync(flow.spec("chain", ONE, outputs=outputs), None, RunOptions(directory=flow.directory))
    assert failed.value.kept is not None
    assert failed.value.kept.last_response == "precious"


def test_artifacts_go_to_the_directory_of_the_beginning_whatever_a_tool_does_to_the_current_one(
    flow: Flow, model: ScriptedModel, inside: Project
) -> None:
    (inside.root / "elsewhere").mkdir()
    inside.tool("wander", "def wander(tool, **kw): os.chdir('elsewhere')")
    get_registry().refresh()
    model.enqueue(tool_call("wander")).enqueue("ok")
    outputs = {"artifacts": [{"path": "out.txt", "from": "x"}]}
    try:
        run_sync(flow.spec("chain", ONE, tools={"python": ["wander"]}, outputs=outputs))
    finally:
        os.chdir(inside.root)
    assert (inside.root / "out.txt").exists()


@pytest.mark.parametrize("reason", ["refusal", "model_context_window_exceeded"])
def test_an_answer_that_the_provider_refused_or_cut_off_is_no_answer(project: Project, reason: str) -> None:
    class Stopping(AnthropicStandin):
        def closing(self, is_asking: bool) -> Any:
            for frame in super().closing(is_asking):
                yield frame.replace(b'"end_turn"', json.dumps(reason).encode())

    project.write("flow.yaml", FLOW)
    with Stopping() as standin:
        standin.enqueue("I").enqueue("more")
        outcome = project.strands(
            "run", "flow.yaml", "--provider", "anthropic", "--host", standin.url, ANTHROPIC_API_KEY="k"
        )
    assert outcome.exit_code == 10, outcome


# --- Runs that do not end ---------------------------------------------------------------------------------


def test_the_time_of_a_run_is_over_also_while_a_person_is_asked(flow: Flow, model: ScriptedModel) -> None:
    spec = flow.spec("chain", HUMAN, inputs={"values": {"i": 1}}, runtime=budget(max_duration_s=0.2))
    started = monotonic()
    with pytest.raises(BudgetExceeded):
        run_sync(spec, None, RunOptions(directory=flow.directory, ask_human=late_human))
    assert monotonic() - started < PATIENCE_SECONDS


def test_a_run_is_stopped_from_outside_also_while_a_person_is_asked(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "ok"
    cancel = Cancellation()

    async def go() -> None:
        asyncio.get_running_loop().call_later(0.2, cancel.set)
        options = RunOptions(directory=flow.directory, ask_human=late_human, cancel=cancel)
        await run(flow.spec("chain", HUMAN, inputs={"values": {"i": 1}}), None, options)

    started = monotonic()
    with pytest.raises(StrandsError) as ended:
        asyncio.run(go())
    assert ended.value.exit_code == 130
    assert monotonic() - started < PATIENCE_SECONDS


def test_a_branch_that_fails_ends_the_question_of_another(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(ConnectionRefusedError("x"))
    branches = [{"id": "h", "steps": [{"human": {"prompt": "?"}}]}, {"id": "b", "steps": steps("b")}]
    started = monotonic()
    with pytest.raises(ProviderError):
        run_sync(
            flow.spec("parallel", {"branches": branches}),
            None,
            RunOptions(directory=flow.directory, ask_human=late_human),
        )
    assert monotonic() - started < PATIENCE_SECONDS


def test_the_time_of_a_run_is_over_also_while_consent_is_asked(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("echo", message="x")).enqueue("ok")
    spec = flow.spec(
        "chain",
        ONE,
        tools={"python": ["echo"]},
        security={"consent": {"echo": "ask"}},
        runtime=budget(max_duration_s=0.2),
    )
    started = monotonic()
    with pytest.raises(BudgetExceeded):
        run_sync(spec, None, RunOptions(directory=flow.directory, ask_consent=late_consent))
    assert monotonic() - started < PATIENCE_SECONDS


def test_a_model_that_does_not_let_go_cannot_hide_why_the_run_ended(flow: Flow) -> None:
    class Clinging(ScriptedModel):
        async def stream(self, *given: Any, **named: Any) -> Any:
            try:
                yield {"messageStart": {"role": "assistant"}}
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(PATIENCE_SECONDS)

    with pytest.raises(BudgetExceeded):
        flow.run("chain", ONE, model=Clinging(), runtime=budget(max_duration_s=0.2))


# --- Budgets ----------------------------------------------------------------------------------------------


def test_a_budget_is_looked_at_before_a_model_is_asked_for_fitting_data_again(
    flow: Flow, model: ScriptedModel
) -> None:
    model.default_answer = "no data"
    with pytest.raises(BudgetExceeded):
        flow.run("chain", JUDGED, agents=JUDGE, runtime=budget(max_tokens=5))
    assert len(model.requests) == 1


def test_a_budget_is_looked_at_after_a_summary(flow: Flow, model: ScriptedModel) -> None:
    model.tokens = 3000
    model.enqueue(tool_call("echo", message="x" * 4000)).enqueue(tool_call("echo", message="x" * 4000))
    model.enqueue("a summary").enqueue("the answer")
    compaction = {"when_tokens_over": 1000, "preserve_recent_messages": 2}
    with pytest.raises(BudgetExceeded):
        flow.run(
            "chain",
            ONE,
            tools={"python": ["echo"]},
            context_policy={"compaction": compaction},
            runtime=budget(max_tokens=8000),
        )
    assert len(model.requests) == 3


# --- Secrets ----------------------------------------------------------------------------------------------


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SEC", SECRET)
    return SECRET


def told(error: BaseException) -> str:
    return (
        f"{error} {getattr(error, 'message', '')} {getattr(error, 'hint', '')} {getattr(error, 'kept', '')}"
    )


def test_no_secret_is_told_by_an_answer_that_does_not_fit(
    flow: Flow, model: ScriptedModel, secret: str
) -> None:
    model.default_answer = json.dumps({"a": secret})
    with pytest.raises(AnswerError) as failed:
        flow.run("chain", JUDGED, agents=JUDGE, env=ENV)
    assert secret not in told(failed.value)


def test_no_secret_is_told_by_a_provider_that_fails(flow: Flow, model: ScriptedModel, secret: str) -> None:
    model.enqueue(ConnectionRefusedError(f"refused {secret}"))
    with pytest.raises(ProviderError) as failed:
        flow.run("chain", ONE, env=ENV)
    assert secret not in told(failed.value)


def test_no_secret_is_told_by_a_question_that_nobody_answers(
    flow: Flow, model: ScriptedModel, secret: str
) -> None:
    with pytest.raises(Paused) as paused:
        flow.run("chain", HUMAN, env=ENV, inputs={"values": {"i": secret}})
    assert secret not in told(paused.value)


def test_a_secret_that_a_person_types_is_in_no_result(flow: Flow, model: ScriptedModel, secret: str) -> None:
    async def human(question: str) -> str:
        return f"it is {secret}"

    agents = {"a": {"prompt": "x"}}
    only = {"steps": HUMAN["steps"][:1]}
    spec = flow.spec("chain", only, env=ENV, inputs={"values": {"i": 1}}, agents=agents)
    result = run_sync(spec, None, RunOptions(directory=flow.directory, ask_human=human))
    assert secret not in repr(result)


def test_the_key_of_a_provider_is_not_told_where_its_answer_repeats_it(project: Project) -> None:
    project.write("flow.yaml", FLOW)
    with OpenAIStandin() as openai:
        openai.enqueue(Status(401, "Incorrect API key provided: sk-the-key-of-the-test"))
        outcome = project.strands(
            "run",
            "flow.yaml",
            "--provider",
            "openai",
            "--host",
            openai.url,
            OPENAI_API_KEY="sk-the-key-of-the-test",
        )
    assert outcome.exit_code == 10, outcome
    assert "sk-the-key" not in outcome.out + outcome.err


def test_the_credentials_of_aws_are_told_neither_in_errors_nor_in_events(project: Project) -> None:
    secrets = {
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCY",
        "AWS_SESSION_TOKEN": "FwoGZXIvYXdzEBYaDHqa0AP+session",
    }
    project.write("flow.yaml", FLOW)
    with BedrockStandin() as bedrock:
        bedrock.enqueue(Status(400, f"The request was signed with {' and '.join(secrets.values())}"))
        bedrock.enqueue(f"Your keys are {' and '.join(secrets.values())}.").enqueue("Done.")
        flow = ("run", "flow.yaml", "--provider", "bedrock", "--host", bedrock.url, "--json")
        env = secrets | {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_REGION": "eu-west-1"}
        refused, done = project.strands(*flow, **env), project.strands(*flow, **env)
    assert (refused.exit_code, done.exit_code) == (10, 0), f"{refused}{done}"
    assert "signed with *** and ***" in refused.err
    for value in secrets.values():
        assert value not in refused.out + refused.err + done.out + done.err


# --- What models and servers send -------------------------------------------------------------------------


def run_with(project: Project, standin: Any, provider: str, *arguments: str) -> Any:
    project.write("flow.yaml", FLOW)
    with standin:
        return project.strands(
            "run",
            "flow.yaml",
            "--provider",
            provider,
            "--host",
            standin.url,
            *arguments,
            OPENAI_API_KEY="k",
            ANTHROPIC_API_KEY="k",
        )


@pytest.mark.parametrize(
    ("provider", "kind"),
    [("ollama", OllamaStandin), ("openai", OpenAIStandin), ("anthropic", AnthropicStandin)],
)
def test_half_a_character_in_an_answer_does_not_break_the_next_step(
    project: Project, provider: str, kind: type
) -> None:
    outcome = run_with(project, kind().enqueue("a\ud800b").enqueue("ok"), provider)
    assert (outcome.exit_code, outcome.out) == (0, "ok\n"), outcome


def test_a_server_that_counts_no_tokens_is_no_bug_of_ours(project: Project) -> None:
    class Uncounted(OpenAIStandin):
        def closing(self, is_asking: bool) -> Any:
            for frame in super().closing(is_asking):
                yield frame.replace(b'"prompt_tokens": 5', b'"prompt_tokens": null')

    outcome = run_with(project, Uncounted().enqueue("a").enqueue("ok"), "openai")
    assert outcome.exit_code in (0, 10), outcome


def test_a_tool_input_that_is_nested_too_deep_is_told_to_the_model(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(Call("echo", '{"message": ' + "[" * 5000)).enqueue("ok")
    assert flow.run("chain", ONE, tools={"python": ["echo"]}).last_response == "ok"


def test_a_line_of_a_server_that_is_nested_too_deep_is_an_answer_that_makes_no_sense(
    project: Project,
) -> None:
    class Deep(OllamaStandin):
        def words(self, text: str) -> Any:
            yield b"[" * 5000 + b"\n"

    assert run_with(project, Deep().enqueue("a"), "ollama").exit_code == 10


@pytest.mark.parametrize("host", ["http://[::1", "http://127.0.0.1:99999"])
def test_a_host_that_is_no_address_is_no_bug_of_ours(project: Project, host: str) -> None:
    project.write("flow.yaml", FLOW)
    outcome = project.strands("run", "flow.yaml", "--host", host)
    assert outcome.exit_code in (2, 3, 10), outcome
    assert "Traceback" not in outcome.err


def test_nothing_is_said_about_tasks_of_the_loop(project: Project) -> None:
    class Garbage(OllamaStandin):
        def words(self, text: str) -> Any:
            yield b"{}\n"

    outcome = run_with(project, Garbage().enqueue("a"), "ollama")
    assert outcome.exit_code == 10
    assert "Task was destroyed" not in outcome.err


# --- Streams and terminals --------------------------------------------------------------------------------


def in_shell(project: Project, redirections: str, *more: str) -> int:
    """The command with streams closed as a shell closes them."""
    project.write("flow.yaml", FLOW)
    with OllamaStandin().enqueue("a").enqueue("ok") as ollama:
        command = (
            f'exec "$0" -m strands_cli run flow.yaml --host {ollama.url} {" ".join(more)} {redirections}'
        )
        done = subprocess.run(
            ["sh", "-c", command, sys.executable],
            cwd=project.root,
            env=project.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
    return done.returncode


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_make_no_bug_of_a_run(project: Project, closed: str) -> None:
    assert in_shell(project, closed) in ((0, 12) if ">&-" in closed.split() else (0,))


def on_terminal(
    project: Project, *arguments: str, closed: bool = False, ahead: bytes = b"", answer: bytes = b""
) -> tuple[int, str]:
    """The command with a terminal as its streams, maybe without standard error.

    `ahead` is typed before it begins, `answer` when it asks.
    """
    master, slave = pty.openpty()
    script = 'exec "$0" "$@" 2>&-' if closed else 'exec "$0" "$@"'
    os.write(master, ahead)
    process = subprocess.Popen(
        ["sh", "-c", script, sys.executable, "-m", "strands_cli", *arguments],
        cwd=project.root,
        env=project.environment,
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    said = b""
    while piece := _read(master):
        said += piece
        if answer and b"[y/N]" in said:
            os.write(master, answer)
            answer = b""
    os.close(master)
    return process.wait(60), said.decode("utf-8", "replace")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # as Linux tells that the other end is closed
        return b""


def test_an_answer_cannot_act_on_the_terminal(project: Project) -> None:
    project.write("flow.yaml", FLOW)
    with OllamaStandin().enqueue("a").enqueue("x\x1b]0;owned\x07\x1b[2Jy") as ollama:
        exit_code, said = on_terminal(project, "run", "flow.yaml", "--host", ollama.url)
    assert exit_code == 0
    assert "\x1b]0;owned" not in said
    assert "\x1b[2J" not in said


def test_a_terminal_without_standard_error_makes_no_bug_of_a_run(project: Project) -> None:
    project.write("flow.yaml", FLOW)
    with OllamaStandin().enqueue("a").enqueue("ok") as ollama:
        exit_code, said = on_terminal(project, "run", "flow.yaml", "--host", ollama.url, closed=True)
    assert exit_code == 0, said


def test_an_interrupt_in_the_middle_of_an_import_leaves_no_traceback() -> None:
    program = """
from strands_cli.cli.event_loop import run_async

async def main():
    raise KeyboardInterrupt

try:
    run_async(main())
except KeyboardInterrupt:
    pass
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_what_was_typed_before_the_question_is_no_consent(project: Project) -> None:
    project.write("flow.yaml", FLOW + "security: {consent: {echo: ask}}\n")
    with OllamaStandin() as ollama:
        ollama.enqueue(tool_call("echo", message="x")).enqueue("ok").enqueue("ok")
        exit_code, said = on_terminal(
            project, "run", "flow.yaml", "--host", ollama.url, ahead=b"y\n", answer=b"n\n"
        )
        results = [item for item in ollama.requests[1].body["messages"] if item["role"] == "tool"]
    assert exit_code == 0, said
    assert "refused" in json.dumps(results)


def test_ctrl_d_at_a_question_refuses_the_call_and_the_run_goes_on(project: Project) -> None:
    project.write("flow.yaml", FLOW + "security: {consent: {echo: ask}}\n")
    with OllamaStandin() as ollama:
        ollama.enqueue(tool_call("echo", message="x")).enqueue("ok").enqueue("ok")
        exit_code, said = on_terminal(project, "run", "flow.yaml", "--host", ollama.url, answer=b"\x04")
        results = [item for item in ollama.requests[1].body["messages"] if item["role"] == "tool"]
    assert exit_code == 0, said
    assert "refused" in json.dumps(results)


# --- Names in templates -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["items", "values", "keys", "get", "update", "copy", "clear", "pop"])
@pytest.mark.parametrize("kind", ["branches", "tasks", "nodes"])
def test_an_id_that_is_also_a_method_works_or_is_reported(
    flow: Flow, model: ScriptedModel, kind: str, name: str
) -> None:
    model.default_answer = "X"
    text = f"{{{{ {kind}.{name}.response }}}}"
    first, last = {"agent": "w", "input": "a"}, {"agent": "w", "input": text}
    patterns: dict[str, tuple[str, dict[str, Any]]] = {
        "branches": ("parallel", {"branches": [{"id": name, "steps": [first]}], "reduce": last}),
        "tasks": ("workflow", {"tasks": [{"id": name, **first}, {"id": "end", "needs": [name], **last}]}),
        "nodes": ("graph", {"nodes": {name: first, "end": last}, "edges": [{"from": name, "to": "end"}]}),
    }
    spec = flow.spec(*patterns[kind])
    if not check_capability(spec).errors:
        flow.run_spec(spec)
        assert asked(model) == "X"


def test_an_input_that_is_also_a_method_works(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "X"
    flow.run("chain", {"steps": steps("{{ inputs.items }}")}, inputs={"values": {"items": "mine"}})
    assert asked(model) == "mine"


def test_a_part_of_an_answer_that_is_also_a_method_works(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("answer", items=["p", "q"])).enqueue("ok")
    schema = {"type": "object", "properties": {"items": {"type": "array"}}}
    agents = {"judge": {"prompt": "x", "output_schema": schema}, "worker": {"prompt": "y"}}
    chain = [{"id": "s", "agent": "judge", "input": "x"}, *steps("{{ steps.s.output.items | join(',') }}")]
    flow.run("chain", {"steps": chain}, agents=agents)
    assert asked(model) == "p,q"


@pytest.mark.parametrize("text", ["{{ steps.items() }}", "{{ steps.get('a') }}", "{{ steps['0'].response }}"])
def test_what_validate_lets_pass_can_be_rendered(flow: Flow, model: ScriptedModel, text: str) -> None:
    model.default_answer = "X"
    spec = flow.spec("chain", {"steps": [{"id": "a", "agent": "worker", "input": "x"}, *steps(text)]})
    if not check_capability(spec).errors:
        flow.run_spec(spec)


# --- Keys without effect ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["routing", "orchestrator_workers"])
def test_an_output_schema_that_the_pattern_replaces_is_reported(flow: Flow, kind: str) -> None:
    first = {"agent": "judge", "input": "x"}
    config: dict[str, dict[str, Any]] = {
        "routing": {"router": first, "routes": {"one": {"steps": steps("a")}}},
        "orchestrator_workers": {"orchestrator": first, "worker": {"agent": "worker", "input": "{{ task }}"}},
    }
    spec = flow.spec(kind, config[kind], agents={**JUDGE, "worker": {"prompt": "x"}})
    assert any("output_schema" in issue.pointer for issue in check_capability(spec).issues)


@pytest.mark.parametrize(
    "given",
    [{"source": "env", "path": "./x"}, {"source": "file", "path": "strands.toml", "key": "HOME"}],
)
def test_a_key_that_a_secret_of_its_source_does_not_have_is_reported(
    flow: Flow, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    monkeypatch.setenv("SEC", SECRET)
    try:
        issues = check_capability(flow.spec("chain", ONE, env={"secrets": [{"name": "SEC", **given}]})).issues
    except StrandsError:
        return
    assert any(issue.pointer.startswith("/env/secrets/0") for issue in issues)


# --- Programs that use it ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [ModelStarted, ModelText])
def test_a_listener_that_fails_is_not_taken_for_a_provider_that_fails(
    flow: Flow, model: ScriptedModel, kind: type
) -> None:
    model.default_answer = "ok"

    def listener(event: Event) -> None:
        if isinstance(event, kind):
            raise BrokenPipeError("nobody reads")

    runtime = {"provider": "ollama", "failure_policy": {"retries": 1, "wait_s": 0.01}}
    try:
        run_sync(
            flow.spec("chain", ONE, runtime=runtime),
            None,
            RunOptions(directory=flow.directory, listeners=(listener,)),
        )
    except ProviderError as error:
        pytest.fail(f"told as: {error.message}")
    except BrokenPipeError:
        pass
    assert len(model.requests) <= 1


def test_a_run_leaves_nothing_behind_in_a_cancellation_that_outlives_it(
    flow: Flow, model: ScriptedModel
) -> None:
    model.default_answer = "ok"
    spec = flow.spec("chain", ONE)
    options = RunOptions(directory=flow.directory, cancel=Cancellation())

    def objects_after(number: int) -> int:
        for _ in range(number):
            run_sync(spec, None, options)
        model.requests.clear()
        gc.collect()
        return len(gc.get_objects())

    before = objects_after(5)
    assert objects_after(20) - before < 200


@pytest.mark.long
def test_a_step_that_has_ended_leaves_no_agent_behind(flow: Flow, model: ScriptedModel) -> None:
    model.default_answer = "ok"
    alive: list[int] = []

    def count(event: Event) -> None:
        if isinstance(event, StepFinished):
            gc.collect()
            alive.append(sum(isinstance(item, Agent) for item in gc.get_objects()))

    spec = flow.spec("chain", {"steps": steps(*["x"] * 8)})
    run_sync(spec, None, RunOptions(directory=flow.directory, listeners=(count,)))
    assert max(alive) <= min(alive) + 1


def test_a_run_whose_task_is_cancelled_says_that_it_was_interrupted(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(Pause(5), "x")
    events: list[Event] = []

    async def go() -> None:
        options = RunOptions(directory=flow.directory, listeners=(events.append,))
        await asyncio.wait_for(run(flow.spec("chain", ONE), None, options), 0.2)

    with pytest.raises(TimeoutError):
        asyncio.run(go())
    assert [event.outcome for event in events if isinstance(event, RunFinished)] == ["interrupted"]


def test_a_tool_that_the_workflow_denies_is_not_asked_about(flow: Flow, model: ScriptedModel) -> None:
    model.enqueue(tool_call("file_write", path="x", content="y")).enqueue("ok")
    questions: list[str] = []

    async def consent(calls: Sequence[PendingCall]) -> list[str]:
        questions.extend(pending.tool.id for pending in calls)
        return [pending.call_id for pending in calls]

    spec = flow.spec(
        "chain", ONE, tools={"python": ["file_write"]}, security={"consent": {"file_write": "deny"}}
    )
    run_sync(spec, None, RunOptions(directory=flow.directory, ask_consent=consent))
    assert questions == []
    assert not Path("x").exists()
