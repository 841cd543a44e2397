"""The embedded model as the SDK takes one."""

import asyncio
import json
import secrets
import threading
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
from pydantic import BaseModel, ValidationError
from strands.models import Model
from strands.types.content import Messages
from strands.types.exceptions import ContextWindowOverflowException
from strands.types.streaming import StreamEvent
from strands.types.tools import ToolChoice, ToolSpec

from strands_cli.errors import ProviderError, StrandsError
from strands_cli.providers.choice import ModelChoice
from strands_cli.providers.local.decisions import LocalAnswer, LocalTurn, next_answer
from strands_cli.providers.local.engine import CONTEXT, Sampling, engine_for, thread_count
from strands_cli.providers.local.prompts import ToolEntry, spoken_text, tools_that_fit
from strands_cli.providers.local.weights import weights_file
from strands_cli.settings import load_settings

T = TypeVar("T", bound=BaseModel)

_ANSWER = "answer"


def local_model(choice: ModelChoice) -> Model:
    """The model that a choice means; its weights are loaded when it is first asked."""
    threads = thread_count(load_settings().local.threads)
    return LocalModel(weights_file(choice.model_id), sampling=Sampling(**choice.options()), threads=threads)


class LocalModel(Model):
    """Runs llama.cpp in this process. All instances for one file share its weights."""

    def __init__(self, file: Path, *, sampling: Sampling | None = None, threads: int = 1) -> None:
        self.file = file
        self.sampling = sampling or Sampling()
        self.threads = threads

    def update_config(self, **model_config: Any) -> None:
        self.sampling = msgspec.structs.replace(self.sampling, **model_config)

    def get_config(self) -> dict[str, Any]:
        named = {"model_id": self.file.stem, "context_window_limit": CONTEXT, "threads": self.threads}
        return {**named, **msgspec.structs.asdict(self.sampling)}

    async def stream(
        self,
        messages: Messages,
        tool_specs: list[ToolSpec] | None = None,
        system_prompt: str | None = None,
        *,
        tool_choice: ToolChoice | None = None,
        cancel_signal: threading.Event | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[StreamEvent, None]:
        forced = cast("dict[str, Any]", tool_choice or {})
        tools, must_call = cast("list[ToolEntry]", tool_specs or []), "tool" in forced
        if must_call:
            tools = [spec for spec in tools if spec["name"] == forced["tool"]["name"]]
        else:
            must_call = "any" in forced and bool(tools)
            tools = tools_that_fit(tools, spoken_text(messages))
        started = time.monotonic()
        yield {"messageStart": {"role": "assistant"}}
        in_text = False
        async for item in self._answer(messages, system_prompt, tools, must_call, cancel_signal):
            if isinstance(item, str):
                if not in_text:
                    in_text = True
                    yield {"contentBlockStart": {"start": {}}}
                yield {"contentBlockDelta": {"delta": {"text": item}}}
                continue
            if in_text:
                yield {"contentBlockStop": {}}
            for event in _ending_events(item, int(1000 * (time.monotonic() - started))):
                yield event

    async def structured_output(
        self,
        output_model: type[T],
        prompt: Messages,
        system_prompt: str | None = None,
        **kwargs: Any,
    ) -> AsyncGenerator[dict[str, T | Any], None]:
        schema = output_model.model_json_schema()
        description = schema.get("description", "Give the answer in this form.")
        spec: ToolEntry = {"name": _ANSWER, "description": description, "inputSchema": {"json": schema}}
        async for item in self._answer(prompt, system_prompt, [spec], must_call=True):
            if isinstance(item, LocalAnswer) and item.call is not None:
                try:
                    output = output_model.model_validate(item.call.arguments)
                except ValidationError as error:
                    reason = f"does not fit {output_model.__name__}: {error}"
                    raise ProviderError(f"The embedded model's answer {reason}") from None
                yield {"output": output}
                return
        raise ProviderError(f"The embedded model's answer does not end in a whole {output_model.__name__}.")

    async def _answer(
        self,
        messages: Messages,
        system: str | None,
        tools: list[ToolEntry],
        must_call: bool,
        cancel_signal: threading.Event | None = None,
    ) -> AsyncGenerator[str | LocalAnswer, None]:
        """The model's next answer, made in a thread: each piece of text as it comes, then the whole.

        Whoever stops listening, or sets the signal, stops the engine at its next token.
        """
        items: asyncio.Queue[str | LocalAnswer | Exception | None] = asyncio.Queue()
        loop, left = asyncio.get_running_loop(), threading.Event()

        def put(item: str | LocalAnswer | Exception | None) -> None:
            if not left.is_set():
                loop.call_soon_threadsafe(items.put_nowait, item)

        def is_cancelled(_: str) -> bool:
            return left.is_set() or (cancel_signal is not None and cancel_signal.is_set())

        def on_text(text: str) -> bool:
            put(text)
            return is_cancelled(text)

        turn = LocalTurn(
            messages=messages,
            system=system or "",
            tools=tools,
            must_call=must_call,
            sampling=self.sampling,
            stopping=is_cancelled,
        )

        def work() -> None:
            try:
                put(next_answer(engine_for(self.file, self.threads), turn, on_text))
            except (StrandsError, ContextWindowOverflowException, OSError) as error:
                put(error)
            finally:
                put(None)

        threading.Thread(target=work, name="strands-local-model", daemon=True).start()
        try:
            while (item := await items.get()) is not None:
                if isinstance(item, Exception):
                    raise item
                yield item
                if isinstance(item, LocalAnswer):
                    return
        finally:
            left.set()
        raise ProviderError("The embedded model's engine exited without an answer.")


def _ending_events(answer: LocalAnswer, milliseconds: int) -> list[StreamEvent]:
    """What follows the text: the call, the reason for stopping, and the counts."""
    events: list[StreamEvent] = []
    if answer.call is not None:
        use: Any = {"toolUse": {"name": answer.call.name, "toolUseId": f"local_{secrets.token_hex(8)}"}}
        written = json.dumps(answer.call.arguments, ensure_ascii=False)
        events += [
            {"contentBlockStart": {"start": use}},
            {"contentBlockDelta": {"delta": {"toolUse": {"input": written}}}},
            {"contentBlockStop": {}},
        ]
    cut = answer.call is None and answer.completions[-1].cut
    events.append(
        {"messageStop": {"stopReason": "tool_use" if answer.call else "max_tokens" if cut else "end_turn"}}
    )
    read = max(completion.prompt_tokens for completion in answer.completions)
    written_tokens = sum(completion.completion_tokens for completion in answer.completions)
    usage: Any = {"inputTokens": read, "outputTokens": written_tokens, "totalTokens": read + written_tokens}
    events.append({"metadata": {"usage": usage, "metrics": {"latencyMs": milliseconds}}})
    return events
