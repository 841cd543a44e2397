"""Other spellings of workflow files, those of the public runner, brought to ours before the schema sees them.

`MOVES` says where a key belongs here; what follows says what a value means here, and what has no effect.
Nothing else knows these spellings. Positions and pointers of the original text go along with each part
(`documents.rewriting`), so that an error names what its author wrote. Where our word means the same, nothing
is said; where it does not quite, there is a warning.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any

from strands_cli.documents.problems import describe_value
from strands_cli.documents.reader import Document
from strands_cli.documents.rewriting import Fragment, fragments_of, rewritten_document
from strands_cli.errors import Issue, Severity, closest, did_you_mean

_CONFIG = "pattern.config"
MOVES = {
    "runtime.temperature": "runtime.inference.temperature",
    "runtime.top_p": "runtime.inference.top_p",
    "runtime.max_tokens": "runtime.inference.max_tokens",
    "runtime.failure_policy.wait_min": "runtime.failure_policy.wait_s",
    "runtime.failure_policy.wait_max": "runtime.failure_policy.max_wait_s",
    "telemetry.otel.endpoint": "telemetry.otlp_endpoint",
    "telemetry.otel.service_name": "telemetry.service_name",
    "telemetry.otel.sample_ratio": "telemetry.sample_rate",
    "agents.*.ref": "agents.*.$ref",
    "pattern.config.tasks.*.deps": "pattern.config.tasks.*.needs",
    "pattern.config.routes.*.then": "pattern.config.routes.*.steps",
    "pattern.config.router.review_router": "pattern.config.router.review",
    "pattern.config.accept.min_score": "pattern.config.min_score",
    "pattern.config.accept.max_iters": "pattern.config.max_iters",
    "pattern.config.revise_prompt": "pattern.config.revise",
    "pattern.config.review_gate": "pattern.config.evaluator.review",
    "pattern.config.orchestrator.limits.max_workers": "pattern.config.max_workers",
    "pattern.config.orchestrator.limits.max_rounds": "pattern.config.max_rounds",
    "pattern.config.worker_template": "pattern.config.worker",
    "pattern.config.decomposition_review": "pattern.config.orchestrator.review",
    "pattern.config.reduce_review": "pattern.config.reduce.review",
    "pattern.config.max_iterations": "pattern.config.max_visits",
}
"""Where each key belongs; `*` stands for any name or number. A key is moved out of a mapping that only the
other spelling has, and the mapping goes with its last key."""
ONLY_THERE = ("telemetry.otel", "pattern.config.accept", "pattern.config.orchestrator.limits")
NO_EFFECT = {
    "env.mounts": "nothing is mounted into a run",
    "skills.*.preload_metadata": "agents always see the names and descriptions of their skills",
    "context_policy.compaction.summary_ratio": "all messages but the recent ones are summarised",
    "context_policy.retrieval.mcp_servers": "servers belong under tools.mcp",
    "security.guardrails.pii_redaction": "secrets are redacted, personal data is not",
}
_TOOL_WORDS = ("http_executors", "python", "mcp")
"""Names of sections that were meant as the tools in them, and name no tool."""
_HUMAN_KEYS = ("prompt", "context_display", "default", "timeout_seconds", "validation")
_STEP_KEYS = ("agent", "tool", "workflow", "human", "id", "needs", "deps", "description", "input", "review")
"""What may stand beside them, or is refused for a reason of its own."""
_FREE = ("arguments", "inputs", "foreach", "vars")
"""Parts of steps whose keys are their author's."""
_NAMED = ("nodes", "routes")
"""Parts of patterns that hold steps under the names of their author, which may be any word of ours."""
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*")
_VARIABLE = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_TRACE = re.compile(r"\{\{\s*\$TRACE\s*\}\}|(?<![\w$])\$TRACE\b")
_ALIKE = 0.8
"""From here on, a name is a slip of the pen for another one."""
MAX_TASKS = 256
"""There is no limit there; this is the highest one here."""
MAX_CHOICE_TEXT = 200_000
"""How many characters the conditions of all choices may become: each repeats those before it."""


