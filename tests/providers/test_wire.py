"""The real provider classes against servers that speak their protocols."""

import json
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strands_cli import tool
from strands_cli.errors import ProviderError
from strands_cli.events import ModelFinished, ModelRetried, ModelStarted, ModelText
from strands_cli.providers.choice import ModelChoice
from strands_cli.runtime.model_requests import replace_unreadable
from strands_cli.types.run_results import Usage
from tests.fakes import Call, history_problems, tool_call
from tests.providers.asking import STANDINS, Asking, choice_at
from tests.runtime.agents import codes
from tests.standins import Complaint, LlamaCppStandin, OllamaStandin, OpenAIStandin

every_provider = pytest.mark.parametrize("provider", sorted(STANDINS))
INFERENCE = {"temperature": 0.0, "top_p": 0.9, "max_tokens": 77, "stop": ("END",), "seed": 7}


@every_provider
def test_a_model_streams_calls_a_tool_and_goes_on_with_its_result(provider: str) -> None:
    with STANDINS[provider]() as standin:
        standin.enqueue("Let me see. ", Call("add", {"a": 2, "b": 3}, pieces=3)).enqueue("It is 5.")
        asking = Asking(choice_at(provider, standin))
        result = asking.ask()
    assert (str(result).strip(), result.stop_reason) == ("It is 5.", "end_turn")
    assert history_problems(asking.agent.messages) == []
    assert [event.text for event in asking.heard(ModelText)] == ["Let ", "me ", "see. ", "It ", "is ", "5."]
    assert len(standin.requests) == 2
    first, second = (json.dumps(request.body) for request in standin.requests)
    assert "You add." in first
    assert "What is 2 and 3?" in first
    assert '"add"' in first, "the tool is offered"
    assert ('"5"' in first, '"5"' in second) == (False, True), "what the tool gave goes back"


PNG = b"\x89PNG\r\n\x1a\n" + b"picture"
MEDIA: dict[str, dict[str, Any]] = {
    "image": {"image": {"format": "png", "source": {"bytes": PNG}}},
    "pdf": {"document": {"format": "pdf", "name": "report", "source": {"bytes": b"%PDF-1.7 picture"}}},
    "nameless": {"document": {"format": "pdf", "source": {"bytes": b"%PDF-1.7 picture"}}},
    "not utf-8": {"document": {"format": "txt", "name": "notes", "source": {"bytes": b"\xff\xfe picture"}}},
    "sheet": {"document": {"format": "xlsx", "name": "sheet", "source": {"bytes": b"PK picture"}}},
    "video": {"video": {"format": "mp4", "source": {"bytes": b"ftyp picture"}}},
    "elsewhere": {"image": {"format": "png", "source": {"location": {"type": "s3", "uri": "s3://a/b"}}}},
}
READ = {
    "anthropic": {"image", "pdf", "nameless"},
    "bedrock": MEDIA.keys(),
    "gemini": set[str](),
    "llamacpp": {"image"},
    "ollama": {"image"},
    "openai": {"image"},
}
"""What each provider takes in the result of a tool."""


@pytest.mark.parametrize("media", MEDIA)
@every_provider
def test_what_a_provider_does_not_take_of_a_tool_is_told_to_the_model(provider: str, media: str) -> None:
    @tool
    def scan() -> dict[str, Any]:
        """Scan something."""
        return {"status": "success", "content": [{"text": "Scanned."}, MEDIA[media]]}

    with STANDINS[provider]() as standin:
        standin.enqueue(tool_call("scan")).enqueue("I see.")
        result = Asking(choice_at(provider, standin), tool=scan).ask()
    assert str(result).strip() == "I see."
    sent = json.dumps(standin.requests[-1].body)
    assert "Scanned." in sent
    told = f"{provider} does not accept it in a tool result."
    assert (told in sent) is (media not in READ[provider]), sent
    (block,) = MEDIA[media].values()
    data = block["source"].get("bytes")
    assert ((b64encode(data).decode() if data else "s3://a/b") in sent) is (media in READ[provider])


