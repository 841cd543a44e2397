"""A model of the SDK's that makes calls, for the scripts that use the SDK."""

import json
from collections.abc import AsyncIterator
from typing import Any

from strands.models import Model
from worker import ARGUMENTS


class Calling(Model):
    """Calls a tool so often in each of so many turns, then answers."""

    def __init__(self, tool: str, turns: int, calls: int) -> None:
        self.tool, self.turns, self.calls = tool, turns, calls

    def update_config(self, **_: Any) -> None:
        """It has none."""

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncIterator[Any]:
        done = len(messages) // 2
        is_over = done >= self.turns
        yield {"messageStart": {"role": "assistant"}}
        for number in range(0 if is_over else self.calls):
            use = {"toolUseId": f"t{done}-{number}", "name": self.tool}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(ARGUMENTS)}}}}
            yield {"contentBlockStop": {}}
        if is_over:
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if is_over else "tool_use"}}
        usage = {"inputTokens": 5, "outputTokens": 5, "totalTokens": 10}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}