class Translation:
    """A document on its way to our spelling."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.root = fragments_of(document.value)
        self.remarks: list[Issue] = []
        self.issues: list[Issue] = []
        self.questions: dict[str, int] = {}
        """How long a question is that is followed by a context_display, by its pointer in the text."""
        self.choice_text = 0
        """How many characters the conditions of choices have become so far."""
        self.is_translated = False
        """Whether the file has anything of the other spelling."""

    def document(self) -> Document:
        """What is to be checked and read: the file in our spelling, with the places of its text."""
        found = rewritten_document(self._document, self.root)
        found.issues += self.issues
        return found

    def tell(self, part: Fragment, reason: str, remedy: str, severity: Severity = "error") -> None:
        told = self.issues if severity == "error" else self.remarks
        told.append(self._document.issue_at(part.at, reason, remedy, severity))

    def find(self, path: str) -> Iterator[tuple[list[str], Fragment]]:
        """The parts at a path of the tables, each with its own path."""
        found: list[tuple[list[str], Fragment]] = [([], self.root)]
        for step in path.split("."):
            found = [([*way, key], child) for way, part in found for key, child in _children(part, step)]
        yield from found

    def texts(self, *paths: str) -> set[str]:
        """Returns the strings at these paths."""
        return {part.value for path in paths for _, part in self.find(path) if isinstance(part.value, str)}

    def at(self, path: str) -> Fragment:
        """Returns the part at a path, or an empty one."""
        return next((part for _, part in self.find(path)), Fragment(None, ""))


def _children(part: Fragment, step: str) -> list[tuple[str, Fragment]]:
    named = part.mapping.items() or ((str(index), item) for index, item in enumerate(part.items))
    return [(key, child) for key, child in named if step in ("*", key)]


def translate(document: Document) -> Translation:
    """A workflow's document in our spelling, as far as its keys and values show what they mean."""
    made = Translation(document)
    if not isinstance(document.value, dict):
        return made
    before = {**document.value, "version": 0}
    for path, target in MOVES.items():
        for way, _ in [*made.find(path)]:
            _move(made, path, way, target)
    for path in ONLY_THERE:
        for way, part in [*made.find(path)]:
            _drop_emptied(made, way, part)
    for path, why in NO_EFFECT.items():
        for way, part in [*made.find(path)]:
            _drop_without_effect(made, way, part, why)
    for convert in _CONVERSIONS:
        convert(made)
    made.is_translated = {**made.root.plain, "version": 0} != before
    if made.is_translated:
        _keep_undeclared_variables(made)
        _declare_values(made)
    return made


def known_spelling(path: tuple[str | int, ...]) -> str:
    """The key of the other spelling that an unknown one was probably meant to be."""
    *group, name = path
    here = [
        keys[-1]
        for keys in (move.split(".") for move in (*MOVES, *NO_EFFECT))
        if len(keys) == len(path) and all(a in ("*", str(b)) for a, b in zip(keys, group, strict=False))
    ]
    return closest(str(name), here) or ""


def is_slip(name: str, known: Iterable[str]) -> bool:
    """Whether a name is almost one that is known: a mistake, not a name of another kind."""
    return any(SequenceMatcher(None, name, other).ratio() >= _ALIKE for other in known)


# --- Keys -------------------------------------------------------------------------------------------------


def _move(made: Translation, path: str, way: list[str], target: str) -> None:
    """Moves a part; within its mapping it keeps its place, so that a converted file stays readable."""
    names = iter(name for name, step in zip(way, path.split("."), strict=True) if step == "*")
    goal = [next(names) if step == "*" else step for step in target.split(".")]
    source, holder, below = _holder(made, way), made.root, 0
    part = source.value[way[-1]]
    while below < len(goal) - 1 and (child := _child(holder, goal[below])) is not None:
        holder, below = child, below + 1
    problem = ""
    if not isinstance(holder.value, dict):
        problem = f"{way[-1]!r} belongs in {goal[below - 1]!r}, which is not an object."
    elif goal[-1] == "review" and below < len(goal) - 1:
        problem = f"{way[-1]!r} needs the key {goal[below]!r}, which is not there."
    elif below == len(goal) - 1 and goal[-1] in holder.value:
        problem = f"{way[-1]!r} means the same as {goal[-1]!r}, and both are given."
    if problem or holder is not source:
        del source.value[way[-1]]
    if problem:
        made.tell(part, problem, "Remove one of them." if "both" in problem else "Remove it.")
        return
    for key in reversed(goal[below + 1 :]):
        part = Fragment({key: part}, source.at, is_new=True)
    # In the place of the key, or in front of the mapping that it is moved out of.
    place = way[below] if way[:below] == goal[:below] else ""
    moved: dict[str, Fragment] = {}
    for key, child in holder.value.items():
        moved |= {goal[below]: part} if key == place else {}
        moved |= {key: child} if key != place or holder is not source else {}
    holder.value = moved if goal[below] in moved else {**moved, goal[below]: part}