def test_the_embedded_model_is_told_of_what_it_cannot_see() -> None:
    for media in MEDIA.values():
        block: Any = {"toolResult": {"toolUseId": "1", "status": "success", "content": [media]}}
        replace_unreadable([{"role": "user", "content": [block]}], "local")
        (shown,) = block["toolResult"]["content"]
        assert "local does not accept it in a tool result." in shown["text"]


@every_provider
def test_what_an_answer_costs_is_counted(provider: str) -> None:
    with STANDINS[provider]() as standin:
        standin.input_tokens, standin.output_tokens = 11, 4
        standin.enqueue(tool_call("add", a=1)).enqueue("done")
        asking = Asking(choice_at(provider, standin))
        result = asking.ask()
    assert [event.usage for event in asking.heard(ModelFinished)] == [Usage(11, 4), Usage(11, 4)]
    assert result.metrics.accumulated_usage["inputTokens"] == 22
    assert [event.stop_reason for event in asking.heard(ModelFinished)] == ["tool_use", "end_turn"]
    assert {event.model for event in asking.heard(ModelStarted)} == {
        f"{provider} some-model at {standin.url}"
    }


NAMES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "anthropic": lambda body: body,
    "bedrock": lambda body: dict(body["inferenceConfig"]),
    "gemini": lambda body: dict(body["generationConfig"]),
    "llamacpp": lambda body: body,
    "ollama": lambda body: dict(body["options"]),
    "openai": lambda body: body,
}
SENT: dict[str, dict[str, Any]] = {
    "anthropic": {"temperature": 0.0, "top_p": 0.9, "max_tokens": 77, "stop_sequences": ["END"]},
    "bedrock": {"temperature": 0.0, "topP": 0.9, "maxTokens": 77, "stopSequences": ["END"]},
    "gemini": {
        "temperature": 0.0,
        "topP": 0.9,
        "maxOutputTokens": 77,
        "stopSequences": ["END"],
        "seed": 7,
    },
    "llamacpp": {"temperature": 0.0, "top_p": 0.9, "max_tokens": 77, "stop": ["END"], "seed": 7},
    "ollama": {"temperature": 0.0, "top_p": 0.9, "num_predict": 77, "stop": ["END"], "seed": 7},
    "openai": {"temperature": 0.0, "top_p": 0.9, "max_tokens": 77, "stop": ["END"], "seed": 7},
}


@every_provider
def test_how_the_model_generates_is_said_in_the_providers_own_words(provider: str) -> None:
    with STANDINS[provider]() as standin:
        standin.enqueue("done").enqueue("done")
        Asking(choice_at(provider, standin, **INFERENCE)).ask()
        Asking(choice_at(provider, standin)).ask()
    told, silent = (NAMES[provider](request.body) for request in standin.requests)
    assert {name: told[name] for name in SENT[provider]} == SENT[provider]
    assert ("seed" in told) is (provider not in ("anthropic", "bedrock"))
    added = {"max_tokens"} if provider == "anthropic" else set()
    assert SENT[provider].keys() & silent.keys() == added, "what nobody said is left to the provider"


KEYS = {
    "anthropic": ("x-api-key", "key-of-anthropic"),
    "bedrock": ("authorization", "Credential=key-of-aws/"),
    "gemini": ("x-goog-api-key", "key-of-gemini"),
    "openai": ("authorization", "Bearer key-of-openai"),
}


