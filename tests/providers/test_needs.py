"""What a provider needs, and what is said where it is not there."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strands_cli.capability import check_capability
from strands_cli.errors import ProviderError, install_hint
from strands_cli.loader import load_spec
from strands_cli.providers.choice import PROVIDERS, ModelChoice, build_model, missing_for_provider
from strands_cli.types.sections import Inference
from tests.projects import Project

WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {absent!r} or name.startswith(tuple(part + "." for part in {absent!r})):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""
FLOW = """version: 0
name: flow
runtime: {{provider: {provider}{rest}}}
agents:
{agents}
pattern: {{type: chain, config: {{steps: [{steps}]}}}}
"""


def flow(provider: str, rest: str = "", **agents: str) -> str:
    agents = agents or {"writer": ""}
    declared = "\n".join(f"  {name}: {{prompt: You write.{more}}}" for name, more in agents.items())
    steps = ", ".join(f"{{agent: {name}, input: hi}}" for name in agents)
    return FLOW.format(provider=provider, rest=rest, agents=declared, steps=steps)


PACKAGES = {name: row for name, row in PROVIDERS.items() if row.package and name != "local"}


@pytest.mark.parametrize("provider", sorted(PACKAGES))
def test_a_missing_package_is_named_with_the_command_that_installs_it(provider: str) -> None:
    row = PROVIDERS[provider]
    script = WITHOUT.format(absent=[row.package]) + (
        "from strands_cli.errors import ProviderError\n"
        "from strands_cli.providers.choice import ModelChoice, build_model\n"
        f"try:\n    build_model(ModelChoice({provider!r}))\n"
        "except ProviderError as error:\n    print(error.message); print(error.hint)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"The provider {provider} needs the package {row.package}, which is not installed.",
        install_hint(row.extra),
    ]


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GEMINI_API_KEY")
    with pytest.raises(ProviderError, match="GEMINI_API_KEY or GOOGLE_API_KEY is not set") as raised:
        build_model(ModelChoice("gemini"))
    assert raised.value.hint == "Set it: export GEMINI_API_KEY=…"


def test_a_host_of_your_own_needs_no_key() -> None:
    assert list(missing_for_provider(ModelChoice("openai", host="http://localhost:8000"), {})) == []


@pytest.mark.parametrize("provider", sorted(PROVIDERS.keys() - {"local", "scripted"}))
def test_every_provider_has_a_default_model_and_takes_every_key(provider: str) -> None:
    inference = Inference(temperature=0.1, top_p=0.5, max_tokens=9, stop=("x",), seed=1)
    model = build_model(ModelChoice(provider, inference=inference))
    assert model.get_config()["model_id"] == PROVIDERS[provider].default_model


def test_a_packages_extra_is_one_that_the_project_has() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    for row in PROVIDERS.values():
        assert not row.extra or f"\n{row.extra} = [" in text


# --- validate ---------------------------------------------------------------------------------------------


def warnings_of(project: Project, text: str, **env: str) -> list[tuple[str, str]]:
    project.write("flow.yaml", text)
    outcome = project.strands("validate", "--json", "flow.yaml", **env)
    assert outcome.exit_code == 0, outcome
    issues: list[dict[str, Any]] = outcome.json["files"][0]["issues"]
    assert {issue["severity"] for issue in issues} <= {"warning"}
    return [(issue["pointer"], issue["reason"]) for issue in issues]


def test_validate_warns_of_a_missing_package_once(project: Project) -> None:
    project.write("hook/sitecustomize.py", WITHOUT.format(absent=["ollama", "google.genai"]))
    text = flow("ollama", a="", b="", c=", provider: gemini")
    path = {"PYTHONPATH": str(project.root / "hook")}
    assert warnings_of(project, text, **path) == [
        ("/runtime/provider", "The provider ollama needs the package ollama, which is not installed."),
        ("/agents/c/provider", "The provider gemini needs the package google.genai, which is not installed."),
    ]


def test_validate_warns_of_a_missing_key_and_a_strict_one_fails(project: Project) -> None:
    project.write("flow.yaml", flow("openai"))
    expected = ("/runtime/provider", "The provider openai needs a key, and OPENAI_API_KEY is not set.")
    assert warnings_of(project, flow("openai"), OPENAI_API_KEY="") == [expected]
    assert warnings_of(project, flow("openai"), OPENAI_API_KEY="set") == []
    assert project.strands("validate", "--strict", "flow.yaml", OPENAI_API_KEY="").exit_code == 18


def test_the_capability_check_alone_looks_for_no_package_and_no_key(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert check_capability(load_spec(project.write("flow.yaml", flow("openai")))).issues == ()


# --- settings without an effect ---------------------------------------------------------------------------


def found(project: Project, text: str) -> list[tuple[str, str]]:
    report = check_capability(load_spec(project.write("flow.yaml", text)))
    assert all(issue.severity == "warning" for issue in report.issues)
    return [(issue.pointer, issue.reason) for issue in report.issues]


@pytest.mark.parametrize("provider", sorted(name for name, row in PROVIDERS.items() if row.ignores))
def test_a_key_that_a_provider_cannot_take_is_told(project: Project, provider: str) -> None:
    told = f"The provider {provider} has no seed."
    assert found(project, flow(provider, ", inference: {seed: 0}", a="", b="")) == [
        ("/runtime/inference/seed", told)
    ]
    assert found(project, flow(provider, a=", inference: {seed: 1}")) == [("/agents/a/inference/seed", told)]


def test_a_key_of_the_runtime_is_told_for_an_agent_whose_provider_cannot_take_it(project: Project) -> None:
    text = flow("ollama", ", inference: {seed: 1}", a="", b=", provider: anthropic")
    assert found(project, text) == [("/runtime/inference/seed", "The provider anthropic has no seed.")]


@pytest.mark.usefixtures("trusting")
def test_a_place_that_a_provider_does_not_have_is_told(project: Project) -> None:
    text = flow("openai", ", region: eu-west-1", a="", b=", provider: local, host: 'http://x'")
    assert found(project, text) == [
        ("/runtime/region", "The provider openai has no region."),
        ("/agents/b/host", "The provider local has no host."),
    ]
    assert found(project, flow("bedrock", ", region: eu-west-1, host: 'http://x'")) == []


# --- the guide --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_the_guide_says_what_a_provider_needs(provider: str) -> None:
    text = (Path(__file__).parents[2] / "docs" / "guides" / "providers.md").read_text("utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith(f"| `{provider}` |")]
    _, _, install, credentials, model, _ = (cell.strip() for cell in line.split("|"))
    row = PROVIDERS[provider]
    assert install == (f"`{row.extra}`" if row.extra else "–")
    assert all(f"`{name}`" in credentials for name in row.credentials)
    assert f"`{row.default_model}`" in model
