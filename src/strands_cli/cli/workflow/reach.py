"""What the tools of a workflow may touch, and what leaves the machine; none is loaded."""

from collections.abc import Iterable, Iterator

from strands_cli.capability.tools import declared_tools, find_declared, resolve_reference
from strands_cli.cli.plugin.access import accesses
from strands_cli.cli.tool import first_sentence, plugin_access, remarks
from strands_cli.cli.workflow.source import asked_model
from strands_cli.cli.workflow.texts import first_line
from strands_cli.patterns.outline import Outline, tool_name
from strands_cli.plugins.manifest import variable_of
from strands_cli.toolkit.info import ToolCategory, ToolInfo
from strands_cli.types import Spec
from strands_cli.types.spec import HttpExecutor

_TOUCHES = {
    ToolCategory.HTTP: "It reaches the network.",
    ToolCategory.FILE_OPS: "It works on files of the workspace.",
    ToolCategory.DATA: "It works on data.",
    ToolCategory.SYSTEM: "It acts on this machine.",
    ToolCategory.COMPUTE: "It runs code.",
}
_CONSENT = {
    "ask": "Consent is asked before each call, as the file wants it.",
    "allow": "The file gives consent to every call.",
    "deny": "The file denies every call.",
}


def info_of(spec: Spec, reference: str) -> ToolInfo | None:
    """What a reference means; an agent may call a declared tool by its id alone."""
    declared = find_declared(spec, declared_tools(spec), reference)
    return declared.info if declared else resolve_reference(spec, reference)


def tool_sentences(spec: Spec, used: Iterable[str]) -> Iterator[str]:
    executors = {executor.id: executor for executor in spec.tools.http_executors}
    for reference in used:
        if reference in executors:
            yield _executor(executors[reference])
        else:
            yield _tool(spec, reference)


def _tool(spec: Spec, reference: str) -> str:
    info = info_of(spec, reference)
    if info is None:
        return f"{first_line(reference)} is not known here; 'strands list-tools' shows what is."
    what = first_sentence(info.description)
    notes = " ".join(remarks(info))
    named = f"{info.id} {info.version} from {info.origin}"
    return " ".join(
        filter(None, [f"{named}: {what}.", _touches(info), _consent(spec, reference, info), notes])
    )


def _touches(info: ToolInfo) -> str:
    if declared := plugin_access(info):
        return f"Its plugin asks for: {'; '.join(accesses(*declared))}."
    return _TOUCHES[info.category] if info.category else "It does not say what it touches."


def _consent(spec: Spec, reference: str, info: ToolInfo) -> str:
    rule = next(
        (spec.security.consent[name] for name in _names(reference, info) if name in spec.security.consent), ""
    )
    if rule:
        return _CONSENT[rule]
    return "Consent is asked before each call." if info.requires_consent else "It asks for no consent."


def _names(reference: str, info: ToolInfo) -> tuple[str, ...]:
    return reference, info.id, info.reference, tool_name(reference)


def _executor(executor: HttpExecutor) -> str:
    what = f" {first_line(executor.description).removesuffix('.')}." if executor.description else ""
    retries = f", up to {executor.retries} times more where it may be repeated" if executor.retries else ""
    return f"{executor.id}:{what} It sends requests to {executor.base_url} and to no other origin{retries}."


def touching(spec: Spec, used: Iterable[str]) -> Iterator[str]:
    used = [*used]
    categories = {info.category for tool in used if (info := info_of(spec, tool))}
    if not used:
        yield "No agent has a tool."
    if ToolCategory.FILE_OPS in categories:
        yield f"The workspace is {_workspace(spec)}."
    if ToolCategory.HTTP in categories and spec.security.http_allow:
        allowed = ", ".join(spec.security.http_allow)
        yield f"Besides public addresses these may be reached: {allowed}."


def _workspace(spec: Spec) -> str:
    if spec.security.workspace is not None:
        return ", ".join(spec.security.workspace) + " (relative to the workflow)"
    return "that of the project's settings"


def leaving(spec: Spec, outline: Outline) -> Iterator[str]:
    models = {
        str(model): model for box in outline.work if (model := asked_model(spec, box.agent)) is not None
    }
    for model in models.values():
        if model.is_local:
            yield f"Prompts, inputs and results of tools go to {model}, which is on this machine."
        else:
            yield f"Prompts, inputs and results of tools go to {model}."
    used = dict.fromkeys(tool for box in outline.work for tool in box.tools)
    if any((info := info_of(spec, tool)) and info.category is ToolCategory.HTTP for tool in used):
        yield "What an agent sends with a tool that reaches the network goes where the agent says."
    yield from _leaving_by_plugins(spec, used)
    for executor in spec.tools.http_executors:
        if executor.id in used:
            headers = f" with the headers {', '.join(executor.headers)}" if executor.headers else ""
            yield f"Requests of {executor.id} go to {executor.base_url}{headers}."
    yield from _telemetry(spec)


def _leaving_by_plugins(spec: Spec, used: Iterable[str]) -> Iterator[str]:
    for reference in used:
        info = info_of(spec, reference)
        declared = plugin_access(info) if info else None
        if info is None or declared is None or not declared[1].network:
            continue
        manifest, tool = declared
        settings = manifest.settings_of(tool).items()
        variables = [*tool.env, *(variable_of(manifest.name, name, setting) for name, setting in settings)]
        given = "".join(f", {name}" for name in variables)
        yield (
            f"{info.id} opens connections of its own: what it is given (its input, the files that it may read"
            f"{given}) may go anywhere."
        )


def _telemetry(spec: Spec) -> Iterator[str]:
    told = spec.telemetry
    if told.otlp_endpoint is None:
        return
    parts = {"inputs": told.redact.tool_inputs, "outputs": told.redact.tool_outputs}
    shown = [name for name, redacted in parts.items() if not redacted]
    with_tools = (
        f"with the {' and '.join(shown)} of tools" if shown else "without the inputs and outputs of tools"
    )
    yield f"Spans go to {told.otlp_endpoint}, {with_tools}."
