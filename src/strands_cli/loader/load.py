"""`load_spec`: text, document, variables, schema, Spec; every problem with its place in the file."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from strands_cli.documents.problems import (
    MAX_REPAIRED,
    JsonPath,
    Problem,
    follow_path,
    json_pointer,
    repaired_document,
    schemas_at,
)
from strands_cli.documents.reader import (
    MAX_VALUES,
    Document,
    read_document,
    read_document_file,
    with_whole_numbers,
)
from strands_cli.documents.rewriting import Fragment, rewritten_text
from strands_cli.errors import Issue, SpecError, did_you_mean
from strands_cli.loader.dialect import Translation, known_spelling, translate
from strands_cli.loader.dialect_names import settle_names
from strands_cli.loader.run_values import check_variables, typed_variables
from strands_cli.loader.spec import Spec, spec_of
from strands_cli.schema.validator import Validator, published_schema
from strands_cli.secrets import looks_secret
from strands_cli.settings import marked_project_root
from strands_cli.types.sections import VariableUse

MAX_REFERENCES = 200
"""How many files a workflow may refer to."""
MAX_NESTED = 8
"""How deep workflows may run others."""
_DECLARATIONS = (("inputs", "required"), ("inputs", "optional"))
_VARIABLE = re.compile(r"\$(\$)?\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}")
_FILE_HINT = "Give a YAML or JSON file with a workflow."
_INNER_HINT = "Name a workflow's file, relative to this one, inside the project."
_FORMAT_HINT = "'strands schema' prints the format."
_KINDS_OF_STEPS = ("human", "tool", "workflow")
"""The keys that make a step something else than one of an agent."""
# What is asked of a value beyond its type is asked by the schema alone: the types take it as it is.
_HARMLESS = frozenset(
    {
        "exclusiveMaximum",
        "exclusiveMinimum",
        "format",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "pattern",
        "propertyNames",
        "uniqueItems",
    }
)


class StoredFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What workflows were loaded from at an earlier time, in place of the files and variables of today."""

    directory: Path
    files: Mapping[str, str]
    """The texts by their paths, relative to that directory."""
    environment: Mapping[str, str]
    are_imported: bool = False
    are_foreign: bool = False
    """See `BaseSpec.is_imported` and `is_foreign`."""

    def read(self, path: Path) -> Document:
        name = stored_name(path, self.directory)
        if name not in self.files:
            issue = Issue(file=str(path), reason="The run has no copy of this file.", remediation=_FILE_HINT)
            return Document(str(path), issues=[issue])
        return read_document(self.files[name], str(path))


def stored_name(path: str | Path, directory: str | Path) -> str:
    """The path of a file relative to a directory, the same on every system; links are not followed."""
    try:
        return Path(os.path.relpath(path, directory)).as_posix()
    except ValueError:  # another drive
        return Path(path).as_posix()


def load_spec(
    path: str | Path, variables: Mapping[str, Any] | None = None, *, stored: StoredFiles | None = None
) -> Spec:
    """Reads a workflow file. Raises SpecError with all problems if the file is not valid.

    `variables` are the values of its inputs. With `stored`, nothing is read but what is in it.
    """
    spec, issues = examine_workflow(path, variables, stored=stored)
    if spec is None or issues:
        more = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
        raise SpecError(f"{issues[0].place or path}: {issues[0].reason}{more}", issues=issues)
    return spec


def examine_workflow(
    path: str | Path, variables: Mapping[str, Any] | None = None, *, stored: StoredFiles | None = None
) -> tuple[Spec | None, list[Issue]]:
    """The workflow in a file, as far as it is one, and every problem with it.

    With problems, the Spec is what could be made in spite of them: enough to look for more, not to be run.
    """
    document = stored.read(Path(path)) if stored else read_document_file(Path(path), _FILE_HINT)
    _, spec, issues = _examined(document, Path(path), variables or {}, stored, _Nesting(path))
    return spec, issues


def converted_workflow(path: Path) -> tuple[str, Spec | None, list[Issue]]:
    """The text of a workflow file in our spelling, and what `examine_workflow` says of it."""
    document = read_document_file(path, _FILE_HINT)
    root, spec, issues = _examined(document, path, {}, None, _Nesting(path))
    text = document.text if spec is None or issues else rewritten_text(document, root)
    return text, spec, issues


