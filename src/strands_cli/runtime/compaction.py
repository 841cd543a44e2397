"""Compaction: older messages of a conversation that grows too long are replaced by a summary.

The SDK's own managers summarise too, before a request as well, but not as a workflow asks for it. Their limit
is a share of a window that the model must know, where ours is a number of tokens. They ask the model outside
of the agent, and wait for it in a thread while the loop stands still: without retries, events, usage and a
way to stop. The work is therefore done in two public hooks: before each request to the model, where the
conversation is over the limit; and after one that the model refused as too long, which is then made again.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, cast

from strands import Agent
from strands.agent.conversation_manager import ConversationManager, NullConversationManager
from strands.hooks import AfterModelCallEvent, BeforeModelCallEvent, HookRegistry
from strands.models import Model
from strands.types.content import ContentBlock, Message, Messages
from strands.types.exceptions import ContextWindowOverflowException, MaxTokensReachedException

from strands_cli.events import ContextCompacted, Event, Listener, ModelText
from strands_cli.runtime.model_output import message_text
from strands_cli.runtime.step_log import StepLog
from strands_cli.runtime.structured import canonical_json
from strands_cli.types.sections import Compaction

Prepare = Callable[[Agent, Listener, Iterator[str]], object]
"""Puts what a request to a model needs, such as retries and reports, on the agent that writes a summary.

It is also given the names of the answers in the log."""

SummaryModel = Callable[[], Model]
"""The model that writes summaries."""

CHARACTERS_PER_TOKEN = 4
SUMMARY_HEADING = "Summary of the conversation so far:"

_SMALLEST_SHARE = 0.1
"""Of the limit, what has to be won: else a conversation that cannot be shortened is summarised each turn."""
_FEWEST_KEPT = 2
_LONGEST_PART = 4000
"""Characters of one call, result or text that the summary is made from."""
SUMMARY_INSTRUCTION = (
    "You summarise the conversation of an agent at work, which will go on with your summary in its place. "
    "Keep what it needs: facts, figures, names, paths and results exactly as they are, decisions with their "
    "reasons, what has been done, what failed, and what is still to be done. Leave out what has been "
    "overtaken. Answer with the summary alone, as a list of points."
)


def conversation_manager(
    policy: Compaction | None,
    *,
    emit: Listener,
    step: str,
    prepare: Prepare,
    log: StepLog | None = None,
    model: SummaryModel | None = None,
) -> ConversationManager:
    """What looks after the length of a step's conversation; without a `model`, the agent's own summarises it.

    Without a policy nothing does: messages are never dropped in silence, and a conversation that the model
    refuses ends in the SDK's ContextWindowOverflowException.
    """
    if policy is None or not policy.enabled:
        return NullConversationManager()
    return Compactor(policy, emit=emit, step=step, prepare=prepare, log=log, model=model)


class Compactor(NullConversationManager):
    """Shortens the conversation of one agent, in its hooks alone.

    The first message, which holds the task, stays as it is, with the summary behind it; so do the last ones.
    """

    def __init__(
        self,
        policy: Compaction,
        *,
        emit: Listener,
        step: str,
        prepare: Prepare,
        log: StepLog | None = None,
        model: SummaryModel | None = None,
    ) -> None:
        super().__init__()
        self._model = model
        self._policy, self._emit, self._step, self._prepare = policy, emit, step, prepare
        self._log, self._answers, self._summaries = log, 0, 0

    def register_hooks(self, registry: HookRegistry, **options: Any) -> None:
        super().register_hooks(registry, **options)
        registry.add_callback(BeforeModelCallEvent, self.before_request)
        registry.add_callback(AfterModelCallEvent, self.after_request)

    async def before_request(self, event: BeforeModelCallEvent) -> None:
        """Compacts a conversation that is over the limit, if that saves something."""
        agent, size, limit = event.agent, event.projected_input_tokens, self._policy.when_tokens_over
        if await self._is_restored(agent):
            return
        if (_estimated_tokens(agent.messages) if size is None else size) <= limit:
            return
        cut = _first_kept_message(agent.messages, self._policy.preserve_recent_messages)
        if _estimated_tokens(agent.messages[1:cut]) >= limit * _SMALLEST_SHARE:
            await self._compact(agent, cut, limit)

    async def after_request(self, event: AfterModelCallEvent) -> None:
        """Compacts a conversation that the model refused, keeping ever fewer messages, and asks again."""
        self._answers += event.exception is None
        if not isinstance(event.exception, ContextWindowOverflowException):
            return
        agent = event.agent
        keep = self._policy.preserve_recent_messages
        while (cut := _first_kept_message(agent.messages, keep)) <= 1 and keep > _FEWEST_KEPT:
            keep = max(_FEWEST_KEPT, keep // 2)
        if cut > 1 and await self._compact(agent, cut, _estimated_tokens(agent.messages) // 2):
            event.retry = True

    async def _is_restored(self, agent: Agent) -> bool:
        """Brings the conversation to where it was before an answer that the log has; false if it has none."""
        if self._log is None:
            return False
        number = self._answers + 1
        while (row := self._log.get(f"compaction/{self._summaries + 1}")) and row["before"] == number:
            self._summaries += 1
            if self._log.get(self._summary_name) is not None:
                await self._summary(agent, "")  # which the log answers, so that it counts
            agent.messages[:] = row["messages"]
        return self._log.get(f"model/{number}") is not None

    async def _compact(self, agent: Agent, cut: int, max_tokens: int) -> bool:
        """Replaces the messages between the first and the cut with a summary; false if the model gave none.

        `max_tokens` is how long the request for the summary may be.
        """
        messages = agent.messages
        before = len(messages)
        first, earlier = _without_summary(messages[0])
        request = _summary_request(first, earlier, messages[1:cut], max_tokens * CHARACTERS_PER_TOKEN)
        self._summaries += 1
        summary = await self._summary(agent, request)
        if summary is None:
            return False
        if summary:
            block: ContentBlock = {"text": f"{SUMMARY_HEADING}\n{summary}"}
            messages[:cut] = [cast(Message, {**messages[0], "content": [*first, block]})]
            self.removed_message_count += before - len(messages)
            self._emit(ContextCompacted(self._step, before, len(messages)))
        if self._log is not None:
            row = {"at": time.time(), "before": self._answers + 1, "messages": messages}
            self._log.put(f"compaction/{self._summaries}", row)
        return bool(summary)

    @property
    def _summary_name(self) -> str:
        return f"summary/{self._summaries}"

    async def _summary(self, agent: Agent, request: str) -> str | None:
        """What a model makes of it, in a conversation of its own without tools; None after a stop."""
        writer = Agent(
            model=self._model() if self._model else agent.model,
            system_prompt=SUMMARY_INSTRUCTION,
            name=agent.name,
            callback_handler=None,
            conversation_manager=NullConversationManager(),
            retry_strategy=None,
        )

        def emit(event: Event) -> None:
            if not isinstance(event, ModelText):  # a summary is not the step's answer
                self._emit(event)

        self._prepare(writer, emit, iter([self._summary_name]))
        try:  # one turn: a model that calls a tool here, though it has none, is not answered
            result = await writer.invoke_async(
                request, limits={"turns": 1}, cancel_signal=agent.cancel_signal
            )
            if result.stop_reason == "cancelled":
                return None
        except MaxTokensReachedException:
            pass  # what was written before the limit is a list of points, and better than nothing
        answers = [message for message in writer.messages if message["role"] == "assistant"]
        return message_text(answers[-1]).strip() if answers else ""


def _first_kept_message(messages: Messages, keep: int) -> int:
    """Where the messages begin that stay: at one of the assistant's, so that no call loses its result."""
    cut = max(0, len(messages) - keep)
    while cut > 0 and messages[cut]["role"] != "assistant":
        cut -= 1
    return cut


