"""Agents for tests: real ones, with tools of ours and a scripted model."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from strands import Agent

from strands_cli import CallContext, tool
from strands_cli.runtime.agent_hooks import AskConsent, PendingCall, equip
from strands_cli.runtime.tools import agent_tools
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.results import error_of
from tests.fakes import Part, ScriptedModel, history_problems


def spec(name: str, properties: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties or {}, **rest}
    return {"name": name, "description": f"The tool {name}", "inputSchema": {"json": schema}}


class Setting:
    """An agent of ours with a scripted model, and what it came to."""

    is_own = False

    def __init__(
        self,
        *tools: Any,
        context: CallContext | None = None,
        ask_consent: AskConsent | None = None,
        **options: Any,
    ) -> None:
        self.model = ScriptedModel()
        self.agent = Agent(model=self.model, tools=agent_tools(tools), callback_handler=None, **options)
        self.equipment = equip(
            self.agent, context=context or CallContext(), ask_consent=ask_consent, is_own=self.is_own
        )

    def turn(self, *parts: Part, **invocation: Any) -> list[dict[str, Any]]:
        """The results of one turn with these calls, in the order in which the model gets them."""
        return asyncio.run(self.turn_async(*parts, **invocation))

    async def turn_async(self, *parts: Part, **invocation: Any) -> list[dict[str, Any]]:
        self.model.enqueue(*parts).enqueue("done")
        result = await self.agent.invoke_async("go", **invocation)
        assert result.stop_reason == "end_turn"
        assert history_problems(self.agent.messages) == []
        return self.model.requests[-1].results


def code_of(result: dict[str, Any]) -> str | None:
    error = error_of(result)  # type: ignore[arg-type]
    return error["code"] if error else None


def codes(results: Sequence[Any]) -> list[str | None]:
    return [code_of(result) for result in results]


def text_of(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])


@tool(spec=spec("add", {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}}), blocking=False)
def add(a: int = 1, b: int = 2) -> int:
    return a + b


class Log:
    """Who ran when: tools that note their beginning and their end."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.most = 0
        self._running = 0

    def tool(self, name: str, seconds: float = 0.05, **options: Any) -> Tool:
        @tool(spec=spec(name, {"path": {"type": "string"}}, required=["path"]), **options)
        async def body(path: str) -> str:
            self._running += 1
            self.most = max(self.most, self._running)
            self.lines.append(f"+{name} {path}")
            await asyncio.sleep(seconds)
            self.lines.append(f"-{name} {path}")
            self._running -= 1
            return path

        return body


class Consent:
    """A user who is asked, and what they were asked."""

    def __init__(self, answer: bool | Collection[str]) -> None:
        self.answer = answer
        self.asked: list[list[tuple[str, dict[str, Any]]]] = []

    async def __call__(self, calls: Sequence[PendingCall]) -> list[str]:
        self.asked.append([(call.tool.id, call.arguments) for call in calls])
        if isinstance(self.answer, bool):
            return [call.call_id for call in calls] if self.answer else []
        return [call.call_id for call in calls if call.tool.id in self.answer]


def consent_tools() -> tuple[list[str], list[Tool]]:
    ran: list[str] = []

    def made(name: str) -> Tool:
        @tool(spec=spec(name, {"n": {"type": "integer"}}), requires_consent=True)
        def body(n: int = 0) -> str:
            ran.append(f"{name}{n}")
            return name

        return body

    return ran, [made("send"), made("delete")]


def answers(result: Any, text: str) -> list[Any]:
    return [{"interruptResponse": {"interruptId": item.id, "response": text}} for item in result.interrupts]
