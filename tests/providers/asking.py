"""An agent as a run builds it, whose model is a real provider class at a stand-in."""

import asyncio
from importlib import import_module
from typing import Any, TypeVar

from strands import Agent
from strands.middleware import InvokeModelStage
from strands.models import Model

from strands_cli import CallContext
from strands_cli.events import Event, Listener
from strands_cli.providers.choice import ModelChoice, build_model
from strands_cli.runtime.agent_hooks import equip
from strands_cli.runtime.model_requests import Reporting, Retrying
from strands_cli.runtime.tools import agent_tools
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.types.sections import FailurePolicy, Inference
from tests.runtime.agents import add
from tests.standins import (
    AnthropicStandin,
    BedrockStandin,
    GeminiStandin,
    LlamaCppStandin,
    OllamaStandin,
    OpenAIStandin,
    Standin,
)

STANDINS: dict[str, type[Standin]] = {
    "anthropic": AnthropicStandin,
    "bedrock": BedrockStandin,
    "gemini": GeminiStandin,
    "llamacpp": LlamaCppStandin,
    "ollama": OllamaStandin,
    "openai": OpenAIStandin,
}
QUICK = FailurePolicy(retries=2, wait_s=0.01, max_wait_s=5)
E = TypeVar("E", bound=Event)


def choice_at(provider: str, standin: Standin, **inference: Any) -> ModelChoice:
    return ModelChoice(provider, "some-model", standin.url, None, Inference(**inference))


def impatient(choice: ModelChoice, read_seconds: float) -> Model:
    """The model of a choice, for a provider that may not be silent for long."""
    built: Model = import_module(f"strands_cli.providers.{choice.provider}").build(choice, read_seconds)
    return built


class Asking:
    """An equipped agent with one tool, and all that it says."""

    def __init__(
        self,
        choice: ModelChoice,
        *,
        policy: FailurePolicy = QUICK,
        cancel: Cancellation | None = None,
        model: Model | None = None,
        listener: Listener | None = None,
        tool: Any = add,
    ) -> None:
        self.events: list[Event] = []
        self.cancel = cancel or Cancellation()
        self._listener = listener
        self.agent = Agent(
            model=model or build_model(choice),
            tools=agent_tools([tool]),
            system_prompt="You add.",
            callback_handler=None,
            retry_strategy=None,
        )
        retrying = Retrying(policy, self.hear, "steps/0", self.cancel, choice)
        self.agent.add_middleware(InvokeModelStage, retrying.retry)
        equip(self.agent, context=CallContext(cancel=self.cancel))
        self.agent.add_middleware(InvokeModelStage, Reporting(self.hear, "steps/0", str(choice)).report)

    def hear(self, event: Event) -> None:
        self.events.append(event)
        if self._listener is not None:
            self._listener(event)

    def ask(self, prompt: str = "What is 2 and 3?") -> Any:
        return asyncio.run(self.agent.invoke_async(prompt))

    def heard(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]
