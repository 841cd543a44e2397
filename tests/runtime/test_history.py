"""Messages that are cheap to copy are messages like any other."""

import json
from copy import deepcopy
from typing import Any

import pytest

from strands_cli.runtime.model_requests import QuickHistory
from tests.fakes import tool_call
from tests.runtime.agents import Setting, add

HISTORY = [{"role": "user", "content": [{"toolUse": {"input": {"a": [1, {"b": b"x"}]}}}]}]


def test_the_messages_of_an_equipped_agent_are_quick_to_copy() -> None:
    setting = Setting(add)
    setting.turn(tool_call("add", a=1))
    assert type(setting.agent.messages) is QuickHistory
    assert json.loads(json.dumps(setting.agent.messages)) == setting.agent.messages


@pytest.mark.parametrize("more", [{}, {"object": {1, 2}.__contains__}], ids=["JSON", "an object in it"])
def test_a_copy_shares_nothing_that_can_change(more: dict[str, Any]) -> None:
    made = QuickHistory([{**HISTORY[0], **more}])
    copied = deepcopy(made)
    assert copied == made
    assert type(copied) is QuickHistory
    copied[0]["content"][0]["toolUse"]["input"]["a"][1]["b"] = "changed"
    copied.append({})
    assert made[0]["content"][0]["toolUse"]["input"]["a"][1]["b"] == b"x"
    assert len(made) == 1