@pytest.mark.parametrize("provider", sorted(KEYS))
def test_the_key_of_the_environment_is_sent(provider: str) -> None:
    with STANDINS[provider]() as standin:
        Asking(choice_at(provider, standin.enqueue("done"))).ask()
    name, value = KEYS[provider]
    assert value in standin.requests[0].headers[name]


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "openai"])
def test_a_host_that_needs_no_key_is_asked_without_one(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(f"{provider.upper()}_API_KEY")
    with STANDINS[provider]() as standin:
        assert str(Asking(choice_at(provider, standin.enqueue("done"))).ask()).strip() == "done"
    assert "key-of" not in json.dumps(standin.requests[0].headers)


def test_the_region_of_a_choice_signs_the_request() -> None:
    with STANDINS["bedrock"]() as standin:
        choice = ModelChoice("bedrock", "some-model", standin.enqueue("done").url, "ap-south-1")
        Asking(choice).ask()
    assert "/ap-south-1/bedrock/" in standin.requests[0].headers["authorization"]


def test_a_bare_host_stands_for_its_v1() -> None:
    with OpenAIStandin() as standin:
        choice = ModelChoice("openai", "some-model", standin.enqueue("done").origin)
        assert str(Asking(choice).ask()).strip() == "done"
    assert standin.requests[0].path == "/v1/chat/completions"


@pytest.mark.parametrize("provider", ["anthropic", "bedrock", "llamacpp", "openai"])
def test_input_that_is_no_json_is_told_to_the_model_and_the_tool_does_not_run(provider: str) -> None:
    with STANDINS[provider]() as standin:
        standin.enqueue(Call("add", '{"a": ', pieces=2)).enqueue("I give up.")
        asking = Asking(choice_at(provider, standin))
        assert str(asking.ask()).strip() == "I give up."
    results = [block["toolResult"] for block in asking.agent.messages[2]["content"]]
    assert codes(results) == ["input_malformed"]
    assert history_problems(asking.agent.messages) == []


@pytest.mark.parametrize("provider", ["gemini", "ollama"])
def test_where_input_is_an_object_on_the_wire_anything_else_is_no_answer(provider: str) -> None:
    with STANDINS[provider]() as standin:
        standin.enqueue(Call("add", '{"a": ')).enqueue("Again.")
        assert str(Asking(choice_at(provider, standin)).ask()).strip() == "Again."
    assert len(standin.requests) == 2


class Forgetful(OllamaStandin):
    """An Ollama that counts nothing when it has the prompt in its cache, as some versions do."""

    def _line(self, message: dict[str, Any], *, done: bool = False, **rest: Any) -> bytes:
        kept = {name: value for name, value in rest.items() if name == "done_reason"}
        return super()._line(message, done=done, **kept)


def test_an_ollama_that_counts_nothing_is_understood() -> None:
    with Forgetful() as standin:
        standin.enqueue("fine")
        asking = Asking(choice_at("ollama", standin))
        assert str(asking.ask()).strip() == "fine"
    assert asking.heard(ModelFinished)[0].usage == Usage(0, 0)


class Hasty(OllamaStandin):
    """An Ollama behind something that ends an answer early, and in good order."""

    def closing(self, is_asking: bool) -> Iterator[bytes]:
        yield from () if len(self.requests) == 1 else super().closing(is_asking)


def test_an_answer_of_ollama_that_is_not_done_is_asked_for_again() -> None:
    with Hasty() as standin:
        standin.enqueue("half an").enqueue("a whole answer")
        assert str(Asking(choice_at("ollama", standin)).ask()).strip() == "a whole answer"


class Muttering(LlamaCppStandin):
    """A llama.cpp of an older kind, whose error in a stream has a line of its own."""

    def complaint(self, text: str) -> bytes:
        return b"error: " + text.encode() + b"\n\n"


def test_an_error_of_an_older_llama_cpp_is_heard_too() -> None:
    with Muttering() as standin:
        standin.enqueue("half", Complaint("out of memory")).enqueue("whole")
        asking = Asking(choice_at("llamacpp", standin))
        assert str(asking.ask()).strip() == "whole"
    assert "out of memory" in asking.heard(ModelRetried)[0].reason


def test_a_standin_that_is_asked_too_often_says_so() -> None:
    with OpenAIStandin() as standin, pytest.raises(ProviderError, match="more often than the script says"):
        Asking(choice_at("openai", standin)).ask()


def test_a_standin_answers_no_other_path() -> None:
    with OpenAIStandin() as standin:
        choice = ModelChoice("openai", "some-model", f"{standin.origin}/elsewhere")
        with pytest.raises(ProviderError, match="there is nothing at /elsewhere/chat/completions"):
            Asking(choice).ask()