def _examined(
    document: Document,
    path: Path,
    variables: Mapping[str, Any],
    stored: StoredFiles | None,
    nesting: "_Nesting",
) -> tuple[Fragment, Spec | None, list[Issue]]:
    """The pieces of a document in our spelling, and the workflow that they are."""
    translation = translate(document)
    if document.issues and document.value is None:
        return translation.root, None, document.issues
    if not isinstance(document.value, dict):
        reason = "A workflow is a mapping with the keys version, name, runtime, agents and pattern."
        issue = Issue(file=str(path), line=1, reason=reason, remediation=_FORMAT_HINT)
        return translation.root, None, [issue]
    references = _References(path, stored)
    reading = _Reading(translation, path, references)
    if reading.spec is not None and settle_names(translation, reading.spec):
        reading = _Reading(translation, path, references)
    document, spec = reading.document, reading.spec
    inner, inner_issues = _inner_workflows(reading.value, document, references, nesting)
    schema = reading.schema
    issues = document.issues + [
        document.schema_issue(problem, "The workflow", _FORMAT_HINT, schema.schema)
        for problem in reading.problems
    ]
    if spec is None:
        return translation.root, None, issues
    spec = msgspec.structs.replace(
        spec,
        workflows=inner,
        is_imported=stored is not None and stored.are_imported,
        is_foreign=stored is not None and stored.are_foreign,
        texts={str(path.absolute()): document.text, **references.texts(), **_texts_of(inner.values())},
        variables=typed_variables(variables, spec.inputs.declared),
    )
    told = {issue.pointer for issue in issues}
    issues += [issue for issue in check_variables(spec) if issue.pointer not in told]
    return translation.root, spec, issues + inner_issues


class _Reading:
    """A document in our spelling, with its variables and references filled in, against the schema."""

    def __init__(self, translation: Translation, path: Path, references: "_References") -> None:
        self.document = document = translation.document()
        stored = references.stored
        environment = _Environment(document, os.environ if stored is None else stored.environment)
        self.value: dict[str, Any] = environment.fill_in(document.value, document)
        references.begin()
        remarks = _follow_references(self.value, document, references, environment)
        document.issues += environment.undeclared_issues()
        self.schema = published_schema("workflow")
        self.problems = [
            inner
            for problem in self.schema.problems(self.value, MAX_REPAIRED + 1)
            for inner in _detailed_problems(problem, self.value, self.schema)
        ]
        self.spec = _spec_despite_problems(self.value, self.problems, self.schema)
        if self.spec is not None:
            self.spec = msgspec.structs.replace(
                self.spec,
                file=path,
                positions=document.positions,
                origins=document.origins,
                environment=tuple(environment.uses),
                remarks=(*translation.remarks, *remarks),
            )


def _detailed_problems(problem: Problem, value: dict[str, Any], schema: Validator) -> Iterator[Problem]:
    """The problem, if it is one, or those behind it.

    An input that is an object is told by what is in it, not by the short form that it might have. The schema
    knows our own providers; others are those of installed packages.
    """
    group, name = problem.path[:-1], problem.path[-1] if problem.path else ""
    is_model = group == ("runtime",) or (len(group) == 2 and group[0] == "agents")
    if is_model and name == "provider" and problem.keyword == "enum":
        from strands_cli.providers.choice import PROVIDERS

        place = value["runtime"] if group == ("runtime",) else value["agents"][group[1]]
        if isinstance(place["provider"], str) and place["provider"] in PROVIDERS:
            return
    if "name" in problem.facts and (meant := known_spelling(problem.path)):
        problem = msgspec.structs.replace(problem, hint=f"Did you mean {meant!r}?")
    if group[:1] == ("pattern",):
        yield from _problems_of_step(problem, value, schema)
        return
    inputs = value["inputs"][group[1]] if group in _DECLARATIONS and problem.keyword == "enum" else {}
    if not isinstance(inputs.get(name), dict):
        yield problem
        return
    definitions = schema.schema["$defs"]
    long_form = Validator({**definitions["input"]["oneOf"][1], "$defs": definitions})
    for inner in long_form.problems(inputs[name]):
        yield msgspec.structs.replace(inner, path=(*problem.path, *inner.path))


def _problems_of_step(problem: Problem, value: dict[str, Any], schema: Validator) -> Iterator[Problem]:
    """Keys that make a step another kind of step, where it has one already, or where an agent must be."""
    *group, name = problem.path
    step, definitions = follow_path(value, group)[1], schema.schema["$defs"]
    kinds = [kind for kind in _KINDS_OF_STEPS if isinstance(step, dict) and kind in step]
    places = schemas_at(schema.schema, *group)
    agents_only = [kind for kind in ("agent_step", "reviewed_step", "router") if definitions[kind] in places]
    if kinds and agents_only:
        if name == "agent":
            return  # it is missing since another kind of step stands there
        if name in kinds:
            more = " A human can check what it does: see review." if agents_only != ["agent_step"] else ""
            hint = f"Only an agent can be the {group[-1]}: write agent: NAME.{more}"
            problem = msgspec.structs.replace(problem, hint=hint)
    elif problem.keyword == "falseSchema":
        hint = f"A step with '{(*kinds, 'agent')[0]}' has no '{name}': remove one of them."
        problem = msgspec.structs.replace(problem, hint=hint)
    yield problem