def _child(part: Fragment, key: str) -> Fragment | None:
    return part.mapping.get(key) if not part.items else part.items[int(key)]


def _holder(made: Translation, way: list[str]) -> Fragment:
    part = made.root
    for step in way[:-1]:
        part = part.mapping[step] if part.mapping else part.items[int(step)]
    return part


def _drop_emptied(made: Translation, way: list[str], part: Fragment) -> None:
    """A mapping that only the other spelling has: what is left in it belongs nowhere."""
    path = ".".join(way)
    known = [move.removeprefix(f"{path}.") for move in MOVES if move.startswith(f"{path}.")]
    if not isinstance(part.value, dict):
        reason = f"{way[-1]!r} must be an object, got {describe_value(part.plain)}."
        made.tell(part, reason, f"Its keys are {', '.join(known)}.")
    for key, left in part.mapping.items():
        hint = did_you_mean(key, known) or f"Known: {', '.join(known)}."
        made.tell(left, f"There is no key {key!r} here.", hint)
    del _holder(made, way).value[way[-1]]


def _drop_without_effect(made: Translation, way: list[str], part: Fragment, why: str) -> None:
    if part.plain not in (None, False, [], {}):
        made.tell(part, f"{way[-1]!r} has no effect here: {why}.", "Remove it.", "warning")
    holder = _holder(made, way)
    del holder.value[way[-1]]
    if not holder.value and way[:-1] == ["context_policy", "retrieval"]:
        del made.root.value["context_policy"].value["retrieval"]


# --- Values -----------------------------------------------------------------------------------------------


def _convert_words(made: Translation) -> None:
    version = made.root.mapping.get("version")
    if version is not None and (version.value == 1 or _is_version(version.value)):
        version.value = 0
    backoff = made.at("runtime.failure_policy.backoff")
    if backoff.value == "jittered":
        backoff.value = "jitter"
    if made.root.mapping.get("runtime") and "space_id" in made.root.value["runtime"].mapping:
        part = made.root.value["runtime"].value.pop("space_id")
        made.tell(part, "'space_id' is not supported.", "Remove it.")
    endpoint = made.at("telemetry.otlp_endpoint")
    if isinstance(endpoint.value, str) and re.search(r":4317(/|$)", endpoint.value):
        reason = "4317 is the port of collectors for gRPC; spans are sent by HTTP here."
        made.tell(endpoint, reason, "Use the port for HTTP, which is 4318 by default.", "warning")
    notes = made.at("context_policy.notes.file")
    if isinstance(notes.value, str) and re.match(r"(\./)?artifacts/", notes.value):
        reason = "The file of notes is relative to the output directory (--out), not to the current one."
        made.tell(notes, reason, "Leave out 'artifacts/', and run with --out artifacts.", "warning")


def _is_version(value: Any) -> bool:
    return isinstance(value, str) and _VERSION.fullmatch(value) is not None


def _convert_secrets(made: Translation) -> None:
    for _, secret in made.find("env.secrets.*"):
        key, source = secret.mapping.get("key"), secret.mapping.get("source", secret).value
        if key is None or "name" in secret.mapping:
            continue
        if source == "file":
            secret.value = {"name" if part is key else word: part for word, part in secret.value.items()}
        else:
            secret.value = {"name": Fragment(key.value, key.at, is_new=True), **secret.value}


def _convert_executors(made: Translation) -> None:
    """Texts about an API, which are for the model, are parts of its description."""
    for _, executor in made.find("tools.http_executors.*"):
        keys = executor.mapping
        if (limit := keys.get("timeout_ms")) is not None:
            if "timeout" in keys:
                reason = "'timeout_ms' and 'timeout' mean the same, and both are given."
                made.tell(limit, reason, "Keep one of them.")
            if isinstance(limit.value, int | float) and not isinstance(limit.value, bool):
                limit.value = limit.value // 1000 if limit.value % 1000 == 0 else limit.value / 1000
            executor.value = {"timeout" if key == "timeout_ms" else key: part for key, part in keys.items()}
        texts = [*_executor_texts(made, executor)]
        if texts:
            said = executor.mapping.get("description")
            begin = [said.value] if said is not None and isinstance(said.value, str) else []
            executor.value["description"] = Fragment(
                "\n\n".join([*begin, *texts]), said.at if said else executor.at
            )