def _estimated_tokens(messages: Messages) -> int:
    """Tokens, roughly."""
    return sum(len(part) for message in messages for part in _message_texts(message)) // CHARACTERS_PER_TOKEN


# --- What the summary is made from ------------------------------------------------------------------------


def _without_summary(first: Message) -> tuple[list[ContentBlock], str]:
    """What the first message held in the beginning, and the summary that stands behind it since."""
    *task, last = first["content"]
    text = last.get("text", "")
    if not task or not text.startswith(SUMMARY_HEADING):
        return first["content"], ""
    return task, text.removeprefix(SUMMARY_HEADING).strip()


def _summary_request(task: list[ContentBlock], earlier: str, messages: Messages, max_characters: int) -> str:
    """All of it as one text: some providers take no tool uses without tools."""
    conversation = "\n\n".join(
        f"{message['role']}: {_shortened_middle(part, _LONGEST_PART)}"
        for message in messages
        for part in _message_texts(message)
    )
    question = "\n".join(block["text"] for block in task if "text" in block)
    sections = {
        "The task": _shortened_middle(question, max_characters // 4),
        "What was summarised before": _shortened_middle(earlier, max_characters // 4),
    }
    room = max_characters - sum(len(text) for text in sections.values())
    sections["The conversation"] = _shortened_middle(conversation, room)
    return "\n\n".join(f"# {title}\n\n{text}" for title, text in sections.items() if text)


def _message_texts(message: Message) -> Iterator[str]:
    for block in message["content"]:
        if "text" in block:
            yield block["text"]
        elif "toolUse" in block:
            yield f"calls {block['toolUse']['name']} with {canonical_json(block['toolUse']['input'])}"
        elif "toolResult" in block:
            texts = []
            for part in block["toolResult"]["content"]:
                other = canonical_json(part["json"]) if "json" in part else f"({', '.join(part)})"
                texts.append(str(part["text"]) if "text" in part else other)
            yield f"result ({block['toolResult']['status']}): " + "\n".join(texts)


def _shortened_middle(text: str, max_characters: int) -> str:
    """The beginning and the end of a text that is too long."""
    if len(text) <= max_characters:
        return text
    half = max_characters // 2
    return f"{text[:half]}\n[… {len(text) - max_characters} characters …]\n{text[-half:]}"
