"""Names that a file of another runner uses and does not declare: inputs, tools, and names that mean nothing.

What they mean depends on where they stand, so this needs a Spec. What it finds is written into the document
(inputs and tools are declared, text that is not a template is marked as such), and the Spec is made again.
"""

from collections.abc import Callable, Iterator, Sequence
from math import inf

import msgspec

from strands_cli.documents.problems import json_pointer, pointer_steps
from strands_cli.documents.rewriting import Fragment
from strands_cli.loader.dialect import Translation, is_slip
from strands_cli.loader.spec import Spec
from strands_cli.patterns.outline import tool_name
from strands_cli.patterns.pattern import AgentPlace, HumanStep
from strands_cli.patterns.scope import Names, reachable_names, scope_names, unresolved_name
from strands_cli.templates import Meter, Name, names_in_template, template_parts

_SHOWN = 60
"""A longer piece of a template is not shown as it is, but by its names."""
_NEVER_INPUTS = ("inputs", "last_response", "secrets", "steps", "tasks", "branches", "nodes", "TRACE")


class _Text(msgspec.Struct, frozen=True):
    """A template of the file, and what it may use: one scope for each step that renders it."""

    pointer: str
    text: str
    scopes: Sequence[Names]
    agent: str = ""
    """Of a prompt."""
    is_human: bool = False


def settle_names(made: Translation, spec: Spec) -> bool:
    """Declares what a file uses undeclared; whether there was anything."""
    with Meter(seconds=inf).running():  # whatever templates a file has, reading it is quick
        return _settle(made, spec)


def _settle(made: Translation, spec: Spec) -> bool:
    before = made.root.plain
    spec = msgspec.structs.replace(spec, variables={})  # the same for every run
    places = tuple(spec.pattern.places(spec))
    _declare_tools(made, spec)
    implied = frozenset[str]()
    if "inputs" not in made.root.mapping:
        implied = _declare_inputs(made, spec, [*_texts(spec, places)])
    if made.is_translated:
        _add_needs(made, spec, places)
        for text in _texts(spec, places):
            if text.agent or text.is_human:
                _keep_unknown_names(made, text, implied)
    return bool(made.root.plain != before)


def _texts(spec: Spec, places: Sequence[AgentPlace]) -> Iterator[_Text]:
    for place in places:
        is_review = place.pointer.endswith("/review") and not place.pointer.endswith("/nodes/review")
        is_human = is_review or isinstance(place.step, HumanStep)
        for pointer, text, scope in place.texts:
            if "{" in text:
                yield _Text(pointer, text, [scope()], is_human=is_human)
    for name, agent in spec.agents.items():
        if "{" in agent.prompt:
            scopes = [place.scope() for place in places if place.agent == name]
            yield _Text(json_pointer(("agents", name, "prompt")), agent.prompt, scopes, agent=name)
    seen = scope_names(spec, TRACE=None, last_response=None, **spec.pattern.artifact_names(spec))
    for index, artifact in enumerate(spec.outputs.artifacts):
        at = f"/outputs/artifacts/{index}"
        yield _Text(f"{at}/path", artifact.path, [seen])
        yield _Text(f"{at}/from", artifact.content, [seen])


def _part_at(made: Translation, pointer: str) -> Fragment | None:
    """The part at a pointer; None for one of another file."""
    part: Fragment | None = made.root
    for name in pointer_steps(pointer):
        if part is not None and part.mapping:
            part = part.mapping.get(name)
        elif part is not None:
            part = part.items[int(name)] if name.isdigit() and int(name) < len(part.items) else None
    return part


def _nearest_part(made: Translation, pointer: str) -> Fragment:
    while (part := _part_at(made, pointer)) is None:
        pointer = pointer.rpartition("/")[0]
    return part


# --- Inputs -----------------------------------------------------------------------------------------------


def _declare_inputs(made: Translation, spec: Spec, texts: Sequence[_Text]) -> frozenset[str]:
    """Where a file has no inputs, an unknown name is one that must be given."""
    found: dict[str, Fragment] = {}
    for text in texts:
        for word in names_in_template(text.text)[0]:
            name = _implied_input(word, text, spec)
            if name and name not in found:
                found[name] = _nearest_part(made, text.pointer)
    if found:
        declared = {name: Fragment("string", part.at, is_new=True) for name, part in found.items()}
        required = Fragment(declared, "", is_new=True)
        _insert(made, "inputs", Fragment({"required": required}, "", is_new=True))
        first, first_part = next(iter(found.items()))
        are = "are not declared: they are inputs" if len(found) > 1 else "is not declared: it is an input"
        reason = f"{', '.join(found)} {are} of type string that must be given."
        remedy = f"Use --var {first}=…, or declare inputs: {{required: {{{first}: string}}}}."
        made.tell(first_part, reason, remedy, "warning")
    return frozenset(found)


def _implied_input(word: Name, text: _Text, spec: Spec) -> str:
    """The name of the input that a name in a template stands for; empty where it stands for none."""
    name, path = word.name, word.path
    if name == "inputs" and len(path) == 1 and isinstance(path[0], str):
        name, path = path[0], ()
    if word.guarded or not text.scopes or (path and path[0] not in dir(str)):
        return ""
    own = (*_NEVER_INPUTS, *spec.pattern.names, *spec.pattern.review_names)
    if name in own or any(unresolved_name(seen, name, ()) is None for seen in text.scopes):
        return ""
    return "" if _is_slip(name, text) else name


def _is_slip(name: str, text: _Text) -> bool:
    return is_slip(name, {other for seen in text.scopes for other in (*seen.known, *seen.aliases)} - {name})


