"""A provider that another package brings."""

import pytest

from strands_cli.errors import ProviderError
from strands_cli.providers.choice import PROVIDERS
from tests.projects import Project

MODULE = """\
from strands_cli.providers.choice import Provider
from strands_cli.testing import ScriptedModel

def build(choice):
    return ScriptedModel().enqueue(f"I am {choice.model_id}.")

PROVIDER = Provider(build=build, default_model="acme-1", hints={"connection": "Is the factory open?"})
"""
FLOW = """\
version: 0
name: flow
runtime: {provider: PROVIDER}
agents: {writer: {prompt: You write.}}
pattern: {type: chain, config: {steps: [{agent: writer, input: Who are you?}]}}
"""


@pytest.fixture
def packaged(project: Project) -> Project:
    """A project beside a package that is installed, as far as Python can see."""
    project.write("site/acme.py", MODULE)
    project.write("site/acme-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    project.write(
        "site/acme-1.0.dist-info/entry_points.txt",
        "[strands_cli.providers]\nacme = acme:PROVIDER\nbroken = acme:MODULE\nodd = acme:build\n",
    )
    project.environment["PYTHONPATH"] = str(project.root / "site")
    return project


def test_a_workflow_can_name_an_installed_provider(packaged: Project) -> None:
    packaged.write("flow.yaml", FLOW.replace("PROVIDER", "acme"))
    assert packaged.strands("validate", "flow.yaml").exit_code == 0
    outcome = packaged.strands("run", "flow.yaml")
    assert outcome.exit_code == 0, outcome
    assert "I am acme-1." in outcome.out


def test_the_command_line_can_name_an_installed_provider(packaged: Project) -> None:
    packaged.write("flow.yaml", FLOW.replace("PROVIDER", "ollama"))
    outcome = packaged.strands("run", "flow.yaml", "--provider", "acme", "--model", "acme-2")
    assert "I am acme-2." in outcome.out


def test_a_provider_that_nobody_brings_is_refused_with_the_nearest(packaged: Project) -> None:
    packaged.write("flow.yaml", FLOW.replace("PROVIDER", "olama"))
    outcome = packaged.strands("validate", "flow.yaml")
    assert outcome.exit_code == 3
    assert "Did you mean 'ollama'?" in outcome.out
    assert packaged.strands("run", "flow.yaml", "--provider", "olama").exit_code == 2


@pytest.mark.parametrize("name", ["broken", "odd"])
def test_an_entry_point_that_is_not_a_provider_says_so(
    packaged: Project, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.syspath_prepend(packaged.root / "site")
    with pytest.raises(ProviderError, match=f"The provider {name} cannot be used: .*acme"):
        PROVIDERS[name]