def _executor_texts(made: Translation, executor: Fragment) -> Iterator[str]:
    """Takes the texts out of an executor."""
    labels = {"response_format": "Answers", "authentication_info": "Authentication"}
    for key, label in labels.items():
        part = executor.mapping.get(key)
        if part is not None and not isinstance(part.value, str):
            reason = f"{key!r} must be a string, got {describe_value(part.plain)}."
            made.tell(part, reason, "Write a text; it is for the model.")
        if part is not None:
            yield f"{label}: {str(executor.value.pop(key).value).strip()}"
    endpoints = _listed_objects(made, executor, "common_endpoints", "path", "description")
    if endpoints:
        lines = (f"- {one.get('method', 'GET')} {one['path']}: {one['description']}" for one in endpoints)
        yield "\n".join(["Endpoints:", *lines])
    if examples := _listed_objects(made, executor, "examples"):
        import json

        shown = ["Examples:"]
        for one in examples:
            request = f"{one.get('method', 'GET')} {one.get('path', '/')}"
            body = f" with {json.dumps(one['json_data'], ensure_ascii=False)}" if "json_data" in one else ""
            shown.append(f"- {one.get('description', 'Request')}: {request}{body}")
        yield "\n".join(shown)


def _listed_objects(made: Translation, executor: Fragment, key: str, *required: str) -> list[dict[str, Any]]:
    """Takes a list of objects out of an executor; nothing where it is not one."""
    part = executor.mapping.pop(key, None)
    if part is None:
        return []
    if not isinstance(part.value, list):
        made.tell(part, f"{key!r} must be an array, got {describe_value(part.plain)}.", "Write a list.")
    for one in part.items:
        if not isinstance(one.value, dict):
            reason = f"This item must be an object, got {describe_value(one.plain)}."
            made.tell(one, reason, "Write an object.")
        for word in required:
            if word not in one.mapping and isinstance(one.value, dict):
                made.tell(Fragment(None, f"{one.at}/{word}"), f"The key {word!r} is missing.", "Add it.")
    return [one.plain for one in part.items if isinstance(one.value, dict) and {*required} <= {*one.value}]


def _convert_agent_tools(made: Translation) -> None:
    declared = made.texts("tools.http_executors.*.id", "tools.mcp.*.id")
    for way, tools in made.find("agents.*.tools"):
        words = [item for item in tools.items if item.value in _TOOL_WORDS]
        for part in [item for item in words if item.value not in declared]:
            tools.value.remove(part)
            reason = f"{part.value!r} is the name of a section, not of a tool: {way[1]!r} gets none for it."
            remedy = "Name the tools; without the key 'tools' it gets all of them."
            made.tell(part, reason, remedy, "warning")


def _convert_trace(made: Translation) -> None:
    for path in ("outputs.artifacts.*.path", "outputs.artifacts.*.from"):
        for _, part in made.find(path):
            if isinstance(part.value, str) and "$TRACE" in part.value and _TRACE.search(part.value):
                part.value = _TRACE.sub("{{ TRACE }}", part.value)
                made.tell(part, "'$TRACE' is read as '{{ TRACE }}'.", "Write {{ TRACE }}.", "warning")


# --- Steps ------------------------------------------------------------------------------------------------


def _convert_steps(made: Translation) -> None:
    producer = made.at(f"{_CONFIG}.producer")
    if isinstance(producer.value, str):
        producer.value = {"agent": Fragment(producer.value, producer.at, is_new=True)}
    config = made.at(_CONFIG)
    if "worker_template" in _keys_written(config) and "max_tasks" not in config.mapping:
        config.value["max_tasks"] = Fragment(MAX_TASKS, config.value["worker"].at, is_new=True)
    _convert_below(made, config, "")


def _keys_written(part: Fragment) -> set[str]:
    """The keys of a mapping as the text has them."""
    return {child.at.rpartition("/")[2] for child in part.mapping.values()}