def _insert(made: Translation, key: str, part: Fragment) -> None:
    """Adds a section in front of the agents, where a reader looks for it."""
    sections = {}
    for name, section in made.root.value.items():
        if name in ("agents", "pattern") and key not in sections:
            sections[key] = part
        sections[name] = section
    made.root.value = sections


# --- Tools ------------------------------------------------------------------------------------------------


def _declare_tools(made: Translation, spec: Spec) -> None:
    """A native tool that an agent names needs no declaration there."""
    known = {tool_name(tool.callable) for tool in spec.tools.python}
    known |= {executor.id for executor in spec.tools.http_executors} | {
        server.id for server in spec.tools.mcp
    }
    known |= made.texts("context_policy.retrieval.jit_tools.*")
    lists = (part for path in _TOOL_LISTS for _, part in made.find(path) if isinstance(part.value, str))
    undeclared = {part.value: part for part in lists if tool_name(part.value) not in known}
    if not undeclared:
        return
    from strands_cli.tools.registry import ToolRegistry
    from strands_cli.tools.sources.modules import is_file_reference

    registry = ToolRegistry.to_look_at(spec.file)
    if "tools" not in made.root.mapping:
        _insert(made, "tools", Fragment({}, "", is_new=True))
    tools = made.root.value["tools"]
    python = tools.mapping.get("python", Fragment([], tools.at, is_new=True))
    if not isinstance(tools.value, dict) or not isinstance(python.value, list):
        return
    for reference, part in undeclared.items():
        info = None if is_file_reference(reference) else registry.get_by_import_path(reference)
        if info is None or info.source != "native":
            continue
        tools.value["python"] = python
        python.value.append(Fragment(reference, part.at, is_new=True))
        reason = f"The native tool {reference!r} is not declared in tools.python; it is used as if it were."
        made.tell(part, reason, f"Declare it: tools: {{python: [{reference}]}}", "warning")
    if not tools.value:
        del made.root.value["tools"]


_STEPS = (
    "steps.*",
    "tasks.*",
    "nodes.*",
    "routes.*.steps.*",
    "branches.*.steps.*",
    *("router", "producer", "evaluator", "orchestrator", "worker", "reduce", "writeup"),
)
_TOOL_LISTS = ("agents.*.tools.*", *(f"pattern.config.{step}.tools.*" for step in _STEPS))


# --- Tasks ------------------------------------------------------------------------------------------------


def _add_needs(made: Translation, spec: Spec, places: Sequence[AgentPlace]) -> None:
    """A task there sees all that have finished; here it sees what it needs, so what it names, it needs."""
    if spec.pattern.kind != "workflow":
        return
    tasks = made.at("pattern.config.tasks").items
    ids = [str(part.mapping["id"].value) if "id" in part.mapping else "" for part in tasks]
    needs = {
        name: [str(need.value) for need in part.mapping.get("needs", part).items]
        for name, part in zip(ids, tasks, strict=True)
    }
    for name, part, place in zip(ids, tasks, places, strict=False):
        words = (word for _, text, _ in place.texts for word in names_in_template(text)[0])
        for other in dict.fromkeys(str(word.path[0]) for word in words if word.name == "tasks" and word.path):
            is_late = other in needs and other not in reachable_names(needs, needs[name])
            if not is_late or name in reachable_names(needs, [other]):
                continue
            needs[name].append(other)
            listed = part.value.setdefault("needs", Fragment([], part.at, is_new=True))
            if not isinstance(listed.value, list):
                return
            listed.value.append(Fragment(other, listed.at, is_new=True))
            reason = f"The task {name!r} uses the answer of {other!r}, so it now waits for it."
            made.tell(part, reason, f"Add {other} to its deps.", "warning")


# --- Names that mean nothing ------------------------------------------------------------------------------


def _keep_unknown_names(made: Translation, text: _Text, implied: frozenset[str]) -> None:
    """Prompts and questions are plain text there: what means nothing in a template stays as it is written."""
    part = _part_at(made, text.pointer)
    if part is None or not text.scopes:
        return

    def is_meant(word: Name) -> bool:
        found = (unresolved_name(seen, word.name, word.path) is None for seen in text.scopes)
        is_slip = not text.is_human and _is_slip(word.name, text)
        return word.guarded or word.name in implied or is_slip or any(found)

    unknown: dict[str, None] = {}
    # What is shown below a question is a template there too.
    length = made.questions.get(part.at, len(part.value))
    question, shown = part.value[:length], part.value[length:]
    question = "".join(_kept(one, is_meant, unknown) for one in template_parts(question))
    part.value = question + shown
    if unknown:
        where = f"any step of {text.agent!r}" if text.agent else "this question"
        stays, mean = "stays as it is written", "it means"
        if len(unknown) > 1:
            stays, mean = "stay as they are written", "they mean"
        reason = f"{', '.join(unknown)} {stays}: {mean} nothing in {where}."
        made.tell(part, reason, "Declare what is meant under inputs, or remove it.", "warning")


def _kept(text: str, is_meant: Callable[[Name], bool], unknown: dict[str, None]) -> str:
    """A piece of a template, marked as text if a name in it means nothing."""
    found, flaws = names_in_template(text)
    lost = [word.name for word in found if not is_meant(word)]
    is_comment = text.startswith("{#")
    if not (lost or flaws or is_comment):
        return text
    is_short = text.startswith(("{{", "{#")) and len(text) <= _SHOWN and "\n" not in text
    unknown |= dict.fromkeys([text] if is_short else (f"{{{{ {name} }}}}" for name in lost)) or {
        "The template": None
    }
    if "endraw" in text:
        import json

        return f"{{{{ {json.dumps(text, ensure_ascii=False)} }}}}"
    return f"{{% raw %}}{text}{{% endraw %}}"
