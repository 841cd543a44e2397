"""Which model an agent asks: its own settings over the runtime's, and the command line over both."""

from pathlib import Path

import msgspec
import pytest

from strands_cli.loader import load_spec
from strands_cli.loader.spec import Spec
from strands_cli.providers.choice import ModelChoice, model_of, with_model_options
from strands_cli.types.sections import Inference
from tests.projects import Project

FLOW = """version: 0
name: flow
runtime:
  provider: ollama
  model_id: llama3.2:3b
  host: http://ollama.example:11434
  inference: {temperature: 0.7, stop: [END]}
agents:
  plain: {prompt: You write.}
  larger: {prompt: You write., model_id: "llama3.1:70b", inference: {temperature: 0}}
  other: {prompt: You judge., provider: bedrock, region: eu-west-1, model_id: claude}
pattern:
  type: chain
  config: {steps: [{agent: plain, input: hi}, {agent: larger}, {agent: other}]}
"""
INFERENCE = Inference(temperature=0.7, stop=("END",))
HOST = "http://ollama.example:11434"


@pytest.fixture
def spec(project: Project) -> Spec:
    return load_spec(project.write("flow.yaml", FLOW))


def choices(spec: Spec) -> list[ModelChoice | None]:
    """All but the directory, which is the workflow's for each."""
    found = [model_of(spec, name) for name in ("plain", "larger", "other")]
    assert {choice.directory for choice in found if choice} == {spec.file.parent}
    return [choice and msgspec.structs.replace(choice, directory=Path()) for choice in found]


def test_an_agent_takes_from_the_runtime_what_it_does_not_say(spec: Spec) -> None:
    assert choices(spec) == [
        ModelChoice("ollama", "llama3.2:3b", HOST, None, INFERENCE),
        ModelChoice("ollama", "llama3.1:70b", HOST, None, Inference(temperature=0, stop=("END",))),
        ModelChoice("bedrock", "claude", None, "eu-west-1", INFERENCE),
    ]
    assert model_of(spec, "nobody") is None


def test_another_provider_drops_the_model_the_host_and_the_region_of_the_file(spec: Spec) -> None:
    chosen = choices(with_model_options(spec, provider="openai"))
    assert [(item.provider, item.model_id, item.host, item.region) for item in chosen if item] == [
        ("openai", None, None, None)
    ] * 3


def test_the_same_provider_drops_nothing(spec: Spec) -> None:
    chosen = choices(with_model_options(spec, provider="ollama"))
    assert [item.model_id for item in chosen if item] == ["llama3.2:3b", "llama3.1:70b", "llama3.2:3b"]
    assert [item.region for item in chosen if item] == [None, None, None]


def test_a_model_and_a_host_are_for_the_provider_that_is_named(spec: Spec) -> None:
    chosen = choices(with_model_options(spec, provider="openai", model="qwen3", host="http://localhost:8000"))
    assert {str(item) for item in chosen} == {"openai qwen3 at http://localhost:8000"}


def test_a_model_without_a_provider_is_for_the_agents_of_the_runtimes_provider(spec: Spec) -> None:
    chosen = choices(with_model_options(spec, model="tiny"))
    assert [item.model_id for item in chosen if item] == ["tiny", "tiny", "claude"]


def test_nothing_said_changes_nothing(spec: Spec) -> None:
    assert with_model_options(spec) is spec


@pytest.mark.parametrize(
    ("choice", "is_local"),
    [
        (ModelChoice("ollama"), True),
        (ModelChoice("ollama", host="http://gpu.example:11434"), False),
        (ModelChoice("openai"), False),
        (ModelChoice("openai", host="http://127.0.0.1:8000/v1"), True),
        (ModelChoice("local"), True),
    ],
)
def test_what_counts_as_this_machine(choice: ModelChoice, is_local: bool) -> None:
    assert choice.is_local is is_local


def test_a_choice_says_what_it_is() -> None:
    assert str(ModelChoice("bedrock", "claude", None, "eu-west-1")) == "bedrock claude at eu-west-1"
    assert str(ModelChoice("openai")) == "openai (its default model)"
