"""RunResources: what all agents of a run share, made once before its first step."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.loader.run_values import read_secrets
from strands_cli.loader.spec import Spec
from strands_cli.providers.choice import ModelChoice, build_model, model_of, provider_keys, with_default_model
from strands_cli.secrets import Redactor
from strands_cli.settings import Settings
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.workspace import Workspace, current_directory
from strands_cli.tools.toolset import ToolSet

if TYPE_CHECKING:
    from strands.models import Model

_NOWHERE = logging.NullHandler()


class RunResources:
    """Models, tools, inputs, secrets and the workspace: nothing below resolves or reads one of them again."""

    def __init__(
        self,
        spec: Spec,
        *,
        inputs: Mapping[str, Any],
        directory: Path,
        secrets: Mapping[str, str] | None = None,
        tools: ToolSet | None = None,
    ) -> None:
        """`secrets` and `tools` are made from the workflow unless given. Notes go to `directory`."""
        # Events report what the SDK logs. Without a handler, its logs would go to standard error.
        logging.getLogger("strands").addHandler(_NOWHERE)
        self.spec = spec
        self.inputs = dict(inputs)
        self.cancel, self.begun_in = Cancellation(), current_directory()
        self.secrets = read_secrets(spec) if secrets is None else dict(secrets)
        choices = {agent: model_of(spec, agent) for agent in spec.agents}
        self._choices = {agent: with_default_model(choice) for agent, choice in choices.items() if choice}
        # Some providers repeat a key when they refuse it.
        self.redactor = Redactor([*self.secrets.values(), *provider_keys(self._choices.values())])
        self.tools = ToolSet(spec) if tools is None else tools
        settings = self.tools.registry.settings
        allow = (*settings.http.allow, *spec.security.http_allow)
        http = msgspec.structs.replace(settings.http, allow=allow)
        self.settings = msgspec.structs.replace(settings, http=http)
        self.workspace = _workflow_workspace(spec, self.settings, self.begun_in)
        self._directory = self.begun_in / directory
        self._models: dict[ModelChoice, Model] = {}

    def load_tools(self) -> None:
        """Runs the first code of the workflow's tools; ToolError for one that cannot be loaded."""
        scope = {**self.inputs, "inputs": self.inputs, "secrets": self.secrets}
        self.tools.load(scope, self.redactor, self._directory)

    def choice(self, agent: str) -> ModelChoice:
        return self._choices[agent]

    def model(self, agent: str) -> "Model":
        """The model of an agent; agents that ask the same one share it, since it keeps no conversation."""
        choice = self.choice(agent)
        if choice not in self._models:
            self._models[choice] = build_model(choice)
        return self._models[choice]


def _workflow_workspace(spec: Spec, settings: Settings, base: Path) -> Workspace:
    """The directories of the workflow's own `security.workspace`, from its file on, else the settings'.

    Relative paths begin in the current directory, or in the first of them if it is outside.
    """
    roots = settings.workspace
    if spec.security.workspace is not None:
        roots = tuple((spec.file.parent / root).resolve() for root in spec.security.workspace)
    is_inside = any(base.is_relative_to(root) for root in roots)
    return Workspace(roots, base if is_inside or not roots else roots[0])
