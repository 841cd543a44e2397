"""The values that a run gets from outside: its inputs, from the file and from the caller, and its secrets."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from strands_cli.documents.files import NotRegular, TooLarge, read_regular_file
from strands_cli.documents.problems import Refusal, describe_value
from strands_cli.errors import Issue, SpecError, did_you_mean
from strands_cli.loader.spec import Spec
from strands_cli.types.sections import BaseSpec, Input, Secret

SECRET_SOURCES = ("env", "file")
"""Where secrets can be read from; files of other runners may name more."""
MAX_SECRET_BYTES = 65_536
"""The largest file that is taken for a secret."""

_KINDS: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
}


def resolve_inputs(spec: Spec, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The value of every input of a run; SpecError where one is missing, unknown or of another type."""
    given = {**spec.inputs.values, **spec.variables, **(variables or {})}
    issues = [*_given_input_issues(spec, given)]
    for name, declared in spec.inputs.required.items():
        if name not in given and declared.default is msgspec.UNSET:
            text = f": {declared.description}" if declared.description else ""
            reason = f"The input {name!r} is missing{text}."
            issues.append(spec.issue(f"/inputs/required/{name}", reason, f"Give it with --var {name}=…"))
    if issues:
        raise SpecError(issues[0].reason, hint=issues[0].remediation, issues=issues)
    return known_inputs(spec, variables)


def known_inputs(spec: Spec, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The inputs whose value is known: given, or left to their default."""
    defaults = {
        name: declared.default
        for name, declared in spec.inputs.declared.items()
        if declared.default is not msgspec.UNSET
    }
    given = {**spec.inputs.values, **spec.variables, **(variables or {})}
    return {**{name: None for name in spec.inputs.optional}, **defaults, **given}


def typed_variables(variables: Mapping[str, Any], declared: Mapping[str, Input]) -> dict[str, Any]:
    """The variables, with texts as their inputs ask for them: '3' is 3 where an integer is asked."""
    typed = dict(variables)
    for name, value in variables.items():
        if name in declared and isinstance(value, str) and declared[name].type not in (None, "string"):
            with suppress(msgspec.DecodeError):  # it stays as it is, and is refused as what it is
                typed[name] = msgspec.json.decode(value)
    return typed


def check_variables(spec: Spec) -> list[Issue]:
    """What is wrong with the values that are known when a workflow is loaded."""
    defaults = {
        f"/inputs/{group}/{name}/default": (name, declared)
        for group in ("required", "optional")
        for name, declared in getattr(spec.inputs, group).items()
        if declared.default is not msgspec.UNSET
    }
    return [
        *_given_input_issues(spec, {**spec.inputs.values, **spec.variables}),
        *(
            spec.issue(place, f"The default of {name} is invalid: {reason}.", "Give another default.")
            for place, (name, declared) in defaults.items()
            for reason in input_mismatch(declared, declared.default)
        ),
    ]


def _given_input_issues(spec: Spec, given: Mapping[str, Any]) -> Iterator[Issue]:
    declared, values = spec.inputs.declared, spec.inputs.values
    known = declared or values
    for name, value in given.items():
        place = f"/inputs/values/{name}" if name in values else "/inputs"
        if known and name not in known:
            hint = did_you_mean(name, known) or f"The inputs are {', '.join(known)}."
            yield spec.issue(place, f"There is no input {name!r}.", hint)
            continue
        for reason in input_mismatch(declared.get(name, Input()), value):
            yield spec.issue(place, f"The input {name!r} is not valid: {reason}.", "Give another value.")


def input_mismatch(declared: Input, value: Any) -> Iterator[str]:
    """Why a value is not one for an input."""
    kind = _KINDS.get(declared.type or "")
    is_number = isinstance(value, bool) and declared.type in ("integer", "number")
    if kind is not None and (not isinstance(value, kind) or is_number):
        yield f"expected {declared.type}, got {describe_value(value)}"
    elif declared.enum and value not in declared.enum:
        options = ", ".join(repr(item) for item in declared.enum)
        yield f"expected one of {options}, got {describe_value(value)}"


# --- Secrets --------------------------------------------------------------------------------------------


def read_secrets(spec: BaseSpec, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The secrets by name; SpecError with an issue for each that cannot be had."""
    values: dict[str, str] = {}
    issues: list[Issue] = []
    for index, secret in enumerate(spec.env.secrets):
        is_file = secret.source == "file"
        try:
            values[secret.name] = (
                _secret_from_file(spec, secret) if is_file else _secret_from_variable(secret, environment)
            )
        except Refusal as refusal:
            key = "path" if is_file else "key" if secret.key else "name"
            issues.append(spec.issue(f"/env/secrets/{index}/{key}", refusal.reason, refusal.remedy))
    if issues:
        first, more = issues[0], len(issues) - 1
        also = f" (and {more} more {'secret' if more == 1 else 'secrets'} cannot be read)" if more else ""
        raise SpecError(f"{first.place}: {first.reason}{also}", hint=first.remediation, issues=issues)
    return values


def _secret_from_variable(secret: Secret, environment: Mapping[str, str]) -> str:
    name = secret.key or secret.name
    value = environment.get(name)
    if not value:
        state = "is empty" if value == "" else "is not set"
        raise Refusal(f"The environment variable {name} {state}.", f"Set it: export {name}=…")
    try:
        value.encode()
    except UnicodeEncodeError:
        reason = f"The environment variable {name} is not UTF-8 text."
        raise Refusal(reason, "Set it to text, such as the base64 form of the bytes.") from None
    return value


def _secret_from_file(spec: BaseSpec, secret: Secret) -> str:
    """The text of a file. An absolute path is fine: that is where many systems put secrets."""
    name = secret.path or ""
    try:
        data = read_regular_file(spec.file.parent / name, MAX_SECRET_BYTES)
        text = data.decode("utf-8").rstrip("\r\n")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, NotRegular):
        remedy = "Create it; a relative path is relative to the workflow's directory."
        raise Refusal(f"There is no file {name!r}.", remedy) from None
    except TooLarge:
        reason = f"The file {name!r} has more than {MAX_SECRET_BYTES} bytes, which is too large for a secret."
        raise Refusal(reason, "Name the file with the secret alone.") from None
    except UnicodeDecodeError:
        reason = f"The file {name!r} is not UTF-8 text."
        raise Refusal(reason, "Write the base64 form of the bytes into it.") from None
    except (OSError, ValueError) as error:
        cause = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason = f"The file {name!r} cannot be read: {cause}."
        raise Refusal(reason, "Check its path and its permissions.") from None
    if not text:
        raise Refusal(f"The file {name!r} is empty.", "Write the secret into it.")
    return text
