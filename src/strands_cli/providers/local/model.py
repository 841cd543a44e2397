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
from strands_cli.providers.local.deciding import Call, Move, Turn, next_move
from strands_cli.providers.local.engine import CONTEXT, ContextExceeded, Sampling, engine_for
from strands_cli.providers.local.prompting import Spec, shortened, spoken
from strands_cli.providers.local.store import file_for
from strands_cli.providers.local.threads import thread_count
from strands_cli.settings import load_settings
from strands_cli.types.spec import Inference

T = TypeVar("T", bound=BaseModel)

_ANSWER = "answer"


def model_for(choice: ModelChoice) -> Model:
    """The model that a choice means; its weights are loaded when it is first asked."""
    file = file_for(choice.model_id)
    threads = thread_count(load_settings().local.threads)
    return LocalModel(file, sampling=_sampling(choice.inference), threads=threads)


def _sampling(inference: Inference) -> Sampling:
    said = {name: value for name, value in msgspec.structs.asdict(inference).items() if value is not None}
    return Sampling(**said)


class LocalModel(Model):
    """llama.cpp in this process. Every `LocalModel` of one file shares the weights, loaded once."""

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
        tools, must_call = _offered(cast("list[Spec]", tool_specs or []), tool_choice, messages)
        turn = Turn(
            messages=messages,
            system=system_prompt or "",
            tools=tools,
            must_call=must_call,
            sampling=self.sampling,
        )
        started = time.monotonic()
        yield {"messageStart": {"role": "assistant"}}
        in_text = False
        async for said in _played(self.file, self.threads, turn, cancel_signal):
            if isinstance(said, str) and not in_text:
                in_text = True
                yield {"contentBlockStart": {"start": {}}}
            if isinstance(said, str):
                yield {"contentBlockDelta": {"delta": {"text": said}}}
                continue
            if in_text:
                yield {"contentBlockStop": {}}
            for event in _ending(said, int(1000 * (time.monotonic() - started))):
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
        spec: Spec = {"name": _ANSWER, "description": description, "inputSchema": {"json": schema}}
        turn = Turn(
            messages=prompt,
            system=system_prompt or "",
            tools=[spec],
            must_call=True,
            sampling=self.sampling,
        )
        async for said in _played(self.file, self.threads, turn, None):
            if isinstance(said, Move) and said.call is not None:
                yield {"output": _validated(output_model, said.call)}
                return
        raise ProviderError(f"The embedded model's answer does not end in a whole {output_model.__name__}.")


def _validated(output_model: type[T], call: Call) -> T:
    try:
        return output_model.model_validate(call.arguments)
    except ValidationError as error:
        raise ProviderError(
            f"The embedded model's answer does not fit {output_model.__name__}: {error}"
        ) from None


def _offered(specs: list[Spec], choice: ToolChoice | None, messages: Messages) -> tuple[list[Spec], bool]:
    """The tools that may be called now, and whether one of them must be."""
    wanted = cast("dict[str, Any]", choice or {})
    if "tool" in wanted:
        name = wanted["tool"]["name"]
        return [spec for spec in specs if spec["name"] == name], True
    return shortened(specs, spoken(messages)), "any" in wanted and bool(specs)


def _ending(move: Move, milliseconds: int) -> list[StreamEvent]:
    """What follows the text: the call, the reason for stopping, and the counts."""
    events: list[StreamEvent] = []
    if move.call is not None:
        use: Any = {"toolUse": {"name": move.call.name, "toolUseId": f"local_{secrets.token_hex(8)}"}}
        written = json.dumps(move.call.arguments, ensure_ascii=False)
        events += [
            {"contentBlockStart": {"start": use}},
            {"contentBlockDelta": {"delta": {"toolUse": {"input": written}}}},
            {"contentBlockStop": {}},
        ]
    cut = move.call is None and move.completions[-1].cut
    events.append(
        {"messageStop": {"stopReason": "tool_use" if move.call else "max_tokens" if cut else "end_turn"}}
    )
    read = max(completion.prompt_tokens for completion in move.completions)
    written_tokens = sum(completion.completion_tokens for completion in move.completions)
    usage: Any = {"inputTokens": read, "outputTokens": written_tokens, "totalTokens": read + written_tokens}
    events.append({"metadata": {"usage": usage, "metrics": {"latencyMs": milliseconds}}})
    return events


async def _played(
    file: Path, threads: int, turn: Turn, cancel_signal: threading.Event | None
) -> AsyncGenerator[str | Move, None]:
    """The model's next move, made in a thread: each piece of text as it comes, then the move."""
    play = _Play(file, threads, turn, cancel_signal)
    threading.Thread(target=play.run, name="strands-local-model", daemon=True).start()
    try:
        while (item := await play.said.get()) is not None:
            if isinstance(item, ContextExceeded):
                raise ContextWindowOverflowException(str(item))
            if isinstance(item, Exception):
                raise item
            yield item
            if isinstance(item, Move):
                return
    finally:
        play.left.set()
    raise ProviderError("The embedded model's engine ended without an answer.")


class _Play:
    """One move on its way. Whoever stops listening stops it at its next token."""

    def __init__(self, file: Path, threads: int, turn: Turn, cancel_signal: threading.Event | None) -> None:
        self.said: asyncio.Queue[str | Move | Exception | None] = asyncio.Queue()
        self.left = threading.Event()
        self._loop = asyncio.get_running_loop()
        self._cancel_signal = cancel_signal
        self._turn = msgspec.structs.replace(turn, stopping=self._stopping)
        self._file, self._threads = file, threads

    def run(self) -> None:
        try:
            self._tell(next_move(engine_for(self._file, self._threads), self._turn, self._heard))
        except (StrandsError, ContextExceeded, OSError) as error:
            self._tell(error)
        finally:
            self._tell(None)

    def _heard(self, text: str) -> bool:
        self._tell(text)
        return self._stopping(text)

    def _stopping(self, _: str) -> bool:
        return self.left.is_set() or (self._cancel_signal is not None and self._cancel_signal.is_set())

    def _tell(self, item: str | Move | Exception | None) -> None:
        if not self.left.is_set():
            self._loop.call_soon_threadsafe(self.said.put_nowait, item)
