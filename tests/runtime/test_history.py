"""Messages that are cheap to copy are messages like any other."""

import json
from copy import deepcopy

from strands_cli.runtime.model_requests import QuickMessage
from tests.fakes import call
from tests.runtime.agents import Setting, add


def test_the_messages_of_an_equipped_agent_are_quick_to_copy() -> None:
    setting = Setting(add)
    setting.turn(call("add", a=1))
    assert {type(message) for message in setting.agent.messages} == {QuickMessage}
    assert json.loads(json.dumps(setting.agent.messages)) == setting.agent.messages


def test_a_copy_shares_nothing_that_can_change() -> None:
    made = QuickMessage({"role": "user", "content": [{"toolUse": {"input": {"a": [1, {"b": b"x"}]}}}]})
    copied = deepcopy(made)
    assert copied == made
    assert type(copied) is QuickMessage
    copied["content"][0]["toolUse"]["input"]["a"][1]["b"] = "changed"
    assert made["content"][0]["toolUse"]["input"]["a"][1]["b"] == b"x"
