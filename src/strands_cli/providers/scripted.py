"""The provider of the scripted model: answers from a file, instead of a model's."""

from typing import TYPE_CHECKING

from strands_cli.errors import ProviderError
from strands_cli.providers.choice import ModelChoice, Provider
from strands_cli.providers.scripts import DEFAULT_SCRIPT, read_script

if TYPE_CHECKING:
    from strands.models import Model


def build(choice: ModelChoice) -> "Model":
    from strands_cli.providers.scripted_model import ScriptedModel

    script, issues = read_script(choice)
    if script is None:
        raise ProviderError(f"{issues[0].place}: {issues[0].reason}", hint=issues[0].remediation)
    return ScriptedModel(config={"model_id": choice.model_id}, reply=script)


PROVIDER = Provider(
    build=build,
    check=lambda choice: read_script(choice)[1],
    default_model=DEFAULT_SCRIPT,
    model_is_file=True,
    places=(),
    is_local=True,
)