def _spec_despite_problems(value: dict[str, Any], problems: list[Problem], schema: Validator) -> Spec | None:
    """With problems, a Spec in spite of them, so that one look at a file finds the mistakes of every kind."""
    if not problems:
        try:
            return spec_of(value)
        except msgspec.ValidationError:
            return spec_of(with_whole_numbers(value))
    if len(problems) > MAX_REPAIRED:
        return None
    left = repaired_document(
        value, [found for found in problems if found.keyword not in _HARMLESS], schema.schema
    )
    for document in (left, {**left, "pattern": {"type": "chain", "config": {"steps": []}}}):
        try:
            return spec_of(document)
        except (msgspec.ValidationError, AttributeError, KeyError, TypeError):
            continue  # not every combination of problems can be repaired
    return None


class _Environment:
    """Fills in `${NAME}` and `${NAME:-default}`, of what the file declares; `$${` stands for `${`.

    A secret is not filled in: in the headers of HTTP executors it becomes the template that stands for it, so
    that its value is never a part of the Spec, and in all other places it is an error.
    """

    def __init__(self, document: Document, values: Mapping[str, str]) -> None:
        self._values = values
        env = document.value.get("env")
        parts = env if isinstance(env, dict) else {}
        self._variables = [name for name in _listed(parts, "variables") if isinstance(name, str)]
        self._secrets = {
            str(secret.get(word, secret.get("name"))): secret.get("name")
            for secret in _listed(parts, "secrets")
            for word in ("name", "key")
            if isinstance(secret, dict) and secret.get("source", "env") == "env"
        }
        self._undeclared: list[tuple[Document, JsonPath, str]] = []
        self.uses: list[VariableUse] = []

    def fill_in(self, value: Any, document: Document, path: JsonPath = (), place: JsonPath = ()) -> Any:
        """The value at a path of a document, which belongs to a place of the workflow."""
        if isinstance(value, dict):
            return {key: self.fill_in(inner, document, (*path, key), place) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.fill_in(inner, document, (*path, at), place) for at, inner in enumerate(value)]
        if not isinstance(value, str) or "${" not in value or (*place, *path)[:2] == ("env", "variables"):
            return value

        def fill(match: re.Match[str]) -> str:
            escaped, name, default = match.groups()
            if escaped:
                return match[0][1:]
            if name in self._secrets:
                return self._secret(match, document, path, is_header=_is_header((*place, *path)))
            if name not in self._variables:
                self._undeclared.append((document, path, name))
                return default or match[0]
            pointer = json_pointer((*place, *path))
            text = self._values.get(name) or None
            is_whole = match[0] == value
            self.uses.append(VariableUse(name=name, pointer=pointer, is_whole=is_whole, value=text))
            text = default if text is None else text
            if text is None:
                reason = f"The environment variable {name} is not set."
                remedy = f"Set it, or give a default: ${{{name}:-…}}."
                document.issues.append(document.issue(path, reason, remedy))
                return match[0]
            return text

        return _VARIABLE.sub(fill, value)

    def _secret(self, match: re.Match[str], document: Document, path: JsonPath, *, is_header: bool) -> str:
        name = self._secrets[match[2]]
        written = f"{{{{ secrets.{name} }}}}"
        if not is_header:
            reason = f"{match[2]} is a secret: it is for the headers of HTTP executors, and no model sees it."
            remedy = f"Use it in a header, as {written}; what may be shown belongs in env.variables."
            document.issues.append(document.issue(path, reason, remedy))
        elif match[3] is not None:
            reason = f"{match[2]} is a secret, and a secret has no default."
            document.issues.append(document.issue(path, reason, f"Write {written}."))
        return written

    def undeclared_issues(self) -> Iterator[Issue]:
        """One for each use of what is not declared, with the line that declares all of it."""
        missing = dict.fromkeys(name for _, _, name in self._undeclared if not looks_secret(name))
        line = f"env: {{variables: [{', '.join(dict.fromkeys((*self._variables, *missing)))}]}}"
        for document, path, name in self._undeclared:
            remedy = did_you_mean(name, self._variables) or f"Declare it: {line}"
            if looks_secret(name):
                remedy = (
                    f"Declare it as a secret, env: {{secrets: [{{name: {name}}}]}}, and use it in a header "
                    f"of an HTTP executor, as {{{{ secrets.{name} }}}}."
                )
            reason = f"The file uses the environment variable {name}, but does not declare it."
            yield document.issue(path, reason, remedy)


