"""A conversation goes on, whatever becomes of one of its questions."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from strands_cli.errors import ProviderError, StrandsError
from strands_cli.events import ContextCompacted, Event, ModelRetried, ModelText, ToolFinished, ToolStarted
from strands_cli.runtime.conversation import Conversation, Reply
from strands_cli.runtime.model_requests import STOPPED_TEXT
from strands_cli.runtime.resources import RunResources
from strands_cli.tools import get_registry
from tests.exec.flows import Flow, steps
from tests.fakes import Call, Pause, ScriptedModel, history_problems, tool_call
from tests.projects import Project
from tests.runtime.agents import Consent

REMEMBER = """
@tool
def remember(word: str, context: ToolContext) -> str:
    '''Remembers a word.'''
    words = [*(context.agent.state.get("words") or []), word]
    context.agent.state.set("words", words)
    return ",".join(words)
"""
COUNT = """
def count(tool, **arguments):
    with open("count", "a") as file:
        file.write("x")
    return "counted"
"""
SLOW = """
def slow(tool, **arguments):
    time.sleep(30)
    return 'too late'
"""
ASK = """
@tool
async def survey(context: ToolContext) -> str:
    '''Asks a person.'''
    return "said " + await context.interrupt("colour", "Which colour?")
"""
POST = """
@tool
def post(context: ToolContext) -> str:
    '''Posts.'''
    return context.key
