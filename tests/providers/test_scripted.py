"""`provider: scripted`: a workflow whose answers come from a file."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from strands_cli.capability import check_capability
from strands_cli.errors import Interrupted, Paused, ProviderError
from strands_cli.events import ModelRetried, ModelStarted
from strands_cli.exec.run import run, run_sync
from strands_cli.exec.steps import RunOptions
from strands_cli.exec.stores import MemoryStore
from strands_cli.loader import load_spec
from strands_cli.providers.choice import model_of
from strands_cli.toolkit.cancellation import Cancellation
from tests.projects import Project

FLOW = """\
version: 0
name: flow
runtime: {provider: scripted, failure_policy: {retries: 2, wait_s: 0.01}RUNTIME}
tools: {python: [strands_cli.tools.echo.echo]}
agents:
  writer: {prompt: You write.}
  CRITIC
pattern:
  type: chain
  config:
    steps: STEPS
"""
ONE = "[{agent: writer, input: Summarise owls}]"
TWO = "[{agent: writer, input: Summarise owls}, {agent: critic, input: 'Judge: {{ last_response }}'}]"


def written(project: Project, script: str, steps: str = ONE, *, runtime: str = "") -> str:
    project.write("answers.yaml", script)
    critic = "critic: {prompt: You judge., tools: []}" if "critic" in steps else ""
    text = FLOW.replace("STEPS", steps).replace("RUNTIME", runtime).replace("CRITIC", critic)
    return str(project.write("flow.yaml", text))


def answer(project: Project, script: str, steps: str = ONE) -> str:
    return run_sync(written(project, script, steps)).last_response


# --- answers ----------------------------------------------------------------------------------------------


def test_a_list_is_given_in_order_over_the_whole_run(project: Project) -> None:
    assert answer(project, "[Owls fly., Good.]", TWO) == "Good."


def test_a_list_continues_after_a_resume_where_it_was(project: Project) -> None:
    calls = "{error: server}, One., {call: echo, with: {message: a}}, Two., Three."
    script = f"[{{when: Judge, answers: [Good.]}}, {calls}]"
    asked = "[SAY, {agent: writer, input: Judge}, SAY, {human: {prompt: More?}}, SAY]"
    file = written(project, script, asked.replace("SAY", "{agent: writer, input: Say}"))
    assert answers_after_a_pause(file) == ["One.", "Good.", "Two.", "yes", "Three."]


def answers_after_a_pause(file: str | Path) -> list[str]:
    """Of a workflow with a question to a human."""
    store = MemoryStore()
    with pytest.raises(Paused) as paused:
        run_sync(file, options=RunOptions(store=store))
    resumed = RunOptions(store=store, resume=paused.value.run_id, ask_human=lambda _: asyncio.sleep(0, "yes"))
    return [step.response for step in run_sync(file, options=resumed).steps]


def test_a_summary_is_one_of_the_answers_that_a_resumed_list_goes_past(project: Project) -> None:
    read = f"{{call: echo, with: {{message: {'a' * 4000}}}}}"
    file = written(
        project,
        f"[{read}, {read}, A summary., One., Two.]",
        "[{agent: writer, input: Say}, {human: {prompt: More?}}, {agent: writer, conversation: fresh}]",
    )
    policy = "context_policy: {compaction: {when_tokens_over: 1000, preserve_recent_messages: 2}}\n"
    Path(file).write_text(Path(file).read_text() + policy)
    assert answers_after_a_pause(file) == ["One.", "yes", "Two."]


def test_any_name_of_a_route_is_counted_in_a_resumed_list(project: Project) -> None:
    project.write("answers.yaml", "[{output: {route: tried}}, One., Two.]")
    said = "{agent: writer, input: Say}"
    routes = f"{{tried: {{steps: [{said}, {{human: {{prompt: More?}}}}, {said}]}}}}"
    flow = FLOW.partition("pattern:")[0].replace("RUNTIME", "").replace("CRITIC", "")
    config = f"{{router: {{agent: writer}}, routes: {routes}}}"
    file = project.write("flow.yaml", f"{flow}pattern: {{type: routing, config: {config}}}\n")
    assert answers_after_a_pause(file)[1:] == ["One.", "yes", "Two."]


def test_the_command_runs_a_script_without_a_package_or_a_key(project: Project) -> None:
    written(project, "[{call: echo, with: {message: hoo}}, 'The tool says {{ result }}.']")
    outcome = project.strands("run", "flow.yaml", "--json")
    assert outcome.exit_code == 0, outcome
    assert outcome.json["last_response"] == "The tool says hoo."


def test_a_rule_is_chosen_by_the_prompt_and_the_system_prompt(project: Project) -> None:
    script = """
    - {when: Judge, system: You write, answers: [wrong]}
    - {when: Judge, system: You judge, answers: ['{{ prompt | upper }}']}
    - {answers: [Owls fly.]}
    """
    assert answer(project, script, TWO) == "JUDGE: OWLS FLY."


def test_the_answers_of_a_rule_are_counted_by_the_conversation(project: Project) -> None:
    script = """
    - when: Summarise
      answers:
        - {text: I look., calls: [{call: echo, with: {message: a}}, {call: echo, with: {message: b}}]}
        - {call: echo, with: {message: '{{ results | join("+") }}'}}
        - Done with {{ result }}.
    """
    steps = "[{agent: writer, input: Summarise owls}, {agent: writer, input: Summarise cats}]"
    result = run_sync(written(project, script, steps))
    assert [step.response for step in result.steps] == ["Done with a+b."] * 2


def test_eight_branches_at_once_get_their_own_answers(project: Project) -> None:
    project.write(
        "answers.yaml",
        "- answers: [{call: echo, with: {message: '{{ prompt }}'}, wait: 0.01}, 'It was {{ result }}']",
    )
    branches = ", ".join(f"{{id: b{n}, steps: [{{agent: writer, input: number {n}}}]}}" for n in range(8))
    flow = FLOW.partition("pattern:")[0].replace("RUNTIME", "").replace("CRITIC", "")
    project.write("flow.yaml", f"{flow}pattern: {{type: parallel, config: {{branches: [{branches}]}}}}\n")
    result = run_sync(project.root / "flow.yaml")
    assert [step.response for step in result.steps] == [f"It was number {n}" for n in range(8)]


def test_output_answers_an_agent_that_has_to_answer_with_data(project: Project) -> None:
    for schema, output in (
        ("{type: object, properties: {n: {type: integer}}, required: [n]}", {"n": 3}),
        ("{type: array, items: {type: string}}", ["a", "b"]),
    ):
        file = written(project, json.dumps([{"output": output}]))
        text = Path(file).read_text("utf-8")
        project.write("flow.yaml", text.replace("You write.", f"You write., output_schema: {schema}"))
        assert run_sync(file).output == output


def test_an_answer_costs_what_the_script_says(project: Project) -> None:
    script = "{tokens: {input: 100}, answers: [one, {text: two, tokens: {input: 1, output: 2}}]}"
    usage = run_sync(written(project, script, TWO)).usage
    assert (usage.input_tokens, usage.output_tokens) == (101, 7)


def test_the_script_may_be_named_by_the_file_and_by_the_command_line(project: Project) -> None:
    written(project, "[file]", runtime=", model_id: scripts/one.json")
    project.write("scripts/one.json", '["from one"]')
    project.write("scripts/two.yaml", "[from two]")
    assert "from one" in project.strands("run", "flow.yaml").out
    inside = project.root / "scripts"
    outcome = project.strands("run", "../flow.yaml", "--model", "two.yaml", cwd=inside)
    assert "from two" in outcome.out, outcome


def test_a_run_goes_on_with_the_script_that_was_named_on_the_command_line(project: Project) -> None:
    project.write("flows/flow.yaml", Path(written(project, "[x]", TWO)).read_text("utf-8"))
    project.write("here.yaml", "[{when: Summarise, answers: [Owls.]}, {answers: [{error: refused}]}]")
    options = ("--provider", "scripted", "--model", "here.yaml")
    assert project.strands("run", "flows/flow.yaml", *options).exit_code == 10
    project.write("here.yaml", "[{when: 'Judge: Owls.', answers: [Good.]}]")
    outcome = project.strands("resume", cwd=project.root / "flows")
    assert (outcome.exit_code, outcome.out) == (0, "Good.\n"), outcome


# --- failures on purpose ----------------------------------------------------------------------------------


def test_errors_come_before_the_answer_that_follows_them(project: Project) -> None:
    script = """
    - when: Summarise
      answers:
        - {error: throttled, text: slow down}
        - {call: echo, with: {message: hoo}}
        - {error: connection}
        - {error: server}
        - Done.
    """
    seen: list[Any] = []
    result = run_sync(written(project, script), options=RunOptions(listeners=[seen.append]))
    assert result.last_response == "Done."
    reasons = [event.reason for event in seen if isinstance(event, ModelRetried)]
    assert len(reasons) == 3
    assert "slow down" in reasons[0]


def test_a_last_error_stays(project: Project) -> None:
    with pytest.raises(ProviderError, match=r"failed \(500\).*Gave up after 3 attempts"):
        answer(project, "[{when: Summarise, answers: [{error: server}]}]")


def test_a_request_that_is_refused_is_not_repeated(project: Project) -> None:
    with pytest.raises(ProviderError, match=r"rejected the credentials \(401\)"):
        answer(project, "[{error: credentials}, never]")


def test_an_error_may_wait_and_say_what_was_asked(project: Project) -> None:
    began = time.monotonic()
    with pytest.raises(ProviderError, match="no credit for Summarise owls"):
        answer(project, "- {answers: [{wait: 0.3, error: refused, text: 'no credit for {{ prompt }}'}]}")
    assert time.monotonic() - began >= 0.3
    assert answer(project, "- {answers: [{wait: 0.01, error: server}, {error: busy}, Fine.]}") == "Fine."


def test_an_answer_that_waits_is_ended_by_a_stop(project: Project) -> None:
    cancel = Cancellation()

    async def run_and_stop() -> None:
        def stop(event: Any) -> None:
            if isinstance(event, ModelStarted):
                asyncio.get_running_loop().call_soon(cancel.set)

        await run(
            written(project, "[{wait: 3000, text: late}]"),
            options=RunOptions(cancel=cancel, listeners=[stop]),
        )

    with pytest.raises(Interrupted):
        asyncio.run(run_and_stop())


# --- mistakes ---------------------------------------------------------------------------------------------


def test_a_prompt_without_a_rule_is_shown_with_the_nearest(project: Project) -> None:
    with pytest.raises(ProviderError) as raised:
        answer(project, "# one\n- {when: Judge, answers: [a]}\n- {when: Sumarise owls, answers: [b]}\n")
    assert raised.value.message == "No rule in answers.yaml matches the prompt 'Summarise owls'."
    assert "The closest is at answers.yaml:3: when 'Sumarise owls'." in raised.value.hint


def test_a_script_that_is_at_its_end_says_what_is_asked(project: Project) -> None:
    with pytest.raises(ProviderError, match="has no answer 2; the prompt is 'Judge: Owls"):
        answer(project, "[Owls fly.]", TWO)
    rule = "- {when: Summarise, answers: [{call: echo, with: {message: a}}]}"
    with pytest.raises(ProviderError, match=r"no answer 2 to the prompt 'Summarise owls'.*answers.yaml:1"):
        answer(project, rule)


@pytest.mark.parametrize(
    ("script", "place", "reason"),
    [
        ("- one\n- {when: x}\n", "answers.yaml:2:3  /1/answers", "The key 'answers' is missing."),
        ("- {cal: echo}\n", "answers.yaml:1:4  /0/cal", "There is no key 'cal' here."),
        ("- {error: slow}\n", "answers.yaml:1:4  /0/error", "must be one of"),
        ("- {error: server, tokens: {input: 1}}\n", "answers.yaml:1:19  /0/tokens", "There is no key"),
        ("- {with: {a: 1}}\n", "answers.yaml:1:3  /0/call", "The key 'call' is missing."),
        ("tokens: {input: 1}\n", "answers.yaml:1:1  /answers", "The key 'answers' is missing."),
        ("text\n", "answers.yaml:1:1", "A script must be"),
        ("[]\n", "answers.yaml:1:1", "at least 1 item"),
        ("- 'a {{ promt }}'\n", "answers.yaml:1:3  /0", "There is no name 'promt' here."),
        ("- {call: echo, with: {m: '{{ a b }}'}}\n", "answers.yaml:1:23  /0/with/m", "end of print"),
        ("- [\n", "answers.yaml:2", ""),
    ],
)
def test_a_mistake_in_a_script_is_told_with_its_place(
    project: Project, script: str, place: str, reason: str
) -> None:
    (issue,) = check_capability(load_spec(written(project, script))).issues
    assert issue.place.removeprefix(f"{project.root}/").startswith(place)
    assert reason in issue.reason
    assert issue.remediation


def test_a_run_with_a_mistake_in_its_script_does_not_begin(project: Project) -> None:
    written(project, "- {cal: echo}\n")
    for command in ("validate", "run"):
        outcome = project.strands(command, "flow.yaml")
        assert outcome.exit_code == 18
        assert "answers.yaml:1:4  /0/cal" in outcome.out + outcome.err
        assert "Did you mean 'call'?" in outcome.out + outcome.err


def test_a_script_is_a_file_of_the_project(project: Project) -> None:
    (project.root.parent / "other.yaml").write_text("[secret]")
    (project.root / "link.yaml").symlink_to("../other.yaml")
    for name, reason in (
        ("../other.yaml", "The file is outside the project."),
        ("link.yaml", "The file is outside the project."),
        ("none.yaml", "none.yaml not found."),
    ):
        file = written(project, "[x]", runtime=f", model_id: {name}")
        assert [issue.reason for issue in check_capability(load_spec(file)).issues] == [reason]


def test_every_command_knows_the_provider(project: Project) -> None:
    written(project, "[x]")
    assert project.strands("validate", "--strict", "flow.yaml").exit_code == 0
    assert "scripted answers.yaml" in project.strands("plan", "flow.yaml").out
    explained = " ".join(project.strands("explain", "flow.yaml").out.split())
    assert "results of tools go to scripted answers.yaml, which is on this machine" in explained


def test_the_spec_names_the_script_from_its_own_directory(project: Project) -> None:
    choice = model_of(load_spec(written(project, "[x]", runtime=", model_id: one.yaml")), "writer")
    assert choice is not None
    assert choice.directory / (choice.model_id or "") == project.root / "one.yaml"