def _convert_below(made: Translation, part: Fragment, key: str) -> None:
    """Questions to humans and tools of steps, wherever a step may stand."""
    kind = part.mapping.get("type", part)
    if kind.value == "hitl" or (isinstance(kind.value, str) and "prompt" in part.mapping):
        if kind.value != "hitl":
            made.tell(kind, f"'type' must be 'hitl', got {describe_value(kind.value)}.", "Write type: hitl.")
        _convert_human(made, part, is_review=key == "review")
    overrides = part.mapping.get("tool_overrides")
    if overrides is not None and isinstance(overrides.value, list):
        del part.value["tool_overrides"]
        if overrides.value:
            part.value["tools"] = overrides
    for name, child in part.mapping.items():
        if key in _NAMED:
            _convert_below(made, child, "")
        elif name not in _FREE:
            _convert_below(made, child, name)
    for child in part.items:
        _convert_below(made, child, "")


def _convert_human(made: Translation, step: Fragment, *, is_review: bool) -> None:
    given = {key: step.value.pop(key) for key in _HUMAN_KEYS if key in step.value}
    del step.value["type"]
    for key in [key for key in step.value if key not in _STEP_KEYS and closest(key, _HUMAN_KEYS)]:
        reason = f"There is no key {key!r} here."
        made.tell(step.value.pop(key), reason, did_you_mean(key, _HUMAN_KEYS))
    shown, prompt = given.pop("context_display", None), given.get("prompt")
    if shown is not None and not isinstance(shown.value, str):
        reason = f"'context_display' must be a string, got {describe_value(shown.plain)}."
        made.tell(shown, reason, "Write a text; it is shown below the prompt.")
    elif shown is not None and prompt is not None and isinstance(prompt.value, str):
        question = prompt.value.rstrip()
        made.questions[prompt.at] = len(question)
        prompt.value = f"{question}\n\n{shown.value}"
    if (limit := given.pop("timeout_seconds", None)) is not None:
        given["timeout_s"] = limit
        if limit.value != 0 and "default" not in given and not is_review:
            given["default"] = Fragment("timeout_expired", limit.at, is_new=True)
    elif "default" in given:  # which there counts for an answer that is late, and not for one that is missing
        given["timeout_s"] = Fragment(0, step.at, is_new=True)
    if (validation := given.pop("validation", None)) is not None:
        made.tell(validation, "'validation' has no effect here.", "Remove it, or use choices.", "warning")
    if is_review:
        step.value |= given
    else:
        step.value["human"] = Fragment(given, step.at, is_new=True)


# --- Graphs -----------------------------------------------------------------------------------------------


def _convert_graph(made: Translation) -> None:
    config = made.at(_CONFIG)
    edges, nodes = config.mapping.get("edges"), config.mapping.get("nodes")
    if edges is None or nodes is None:
        return
    is_theirs = "max_iterations" in _keys_written(config) or any(
        "choose" in edge.mapping for edge in edges.items
    )
    if is_theirs and "start" not in config.mapping and nodes.mapping:
        first = next(iter(nodes.mapping))
        config.value = {"start": Fragment(first, nodes.value[first].at, is_new=True), **config.value}
    if isinstance(edges.value, list):
        edges.value = [made_edge for edge in edges.value for made_edge in _edges_of(made, edge)]


def _edges_of(made: Translation, edge: Fragment) -> Iterator[Fragment]:
    """The first choice whose condition is true is taken: each edge excludes the conditions before it."""
    choices = edge.mapping.get("choose")
    if choices is None:
        yield edge
        return
    rest = {key: part for key, part in edge.value.items() if key != "choose"}
    if "to" in rest:
        made.tell(choices, "An edge has either 'to' or 'choose'.", "Keep one of them.")
        return
    if not choices.items:
        reason = f"'choose' must be a list of choices, got {describe_value(choices.plain)}."
        made.tell(choices, reason, "Write choose: [{when: CONDITION, to: NODE}].")
    from strands_cli.conditions import LONGEST

    before: list[str] = []
    for choice in _choices(made, choices):
        when = choice.value.get("when")
        if when is None:
            made.tell(Fragment(None, f"{choice.at}/when"), "The key 'when' is missing.", "Write when: else.")
        keys = {**{key: Fragment(part.value, part.at) for key, part in rest.items()}, **choice.value}
        if when is not None and isinstance(when.value, str):
            condition = _bare_condition(when.value)
            if condition is not None and not _is_condition(made, when, condition):
                continue
            parts = [f"not ({other})" for other in before] + ([f"({condition})"] if condition else [])
            joined = " and ".join(parts) if before else condition or ""
            made.choice_text += len(joined)
            if before and (len(joined) > LONGEST or made.choice_text > MAX_CHOICE_TEXT):
                reason = "There are too many choices: each excludes the conditions of those before it."
                made.tell(choice, reason, "Let this choice lead to a node that chooses further.")
                return
            keys["when"] = Fragment(joined, when.at)
            if condition is None and not before:
                del keys["when"]
            before.append(condition or "true")
        yield Fragment(keys, choice.at)