"""


def imported(body: str) -> str:
    return f"import time\nfrom strands_cli import ToolContext, tool\n{body}"


class Room:
    """A conversation in a project, and what was heard of it."""

    def __init__(self, project: Project, **document: Any) -> None:
        self.events: list[Event] = []
        get_registry().refresh()
        self.spec = Flow(project.root).spec("chain", {"steps": steps("hi")}, **document)
        self.around = RunResources(self.spec, inputs={}, directory=Path())
        self.around.load_tools()
        self.told: Callable[[Event], None] = lambda event: None
        self.conversation = self.opened()

    def opened(self, **options: Any) -> Conversation:
        self.conversation = Conversation(self.around, "worker", "You chat.", emit=self.hear, **options)
        return self.conversation

    def hear(self, event: Event) -> None:
        self.events.append(event)
        self.told(event)

    def ask(self, text: str) -> Reply:
        return asyncio.run(self.conversation.ask(text))

    def fail(self, text: str) -> StrandsError:
        with pytest.raises(StrandsError) as caught:
            self.ask(text)
        assert history_problems(self.conversation.messages) == []
        return caught.value

    def stop_at(self, kind: type) -> None:
        self.told = lambda event: self.conversation.stop() if isinstance(event, kind) else None

    def heard(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


def python(*references: str) -> dict[str, Any]:
    return {"tools": {"python": list(references)}}


def said_in(message: Any) -> str:
    return "".join(block.get("text", "") for block in message["content"])


def test_the_model_gets_all_that_was_said_before(inside: Project, model: ScriptedModel) -> None:
    room = Room(inside)
    model.enqueue("I am well.").enqueue("Bye.")
    assert room.ask("How are you?").text == "I am well."
    reply = room.ask("Goodbye!")
    assert (reply.text, reply.usage.total_tokens, reply.is_stopped) == ("Bye.", 10, False)
    assert [said_in(message) for message in model.requests[-1].messages[:3]] == [
        "How are you?",
        "I am well.",
        "Goodbye!",
    ]
    assert model.requests[-1].system_prompt == "You chat."
    assert history_problems(room.conversation.messages) == []


def test_a_cleared_conversation_begins_anew(inside: Project, model: ScriptedModel) -> None:
    inside.write("tools/remember.py", imported(REMEMBER))
    room = Room(inside, **python("./tools/remember.py"))
    for word in ("one", "two", "three"):
        model.enqueue(tool_call("remember", word=word)).enqueue("Done.")
    room.ask("Remember one.")
    room.ask("Remember two.")
    assert room.heard(ToolFinished)[-1].content == [{"text": "one,two"}]
    room.conversation.clear()
    assert room.conversation.messages == []
    room.ask("Remember three.")
    assert room.heard(ToolFinished)[-1].content == [{"text": "three"}]
    assert len(model.requests[-1].messages) == 3


def test_a_stopped_answer_is_kept_as_far_as_it_came(inside: Project, model: ScriptedModel) -> None:
    room = Room(inside)
    model.enqueue("Once upon a time", Pause(20), "never said").enqueue("there was a king.")
    room.stop_at(ModelText)
    started = time.monotonic()
    reply = room.ask("Tell me.")
    assert (reply.text, reply.is_stopped) == ("Once upon a time", True)
    assert time.monotonic() - started < 5
    room.told = lambda event: None
    assert said_in(room.conversation.messages[-1]) == f"Once upon a time\n\n({STOPPED_TEXT})"
    assert history_problems(room.conversation.messages) == []
    assert room.ask("Go on.").text == "there was a king."
    assert history_problems(room.conversation.messages) == []


def test_a_stop_ends_a_running_tool(inside: Project, model: ScriptedModel) -> None:
    inside.tool("slow", SLOW, options="timeout=60")
    room = Room(inside, **python("slow"))
    model.enqueue("I try. ", tool_call("slow")).enqueue("Well then.")
    room.stop_at(ToolStarted)
    started = time.monotonic()
    assert room.ask("Try.").is_stopped
    assert time.monotonic() - started < 10
    assert room.heard(ToolFinished)[0].code == "cancelled"
    assert said_in(room.conversation.messages[-1]) == STOPPED_TEXT
    room.told = lambda event: None
    assert room.ask("Never mind.").text == "Well then."
    assert history_problems(room.conversation.messages) == []


def test_a_stop_ends_the_wait_for_another_attempt(inside: Project, model: ScriptedModel) -> None:
    policy = {"retries": 2, "wait_s": 60}
    room = Room(inside, runtime={"provider": "ollama", "failure_policy": policy})
    model.enqueue(ConnectionError("refused")).enqueue("Here.")
    room.stop_at(ModelRetried)
    started = time.monotonic()
    assert room.ask("Hello?").is_stopped
    assert time.monotonic() - started < 10
    room.told = lambda event: None
    assert room.ask("Hello?").text == "Here."
    assert history_problems(room.conversation.messages) == []


def test_a_question_that_the_provider_does_not_answer_leaves_nothing(
    inside: Project, model: ScriptedModel
) -> None:
    room = Room(inside)
    model.enqueue("Hello.").enqueue(ConnectionError("refused")).enqueue("I am back.")
    room.ask("Hi.")
    before = list(room.conversation.messages)
    assert isinstance(room.fail("Are you there?"), ProviderError)
    assert room.conversation.messages == before
    assert room.ask("Are you there?").text == "I am back."
    assert history_problems(room.conversation.messages) == []


def test_what_tools_did_before_the_provider_failed_is_not_forgotten(
    inside: Project, model: ScriptedModel
) -> None:
    inside.tool("count", COUNT)
    room = Room(inside, **python("count"))
    model.enqueue(tool_call("count")).enqueue(ConnectionError("refused")).enqueue("Once.")
    assert isinstance(room.fail("Count."), ProviderError)
    assert room.ask("How often?").text == "Once."
    assert (inside.root / "count").read_text() == "x"
    roles = [message["role"] for message in model.requests[-1].messages[:5]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert "There was no answer" in said_in(model.requests[-1].messages[3])


def test_input_that_is_no_json_goes_back_to_the_model(inside: Project, model: ScriptedModel) -> None:
    inside.tool("count", COUNT)
    room = Room(inside, **python("count"))
    model.enqueue(Call("count", '{"n": ')).enqueue("I could not.")
    assert room.ask("Count.").text == "I could not."
    assert [event.code for event in room.heard(ToolFinished)] == ["input_malformed"]
    assert not (inside.root / "count").exists()
    assert history_problems(room.conversation.messages) == []


def test_consent_is_asked_in_each_question(inside: Project, model: ScriptedModel) -> None:
    inside.tool("count", COUNT, options="requires_consent=True")
    room, consent = Room(inside, **python("count")), Consent(answer=False)
    room.opened(ask_consent=consent)
    for _ in range(2):
        model.enqueue(tool_call("count")).enqueue("Done.")
        room.ask("Count.")
    assert consent.asked == [[("count", {})], [("count", {})]]
    assert [event.code for event in room.heard(ToolFinished)] == ["denied", "denied"]
    assert not (inside.root / "count").exists()


def test_a_person_answers_what_a_tool_wants_to_know(inside: Project, model: ScriptedModel) -> None:
    inside.write("tools/survey.py", imported(ASK))
    asked: list[str] = []

    async def blue(question: str) -> str:
        asked.append(question)
        return "blue"

    room = Room(inside, **python("./tools/survey.py"))
    room.opened(ask_person=blue)
    model.enqueue(tool_call("survey")).enqueue("It is blue.")
    assert room.ask("Which one?").text == "It is blue."
    assert asked == ["Which colour?"]
    assert room.heard(ToolFinished)[-1].content == [{"text": "said blue"}]
    assert history_problems(room.conversation.messages) == []


def test_the_same_call_for_another_question_has_another_key(inside: Project, model: ScriptedModel) -> None:
    inside.write("tools/post.py", imported(POST))
    room = Room(inside, **python("./tools/post.py"))
    for _ in range(2):
        model.enqueue(tool_call("post")).enqueue("Posted.")
        room.ask("Post it.")
    first, second = (event.content[0]["text"] for event in room.heard(ToolFinished))
    assert "" not in (first, second)
    assert first != second


def test_a_tool_hears_that_nobody_can_be_asked(inside: Project, model: ScriptedModel) -> None:
    inside.write("tools/survey.py", imported(ASK))
    room = Room(inside, **python("./tools/survey.py"))
    model.enqueue(tool_call("survey")).enqueue("Nobody is there.")
    assert room.ask("Which one?").text == "Nobody is there."
    assert room.heard(ToolFinished)[-1].code == "denied"


def test_a_long_conversation_is_summarised_without_being_told_to(
    inside: Project, model: ScriptedModel
) -> None:
    room = Room(inside)
    for number in range(9):
        model.tokens = 140_000 if number == 8 else 10  # what is counted is what the provider reports
        model.enqueue(f"{number}: " + "word " * 8000)
        room.ask(f"Question {number}")
    model.enqueue("A summary.").enqueue("Short.")
    is_short = room.ask("And now?").text == "Short."
    assert is_short
    assert len(room.heard(ContextCompacted)) == 1
    assert "A summary." in said_in(room.conversation.messages[0])
    assert len(room.conversation.messages) < 20
    assert history_problems(room.conversation.messages) == []


def test_a_conversation_says_who_answers_and_with_what(inside: Project, model: ScriptedModel) -> None:
    inside.tool("count", COUNT)
    room = Room(inside, **python("count", "echo"))
    assert [tool.id for tool in room.conversation.tools] == ["count", "echo"]
    assert room.conversation.model == "ollama scripted"


def test_a_workflow_step_tells_a_provider_that_fails_after_a_tool_call(
    inside: Project, model: ScriptedModel
) -> None:
    """The SDK wraps what happens after the first turn; steps and conversations unwrap it alike."""
    inside.tool("count", COUNT)
    get_registry().refresh()
    model.enqueue(tool_call("count")).enqueue(ConnectionError("refused"))
    with pytest.raises(ProviderError):
        Flow(inside.root).run("chain", {"steps": steps("go")}, **python("count"))