def _listed(parts: dict[str, Any], key: str) -> Sequence[Any]:
    found = parts.get(key)
    return found if isinstance(found, list) else ()


def _is_header(path: JsonPath) -> bool:
    is_executor = path[:2] == ("tools", "http_executors") and path[3:4] == ("headers",)
    is_server = path[:2] == ("tools", "mcp") and path[3:4] in (("headers",), ("env",))
    return len(path) == 5 and (is_executor or is_server)


class _References:
    """Reads the files that a workflow refers to: below its directory or its project, and not without end."""

    def __init__(self, workflow: Path, stored: StoredFiles | None) -> None:
        self.stored = stored
        self._base, real = workflow.parent, Path(os.path.realpath(workflow.parent))
        self._roots = (real, marked_project_root(real) or real)
        self._known: dict[str, Document] = {}
        self._values = 0

    def begin(self) -> None:
        """The file is read once more, with the same references."""
        self._values = 0

    def path_of(self, reference: str) -> Path:
        return self._base / reference

    def read(self, reference: str) -> Document:
        if self._values > MAX_VALUES or (reference not in self._known and len(self._known) >= MAX_REFERENCES):
            reason = f"The workflow refers to more than {MAX_VALUES} values, or {MAX_REFERENCES} files."
            return Document(reference, issues=[Issue(file=reference, reason=reason, remediation=_FILE_HINT)])
        if reference not in self._known:
            self._known[reference] = self._read(self.path_of(reference))
        known = self._known[reference]
        self._values += len(known.positions)
        return msgspec.structs.replace(known, issues=[*known.issues])

    def _read(self, file: Path) -> Document:
        if self.stored:
            return self.stored.read(file)
        return read_document_file(file, _FILE_HINT, below=self._roots)

    def texts(self) -> dict[str, str]:
        return {str((self._base / name).absolute()): known.text for name, known in self._known.items()}


def _follow_references(
    value: dict[str, Any], document: Document, references: _References, environment: _Environment
) -> list[Issue]:
    """Puts the files that agents name in their places; values from there keep their own positions.

    Returns what their other spellings give to say.
    """
    agents, remarks = value.get("agents"), list[Issue]()
    for name, agent in agents.items() if isinstance(agents, dict) else ():
        if not isinstance(agent, dict):
            continue
        place: JsonPath = ("agents", name)
        directory = PurePosixPath()
        if isinstance(agent.get("$ref"), str):
            directory = PurePosixPath(agent["$ref"]).parent
            agent = _referred_agent(agent, place, (document, references, environment), remarks)
        for key in ("input_schema", "output_schema"):
            if isinstance(agent.get(key), str):
                base = PurePosixPath() if key in document.value["agents"][name] else directory
                schema = _referred_schema(base / agent[key], (*place, key), document, references)
                agent, is_enforced = {**agent, key: schema}, key == "output_schema"
                reason = "'output_schema' is enforced in runs here: answers are JSON that fits."
                told = document.issue((*place, key), reason, "Remove it if any answer will do.")
                remarks += [msgspec.structs.replace(told, severity="warning")] if is_enforced else []
        value["agents"][name] = agent
    return remarks


def _referred_agent(
    agent: dict[str, Any],
    place: JsonPath,
    reading: tuple[Document, _References, _Environment],
    remarks: list[Issue],
) -> dict[str, Any]:
    """The agent of a file, with the keys that stand beside `$ref`; the file may be a whole workflow."""
    document, references, environment = reading
    name = agent["$ref"]
    other = references.read(name)
    reason = other.issues[0].reason if other.issues else ""
    inside: JsonPath = ()
    if not reason and isinstance(other.value, dict) and "agents" in other.value:
        translation = translate(other)
        other, agents = translation.document(), translation.root.mapping["agents"].mapping
        inside = ("agents", next(iter(agents), ""))
        remarks += (one for one in translation.remarks if one.pointer.startswith(json_pointer(inside)))
        if len(agents) != 1:
            reason = f"It has {len(agents)} agents, and a file that is referred to has one."
        elif "$ref" in agents[str(inside[1])].mapping:
            reason = "Its agent refers to another file itself."
    if inside:
        other = _inner_document(other, inside)
    if reason or not isinstance(other.value, dict):
        reason = f"{name}: {reason or 'It does not define an agent.'}"
        document.issues.append(document.issue((*place, "$ref"), reason, "Name an agent's file."))
        return {"prompt": ""}
    inner = environment.fill_in(other.value, other, place=place)
    document.issues += other.issues
    document.positions |= {
        json_pointer(place) + pointer: position for pointer, position in other.positions.items() if pointer
    }
    return {**inner, **{key: part for key, part in agent.items() if key != "$ref"}}