def _choices(made: Translation, choices: Fragment) -> Iterator[Fragment]:
    """The choices that may be taken: those up to `else`."""
    is_over = False
    for choice in choices.items:
        when = choice.mapping.get("when", choice)
        if not isinstance(choice.value, dict):
            reason = f"A choice must be an object, got {describe_value(choice.plain)}."
            made.tell(choice, reason, "Write {when: CONDITION, to: NODE}.")
        elif is_over:
            made.tell(choice, "This choice is never taken: 'else' is before it.", "Remove it.", "warning")
        else:
            yield choice
        is_over = is_over or (isinstance(when.value, str) and _bare_condition(when.value) is None)


def _bare_condition(text: str) -> str | None:
    """A condition without its braces; None for `else`, which is always true."""
    bare = text.strip()
    if bare.startswith("{{") and bare.endswith("}}"):
        bare = bare[2:-2].strip()
    return None if bare.casefold() == "else" else bare


def _is_condition(made: Translation, when: Fragment, condition: str) -> bool:
    """Whether a condition can be read: said here, where its columns are those of its text."""
    from strands_cli.conditions import ConditionError, parse_condition

    try:
        parse_condition(condition)
    except ConditionError as error:
        column = when.value.index(condition) + error.column + 1
        reason = f"Invalid condition: {error.message} (column {column} of the text)."
        made.tell(when, reason, error.hint)
        return False
    return True


# --- Variables --------------------------------------------------------------------------------------------


def _keep_undeclared_variables(made: Translation) -> None:
    """`${NAME}` is plain text there, but in headers: what the file does not declare stays as written."""
    declared = made.texts("env.variables.*", "env.secrets.*.key", "env.secrets.*.name")

    def keep(part: Fragment) -> None:
        for child in (*part.mapping.values(), *part.items):
            keep(child)
        if not isinstance(part.value, str):
            return
        kept = dict.fromkeys(name for name in _VARIABLE.findall(part.value) if name not in declared)
        if kept:

            def as_written(text: str) -> str:
                return _VARIABLE.sub(lambda match: f"${match[0]}" if match[1] in kept else match[0], text)

            if part.at in made.questions:
                made.questions[part.at] = len(as_written(part.value[: made.questions[part.at]]))
            part.value = as_written(part.value)
            names = ", ".join(f"${{{name}}}" for name in kept)
            stays = "stay as they are" if len(kept) > 1 else "stays as it is"
            it = "them" if len(kept) > 1 else "it"
            reason = f"{names} {stays} written: the file does not declare {it}."
            remedy = f"To fill {it} in, declare {it}: env: {{variables: [{', '.join(kept)}]}}"
            made.tell(part, reason, remedy, "warning")

    for path in ("agents.*.prompt", _CONFIG, "tools.http_executors.*.description"):
        for _, part in made.find(path):
            keep(part)


def _declare_values(made: Translation) -> None:
    """A value there is a name of its own. What is almost a declared name is left, to be refused."""
    inputs = made.at("inputs")
    declared = {way[-1] for group in ("required", "optional") for way, _ in made.find(f"inputs.{group}.*")}
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
    for way, part in [*made.find("inputs.values.*")]:
        kind = kinds.get(type(part.value))
        if not declared or kind is None or way[-1] in declared or is_slip(way[-1], declared):
            continue
        optional = inputs.mapping.setdefault("optional", Fragment({}, inputs.at, is_new=True))
        if isinstance(optional.value, dict):
            optional.value[way[-1]] = Fragment(kind, part.at, is_new=True)


_CONVERSIONS: tuple[Callable[[Translation], None], ...] = (
    _convert_words,
    _convert_secrets,
    _convert_executors,
    _convert_agent_tools,
    _convert_trace,
    _convert_steps,
    _convert_graph,
)
