"""`strands explain`"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import get_terminal_size

import click

from strands_cli.capability import all_asks, check_capability
from strands_cli.cli.options import file_argument, load_workflow, log_option, var_option
from strands_cli.cli.output import Styled, print_issues, print_line
from strands_cli.cli.plan import resolved_model
from strands_cli.cli.terminal import visible_text, wrapped_text
from strands_cli.cli.tool import first_sentence, plugin_access, tool_remarks
from strands_cli.drawing.overview import budget_texts, english_list, outline_of, story_sentences
from strands_cli.loader.spec import Spec
from strands_cli.patterns.outline import Outline, first_line, tool_name
from strands_cli.patterns.pattern import times_text
from strands_cli.plugins.manifest import setting_variable
from strands_cli.plugins.permissions import access_lines
from strands_cli.secrets import without_credentials
from strands_cli.toolkit.info import ToolCategory, ToolInfo
from strands_cli.tools.toolset import ToolSet

UsedTools = Mapping[str, ToolInfo | None]
"""What the references of agents mean; None for what is not known here."""

_WIDEST = 100
_TOUCHES = {
    ToolCategory.HTTP: "It reaches the network.",
    ToolCategory.FILE_OPS: "It works on files in the workspace.",
    ToolCategory.DATA: "It works on data.",
    ToolCategory.SYSTEM: "It acts on this machine.",
    ToolCategory.COMPUTE: "It runs code.",
}
_CONSENT = {
    "ask": "You are asked before each call, as the file requires.",
    "allow": "The file gives consent to every call.",
    "deny": "The file denies every call.",
}


@click.command()
@file_argument
@var_option
@click.option("--verbose", "-v", is_flag=True, help="Show prompts and descriptions of tools in full.")
@log_option
def explain(file: Path, pairs: tuple[str, ...], verbose: bool) -> None:
    """Describe a workflow in prose: steps, agents, tools, data that leaves this machine, limits.

    Nothing is run, and no tool is imported. Problems are listed at the end.
    """
    spec = load_workflow(file, pairs)
    tools = ToolSet(spec)
    outline = outline_of(spec, tools)
    used = dict[str, ToolInfo | None]()  # an agent may call a declared tool by its id alone
    for reference in dict.fromkeys(tool for box in outline.work for tool in box.tools):
        found = tools.find(reference)
        used[reference] = found.info if found else tools.resolve(reference)
    sections = {
        "What it does": story_sentences(spec, outline),
        "What it needs": _requirement_sentences(spec),
        "Agents": _agent_sentences(spec, outline, verbose=verbose),
        "Workflows that it runs": _workflow_sentences(spec),
        "What the tools may touch": (
            *_tool_sentences(spec, tools, used, verbose=verbose),
            *_server_sentences(tools),
        ),
        "What leaves this machine": _outgoing_data_sentences(spec, outline, used),
        "What needs your trust": _trust_sentences(spec, tools),
        "What it writes": _written_file_sentences(spec),
        "Limits": _limit_sentences(spec, outline),
    }
    print_line(Styled(spec.name))
    _print_paragraph(spec.description)
    for heading, sentences in sections.items():
        for index, sentence in enumerate(sentences):
            if index == 0:
                print_line()
                print_line(Styled(heading))
            _print_paragraph(sentence)
    if problems := check_capability(spec, tools=tools).errors:
        print_line()
        print_line(Styled("What prevents a run"))
        print_issues(problems, err=False)


def _print_paragraph(text: str) -> None:
    width = max(min(get_terminal_size().columns, _WIDEST), 30)
    for line in wrapped_text(visible_text(" ".join(text.split())), width - 2):
        print_line(f"  {line}")


def _agent_sentences(spec: Spec, outline: Outline, *, verbose: bool) -> Iterator[str]:
    used = dict[str, dict[str, None]]()
    for box in outline.work:
        if box.agent:
            used[box.agent] = used.get(box.agent, {}) | dict.fromkeys(box.tools)
    for agent, references in used.items():
        model = resolved_model(spec, agent)
        if model is None:
            yield f"{first_line(agent)} is not declared in the file."
            continue
        tools = [tool_name(tool) for tool in references]
        may = f"may call {english_list(tools)}" if tools else "has no tools"
        prompt = spec.agents[agent].prompt
        start = f"Its prompt: {prompt}" if verbose else f"Its prompt starts: {first_line(prompt)!r}."
        yield f"{agent} asks {model} and {may}. {start}"
        if any(tool.partition("@")[0] == "python_exec" for tool in tools):
            yield f"Code that {agent} runs in python_exec may call the same tools and no others."
    unused = [agent for agent in spec.agents if agent not in used]
    if unused:
        yield f"Declared but unused: {english_list(unused)}."


def _workflow_sentences(spec: Spec) -> Iterator[str]:
    """Each is a file of its own, with its own agents and tools."""
    for inner in spec.family[1:]:
        about = f": {first_line(inner.description)}" if inner.description else ""
        asks = english_list([f"{agent} asks {resolved_model(inner, agent)}" for agent in inner.agents])
        yield f"{inner.file}{about}. {asks or 'It asks no model'}. 'strands explain {inner.file}' says more."


def _tool_sentences(spec: Spec, tools: ToolSet, used: UsedTools, *, verbose: bool) -> Iterator[str]:
    """None of them is loaded."""
    unlisted = {one.id for one in tools.servers if one.declared and not one.infos}
    executors = {executor.id: executor for executor in spec.tools.http_executors}
    for reference, info in used.items():
        if executor := executors.get(reference):
            what = f" {first_line(executor.description).removesuffix('.')}." if executor.description else ""
            often = f", up to {executor.retries} times more where it may be repeated"
            where = f"to {without_credentials(executor.base_url)} and to no other origin"
            where += often if executor.retries else ""
            yield f"{reference}:{what} It sends requests {where}."
        elif info:
            yield _tool_explanation(spec, reference, info, verbose=verbose)
        elif reference.partition("__")[0] not in unlisted:
            yield f"{first_line(reference)} is not known here; 'strands list-tools' shows what is."
    categories = {info.category for info in used.values() if info}
    if not used:
        yield "No agent has tools."
    if ToolCategory.FILE_OPS in categories:
        roots = spec.security.workspace
        where = "that of the project's settings"
        if roots is not None:
            where = f"{', '.join(roots)} (relative to the workflow)"
        yield f"The workspace is {where}."
    if ToolCategory.HTTP in categories and spec.security.http_allow:
        yield f"Besides public addresses these may be reached: {', '.join(spec.security.http_allow)}."


def _server_sentences(tools: ToolSet) -> Iterator[str]:
    """What the MCP servers of a workflow are, and what they may do."""
    for one in tools.servers:
        if one.declared is None:
            continue
        server, what = one.declared.server, without_credentials(one.declared.server.text)
        if server.url:
            yield f"The MCP server {one.id} is {what}. What its tools are given goes there."
        else:
            leaves = "may go anywhere" if server.network else "stays on this machine"
            yield f"The MCP server {one.id} is {what}. It reads the workspace; what it is given {leaves}."
        if not one.infos:
            check = f"'strands mcp check {one.declared.argument}' starts it and lists them."
            yield f"The tools of {one.id} are not known yet: {check}"


def _tool_explanation(spec: Spec, reference: str, info: ToolInfo, *, verbose: bool) -> str:
    if access := plugin_access(info):
        touches = f"Its plugin asks for: {'; '.join(access_lines(*access))}."
    else:
        touches = _TOUCHES[info.category] if info.category else "It does not declare what it touches."
        touches = "It touches what its server may touch." if info.source == "mcp" else touches
    rules = spec.security.consent
    named = [name for name in (reference, info.id, info.reference, tool_name(reference)) if name in rules]
    if named:
        consent = _CONSENT[rules[named[0]]]
    else:
        consent = "You are asked before each call." if info.requires_consent else "It needs no consent."
    about = info.description.rstrip(".") if verbose else first_sentence(info.description)
    what = f"{info.id} {info.version} from {info.origin}: {about}."
    return " ".join([what, touches, consent, *tool_remarks(info)])


def _outgoing_data_sentences(spec: Spec, outline: Outline, used: UsedTools) -> Iterator[str]:
    models = (resolved_model(spec, box.agent) for box in outline.work)
    for model in {str(model): model for model in models if model}.values():
        local = ", which is on this machine" if model.is_local else ""
        yield f"Prompts, inputs and results of tools go to {model}{local}."
    compaction = spec.context_policy.compaction
    if compaction is not None and compaction.enabled and compaction.summarization_model:
        yield f"Long conversations are summarised by {compaction.summarization_model}, at the same provider."
    if any(info and info.category is ToolCategory.HTTP for info in used.values()):
        yield "What an agent sends with a tool that reaches the network goes where the agent says."
    for info in filter(None, used.values()):
        access = plugin_access(info)
        if access is not None and access[1].network:
            manifest, tool = access
            settings = manifest.settings_of(tool).items()
            variables = [setting_variable(manifest.name, name, setting) for name, setting in settings]
            given = ", ".join(["its input", "the files that it may read", *tool.env, *variables])
            yield f"{info.id} opens its own connections: what it is given ({given}) may go anywhere."
    for executor in spec.tools.http_executors:
        if executor.id in used:
            headers = f" with the headers {', '.join(executor.headers)}" if executor.headers else ""
            yield f"Requests of {executor.id} go to {without_credentials(executor.base_url)}{headers}."
    telemetry = spec.telemetry
    if telemetry.otlp_endpoint is not None:
        redacted = {"inputs": telemetry.redact.tool_inputs, "outputs": telemetry.redact.tool_outputs}
        shown = " and ".join(name for name, hidden in redacted.items() if not hidden)
        parts = f"with the {shown} of tools" if shown else "without the inputs and outputs of tools"
        yield f"Spans go to {without_credentials(telemetry.otlp_endpoint)}, {parts}."


def _trust_sentences(spec: Spec, tools: ToolSet) -> Iterator[str]:
    for ask in all_asks(spec, tools):
        state = (
            "You have trusted this."
            if ask.trusted
            else f"You have not trusted this: strands trust {spec.file}"
        )
        yield f"{ask.place} {ask.text}. {ask.reason} {state}"


def _written_file_sentences(spec: Spec) -> Iterator[str]:
    for artifact in spec.outputs.artifacts:
        yield f"{first_line(artifact.path)}, inside the output directory, from {first_line(artifact.content)}"
    if spec.context_policy.notes:
        yield f"{spec.context_policy.notes.file}: notes of the steps for the next ones."
    if not spec.outputs.artifacts and not spec.context_policy.notes:
        yield "It writes no files itself."


def _requirement_sentences(spec: Spec) -> Iterator[str]:
    for name, declared in spec.inputs.declared.items():
        need = "must be given" if name in spec.inputs.required else "may be given"
        need = "is given" if name in {**spec.inputs.values, **spec.variables} else need
        about = f": {first_line(declared.description)}" if declared.description else ""
        yield f"The input {name} ({declared.type or 'anything'}) {need}{about}."
    for name in spec.env.variables:
        places = [use.place for use in spec.environment if use.name == name]
        if places:
            yield f"The environment variable {name} is used in {english_list(places)}."
    for secret in spec.env.secrets:
        place = f"the file {secret.path}" if secret.source == "file" else f"${secret.key or secret.name}"
        yield f"The secret {secret.name} is read from {place} and never shown."


def _limit_sentences(spec: Spec, outline: Outline) -> Iterator[str]:
    least, most = outline.calls.least, outline.calls.most
    if not most:
        yield "No model is asked."
    often = times_text(least) if least == most else f"{least} to {most} times"
    more = ", and once more for each round of tool calls" if outline.has_tool_rounds else ""
    if most:
        yield f"A model is asked {often}{more}."
    budgets = budget_texts(spec)
    ends = f"A run stops after {english_list(budgets, 'or')}."
    yield ends if budgets else "No budget limits a run."
    policy = spec.runtime.failure_policy
    if policy.retries and most:
        often = times_text(policy.retries)
        yield f"A model request that fails for a temporary reason is retried at most {often}."