def _inner_document(document: Document, path: JsonPath) -> Document:
    """What is at a path, as a document of its own; its places stay those of the file."""
    start = json_pointer(path)
    positions = {
        pointer.removeprefix(start): position
        for pointer, position in document.positions.items()
        if pointer == start or pointer.startswith(f"{start}/")
    }
    reached, value = follow_path(document.value, path)
    return msgspec.structs.replace(
        document, value=value if reached == path else None, positions=positions, origins={}
    )


def _referred_schema(
    file: PurePosixPath, place: JsonPath, document: Document, references: _References
) -> dict[str, Any]:
    other = references.read(str(file))
    if isinstance(other.value, dict) and not other.issues:
        return other.value
    reason = other.issues[0].reason if other.issues else "It is not a JSON Schema, which is an object."
    document.issues.append(document.issue(place, f"{file}: {reason}", "Name a file with a JSON Schema."))
    return {}


# --- Workflows that steps run -----------------------------------------------------------------------------


class _Nesting:
    """The workflow files of one load: each is read once, and none while it is being read."""

    def __init__(self, path: str | Path) -> None:
        self.names = [Path(path).name]
        """From the outermost to the one that is being read."""
        self.known: dict[str, Spec | None] = {}
        """By their real paths."""
        self.opened = [_real_path(path)]
        self.heights: dict[str, int] = {}
        """How deep the known ones are nested themselves, which counts wherever they are run again."""

    def refusal(self, file: Path) -> str:
        """Why a file cannot be run here."""
        real, chain = _real_path(file), " -> ".join([*self.names, file.name])
        if real in self.opened:
            return f"This workflow would run itself: {chain}."
        if len(self.opened) + self.heights.get(real, 0) > MAX_NESTED:
            return f"Workflows are nested more than {MAX_NESTED} deep: {chain}."
        if len(self.known) >= MAX_REFERENCES and real not in self.known:
            return f"The workflow runs more than {MAX_REFERENCES} other files."
        return ""


def _inner_workflows(
    value: dict[str, Any], document: Document, references: _References, nesting: _Nesting
) -> tuple[dict[str, Spec], list[Issue]]:
    """The workflows that steps run, by what these call them, and what is wrong with their files.

    What is wrong with the place of a step is an issue of the document itself.
    """
    found: dict[str, Spec] = {}
    issues: list[Issue] = []
    for place, reference in _workflow_references(value.get("pattern"), ("pattern",)):
        file = references.path_of(reference)
        real = _real_path(file)
        if reason := nesting.refusal(file):
            document.issues.append(document.issue(place, reason, "Run another workflow here."))
            continue
        if real not in nesting.known:
            other = references.read(reference)
            if other.value is None and other.issues and not other.issues[0].line:
                reason = other.issues[0].reason
                reason = reason if file.name in reason else f"{reference}: {reason}"
                document.issues.append(document.issue(place, reason, _INNER_HINT))
                continue
            nesting.names.append(file.name)
            nesting.opened.append(real)
            _, spec, own = _examined(other, file, {}, references.stored, nesting)
            nesting.names.pop()
            nesting.opened.pop()
            nesting.known[real] = None if own else spec
            below = [_real_path(one.file) for one in spec.workflows.values()] if spec else []
            nesting.heights[real] = 1 + max((nesting.heights[one] for one in below), default=-1)
            issues += own
        if inner := nesting.known[real]:
            found[reference] = inner
    return found, issues


def _real_path(path: str | Path) -> str:
    try:
        return os.path.realpath(path)
    except ValueError:  # a name that no file has, which is told when it is read
        return str(path)


def _workflow_references(value: Any, at: JsonPath) -> Iterator[tuple[JsonPath, str]]:
    """Where a pattern names the file of a workflow; what steps hand on may have any keys."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "workflow" and isinstance(inner, str):
                yield (*at, key), inner
            elif key not in ("arguments", "inputs", "foreach", "vars"):
                yield from _workflow_references(inner, (*at, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _workflow_references(inner, (*at, index))


def _texts_of(workflows: Iterable[Spec]) -> dict[str, str]:
    return {path: text for spec in workflows for path, text in spec.texts.items()}
