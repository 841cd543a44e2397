"""RunResources: what all agents of a run share, made once before its first step."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.loader.run_values import read_secrets
from strands_cli.loader.spec import Spec
from strands_cli.providers.choice import (
    ModelChoice,
    build_model,
    model_of,
    models_of,
    provider_keys,
    with_default_model,
)
from strands_cli.secrets import Redactor
from strands_cli.settings import Settings
from strands_cli.toolkit.cancellation import Cancellation
from strands_cli.toolkit.workspace import Workspace, current_directory
from strands_cli.tools.toolset import ToolSet

if TYPE_CHECKING:
    from strands.models import Model as Model  # for rooms that do not know the SDK

    from strands_cli.providers.scripts import ScriptedRequest
    from strands_cli.runtime.recorded_requests import AnswerRecorder, RecordedAnswers

_NOWHERE = logging.NullHandler()


class RunResources:
    """Models, tools, inputs, secrets and the workspace: nothing below resolves or reads one of them again."""

    def __init__(
        self,
        spec: Spec,
        *,
        inputs: Mapping[str, Any],
        directory: Path,
        secrets: Mapping[Path, Mapping[str, str]] | None = None,
        tools: ToolSet | None = None,
        workspace: Path | None = None,
        allow_write: Sequence[Path] = (),
        model: "Model | None" = None,
        outer: "RunResources | None" = None,
    ) -> None:
        """`secrets`, by the files of the workflows, and `tools` are made from the workflow unless given.

        Notes go to `directory`. A `workspace` takes the place of the workflow's and the settings', a `model`
        of every provider's. A workflow inside another one has the `outer` one's redactor, which knows the
        secrets of both, and ends with it.
        """
        # Events report what the SDK logs. Without a handler, its logs would go to standard error.
        logging.getLogger("strands").addHandler(_NOWHERE)
        self.spec = spec
        self.inputs = dict(inputs)
        self.cancel, self.begun_in = Cancellation(), current_directory()
        self._secrets = {one.file: read_secrets(one) for one in spec.family} if secrets is None else secrets
        self.secrets = dict(self._secrets[spec.file])
        choices = {agent: model_of(spec, agent) for agent in spec.agents}
        self._choices = {agent: with_default_model(choice) for agent, choice in choices.items() if choice}
        # Some providers repeat a key when they refuse it.
        keys = provider_keys(choice for one in spec.family for _, choice, _ in models_of(one))
        hidden = [value for values in self._secrets.values() for value in values.values()]
        self.redactor = Redactor([*hidden, *keys])
        self.tools = ToolSet(spec) if tools is None else tools
        settings = self.tools.registry.settings
        allow = (*settings.http.allow, *spec.security.http_allow)
        http = msgspec.structs.replace(settings.http, allow=allow)
        self.settings = msgspec.structs.replace(settings, http=http)
        self._only_workspace = workspace
        own = _workflow_workspace(spec, self.settings, self.begun_in, workspace)
        self.allowed = tuple((self.begun_in / path).resolve() for path in allow_write)
        self.workspace = msgspec.structs.replace(own, allowed=self.allowed)
        self._directory = self.begun_in / directory
        self._models: dict[ModelChoice, Model] = {}
        self._only_model = model
        self.recorder: AnswerRecorder | None = None
        self.recorded: RecordedAnswers | None = None
        """Answers in place of all models."""
        self.asked_before: Callable[[str], Iterable[ScriptedRequest]] | None = None
        """The requests that a model, by its name, has answered before the run was resumed."""
        if outer is not None:
            self.cancel, self.begun_in, self.redactor = outer.cancel, outer.begun_in, outer.redactor
            self._models, self.recorder, self.recorded = outer._models, outer.recorder, outer.recorded
            self.asked_before = outer.asked_before

    def inner(self, spec: Spec, tools: ToolSet, inputs: Mapping[str, Any]) -> "RunResources":
        """Those of a workflow that a step runs."""
        return RunResources(
            spec,
            inputs=inputs,
            directory=self._directory,
            secrets=self._secrets,
            tools=tools,
            workspace=self._only_workspace,
            allow_write=self.allowed,
            model=self._only_model,
            outer=self,
        )

    def load_tools(self) -> None:
        """Runs the first code of the workflow's tools; ToolError for one that cannot be loaded."""
        scope = {**self.inputs, "inputs": self.inputs, "secrets": self.secrets}
        self.tools.load(scope, self.redactor, self._directory, self.allowed)

    def choice(self, agent: str) -> ModelChoice:
        return self._choices[agent]

    def model(self, agent: str, choice: ModelChoice | None = None) -> "Model":
        """The model of an agent, or of another `choice`; who asks the same one shares it, since it keeps no
        conversation."""
        if self.recorded is not None:
            from strands_cli.providers.scripted_model import ScriptedModel

            return ScriptedModel()  # which nobody asks
        if self._only_model is not None:
            return self._only_model
        choice = choice or self.choice(agent)
        if choice not in self._models:
            self._models[choice] = built = build_model(choice)
            count_off = getattr(getattr(built, "reply", None), "count_off", None)  # a script's
            if self.asked_before is not None and count_off is not None:
                count_off(self.asked_before(str(choice)))
        return self._models[choice]


def _workflow_workspace(spec: Spec, settings: Settings, base: Path, only: Path | None) -> Workspace:
    """`only` that; or the workflow's `security.workspace`, from its file on; or that of the settings.

    Relative paths begin in the current directory, or in the first of them if it is outside.
    """
    roots = settings.workspace
    if only is not None:
        roots = ((base / only).resolve(),)
    elif spec.security.workspace is not None:
        roots = tuple((spec.file.parent / root).resolve() for root in spec.security.workspace)
    is_inside = any(base.is_relative_to(root) for root in roots)
    return Workspace(roots, base if is_inside or not roots else roots[0])
