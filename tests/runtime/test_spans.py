"""The SDK's own spans tell nothing of what people, models and tools say."""

import json

import pytest

from strands_cli.runtime.tools import redact_sdk_spans
from tests.runtime.spans import exported_spans

EVERYTHING = """
from strands import Agent
from strands_cli import ToolContext, ToolFailed, tool
from strands_cli.runtime.agent_hooks import equip
from strands_cli.runtime.tools import agent_tools
from tests.runtime.agents import answers, spec
S = "s3cret"
X = {"x": {"type": "string"}}

@tool(spec=spec("give", X))
def give(x=""):
    return x

@tool(spec=spec("crash", X))
def crash(x=""):
    raise ValueError(x)

@tool(spec=spec("refuse", X))
def refuse(x=""):
    raise ToolFailed(x)

@tool(spec=spec("ask", X))
def ask(context: ToolContext, x=""):
    return context.interrupt("sure?", x)

calls = [tool_call(name, x=S) for name in ("give", "crash", "refuse", "ask", "unknown")]
calls += [tool_call("give", y=S), Call("give", S), Call("no name", S)]
model = ScriptedModel().enqueue(S, *calls).enqueue(S)
tools = agent_tools([give, crash, refuse, ask])
agent = Agent(model=model, tools=tools, callback_handler=None, system_prompt=S)
equip(agent)
agent(answers(agent(S, invocation_state={"z": S}), S))
"""

CONVENTIONS = ["", "gen_ai_latest_experimental", "gen_ai_latest_experimental,gen_ai_span_attributes_only"]


@pytest.mark.parametrize("opt_in", CONVENTIONS)
def test_no_span_of_the_sdk_tells_what_was_said(opt_in: str) -> None:
    spans = exported_spans(EVERYTHING, opt_in)
    assert "s3cret" not in json.dumps(spans)
    told = {span["status"].get("description") for span in spans if span["name"].startswith("execute_tool")}
    assert told >= {"crashed", "failed", "input_invalid", "input_malformed"}, "the code is told"


def test_what_the_user_chose_to_show_is_shown() -> None:
    spans = exported_spans(EVERYTHING, "gen_ai_unredacted_attributes=gen_ai.input.messages")
    assert "s3cret" in json.dumps(spans)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "gen_ai_unredacted_attributes="),
        ("", "gen_ai_unredacted_attributes="),
        (
            "http, gen_ai_latest_experimental",
            "http, gen_ai_latest_experimental,gen_ai_unredacted_attributes=",
        ),
        (" gen_ai_unredacted_attributes=a;b,http", " gen_ai_unredacted_attributes=a;b,http"),
    ],
)
def test_what_the_user_set_is_kept(before: str | None, after: str) -> None:
    name = "OTEL_SEMCONV_STABILITY_OPT_IN"
    environment = {} if before is None else {name: before}
    redact_sdk_spans(environment)
    redact_sdk_spans(environment)
    assert environment == {name: after}
