"""A workflow file as a value, all but its pattern."""

from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from strands_cli.errors import Issue, Severity, written_pointer
from strands_cli.types.servers import WorkflowServer

Position = tuple[str, int, int]
"""A file, a line and a column."""


class Inference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    max_steps: int | None = None
    max_tokens: int | None = None
    max_duration_s: float | None = None
    max_cost: float | None = None
    warn_threshold: float = 0.8


class FailurePolicy(msgspec.Struct, frozen=True, kw_only=True):
    retries: int = 2
    backoff: Literal["constant", "exponential", "jitter"] = "exponential"
    wait_s: float = 1
    max_wait_s: float = 60


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    provider: str = ""
    """Empty where there are no agents."""
    model_id: str | None = None
    host: str | None = None
    region: str | None = None
    inference: Inference = Inference()
    max_parallel: int = 8
    budgets: Budgets = Budgets()
    failure_policy: FailurePolicy = FailurePolicy()


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """An input as a run is given it. Without a type it may be anything."""

    type: str | None = None
    description: str = ""
    default: Any = msgspec.UNSET
    enum: tuple[Any, ...] = ()


class Inputs(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    required: dict[str, Input] = {}
    optional: dict[str, Input] = {}
    values: dict[str, Any] = {}

    @cached_property
    def declared(self) -> dict[str, Input]:
        return {**self.required, **self.optional}


class Secret(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    source: Literal["env", "file", "ssm", "secrets_manager"] = "env"
    key: str | None = None
    path: str | None = None


class Env(msgspec.Struct, frozen=True, kw_only=True):
    variables: tuple[str, ...] = ()
    secrets: tuple[Secret, ...] = ()


class VariableUse(msgspec.Struct, frozen=True, kw_only=True):
    """A place where a workflow uses an environment variable that it declares in `env.variables`."""

    name: str
    pointer: str
    is_whole: bool
    """Whether the text at that place is the variable and nothing else."""
    value: str | None = None
    """None where it is not set, and the place has a default."""

    @property
    def place(self) -> str:
        return self.pointer[1:].replace("/", ".")


class Redact(msgspec.Struct, frozen=True, kw_only=True):
    tool_inputs: bool = True
    tool_outputs: bool = True


class Telemetry(msgspec.Struct, frozen=True, kw_only=True):
    otlp_endpoint: str | None = None
    service_name: str = "strands-cli"
    sample_rate: float = 1
    redact: Redact = Redact()


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    enabled: bool = True
    when_tokens_over: int = 60000
    preserve_recent_messages: int = 12
    summarization_model: str | None = None


class Notes(msgspec.Struct, frozen=True, kw_only=True):
    file: str
    include_last: int = 10
    format: Literal["markdown", "json"] = "markdown"


class Retrieval(msgspec.Struct, frozen=True, kw_only=True):
    jit_tools: tuple[Literal["grep", "head", "tail", "search"], ...] = ()


class ContextPolicy(msgspec.Struct, frozen=True, kw_only=True):
    compaction: Compaction | None = None
    notes: Notes | None = None
    retrieval: Retrieval = Retrieval()


class Skill(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    path: str
    description: str = ""


class PythonTool(msgspec.Struct, frozen=True, kw_only=True):
    callable: str


class HttpExecutor(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    base_url: str
    description: str = ""
    headers: dict[str, str] = {}
    timeout: float = 30
    retries: int = 0


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    python: tuple[PythonTool, ...] = ()
    http_executors: tuple[HttpExecutor, ...] = ()
    plugins: tuple[str, ...] = ()
    mcp: tuple[WorkflowServer, ...] = ()


class AgentSpec(msgspec.Struct, frozen=True, kw_only=True):
    prompt: str
    tools: tuple[str, ...] | None = None
    """The declared tools that it gets; None for all of them."""
    skills: tuple[str, ...] | None = None
    provider: str | None = None
    model_id: str | None = None
    host: str | None = None
    region: str | None = None
    inference: Inference = Inference()
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None
    conversation: Literal["continue", "fresh"] | None = None
    """Whether it goes on with its conversation when it appears again; by default it does."""


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    content: str = msgspec.field(name="from")


class Outputs(msgspec.Struct, frozen=True, kw_only=True):
    artifacts: tuple[Artifact, ...] = ()


class Guardrails(msgspec.Struct, frozen=True, kw_only=True):
    deny_network: bool = False
    allow_tools: tuple[str, ...] | None = None


class Security(msgspec.Struct, frozen=True, kw_only=True):
    consent: dict[str, Literal["ask", "allow", "deny"]] = {}
    workspace: tuple[str, ...] | None = None
    http_allow: tuple[str, ...] = ()
    guardrails: Guardrails = Guardrails()


class BaseSpec(msgspec.Struct, frozen=True, kw_only=True):
    """All of a workflow but its pattern: `loader.Spec` adds that, and patterns see no more than this."""

    version: int
    name: str
    runtime: Runtime = Runtime()
    agents: dict[str, AgentSpec] = {}
    description: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    inputs: Inputs = Inputs()
    env: Env = Env()
    telemetry: Telemetry = Telemetry()
    context_policy: ContextPolicy = ContextPolicy()
    skills: tuple[Skill, ...] = ()
    tools: Tools = Tools()
    outputs: Outputs = Outputs()
    security: Security = Security()

    file: Path = Path()
    """Where it was read from; relative paths in it are relative to that file's directory."""
    variables: dict[str, Any] = {}
    """The inputs that were given when it was loaded."""
    environment: tuple[VariableUse, ...] = ()
    """Where it uses environment variables."""
    model_given: dict[str, str] = {}
    """The provider, the model_id and the host that its user named, on the command line."""
    is_imported: bool = False
    """Whether it came with somebody else's run: consent that its file gives is not for calls from there."""
    is_foreign: bool = False
    """Whether it came with somebody else's run, and is not what its file says: trust in that is not its."""
    texts: dict[str, str] = {}
    """What it was made of: the text of each file by its absolute path, the workflow's own first."""
    workflows: "dict[str, BaseSpec]" = {}
    """The workflows that its steps run, by what the steps call their files."""
    tool_outputs: dict[str, dict[str, Any]] = {}
    """The output schemas of the tools that its steps call, once those are known."""
    unnamed_tools: tuple[str, ...] = ()
    """Tools that nobody named: their code runs when one is called for the first time, not before."""
    positions: dict[str, Position] = {}
    origins: dict[str, str] = {}
    """Where its text has what another spelling puts elsewhere, by the pointer that it has here."""
    remarks: tuple[Issue, ...] = ()
    """What reading it found worth saying: warnings."""

    @property
    def family(self) -> "list[BaseSpec]":
        """It, and all workflows that it runs, directly or not; each file once."""
        found: dict[Path, BaseSpec] = {}
        waiting: list[BaseSpec] = [self]
        while waiting:
            spec = waiting.pop(0)
            if spec.file not in found or spec is self:
                found[spec.file] = spec
                waiting += spec.workflows.values()
        return list(found.values())

    @property
    def asks_humans(self) -> bool:
        """Whether one of its own steps asks a human, or is reviewed by one."""
        return False

    def position(self, pointer: str) -> Position:
        """Where a JSON pointer stands in the file, or the nearest thing around it that is known."""
        while pointer not in self.positions and pointer:
            pointer = pointer.rpartition("/")[0]
        return self.positions.get(pointer, (str(self.file), 0, 0))

    def key_at(self, pointer: str) -> str:
        """What the file calls the key at a pointer."""
        return written_pointer(pointer, self.origins).rpartition("/")[2]

    def issue(self, pointer: str, reason: str, remediation: str = "", severity: Severity = "error") -> Issue:
        file, line, column = self.position(pointer)
        return Issue(
            pointer=written_pointer(pointer, self.origins),
            reason=reason,
            remediation=remediation,
            severity=severity,
            file=file,
            line=line,
            column=column,
        )
