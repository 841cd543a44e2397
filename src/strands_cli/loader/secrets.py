"""The values of `env.secrets`, read when a run begins."""

import os
from collections.abc import Mapping
from pathlib import Path

from strands_cli.documents.refusal import Refusal
from strands_cli.errors import Issue, SpecError
from strands_cli.types import Spec
from strands_cli.types.spec import Secret

MOST_BYTES = 65_536
"""The largest file that is taken for a secret."""


def read_secrets(spec: Spec, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The secrets by name; SpecError with an issue for each that cannot be had."""
    values: dict[str, str] = {}
    issues: list[Issue] = []
    for index, secret in enumerate(spec.env.secrets):
        try:
            values[secret.name] = _read(spec, secret, environment)
        except Refusal as refusal:
            key = "path" if secret.source == "file" else "key" if secret.key else "name"
            issues.append(spec.issue(f"/env/secrets/{index}/{key}", refusal.reason, refusal.remedy))
    if issues:
        first, more = issues[0], len(issues) - 1
        also = f" (and {more} more {'secret' if more == 1 else 'secrets'} cannot be read)" if more else ""
        raise SpecError(f"{first.place}: {first.reason}{also}", hint=first.remediation, issues=issues)
    return values


def _read(spec: Spec, secret: Secret, environment: Mapping[str, str]) -> str:
    return _from_file(spec, secret) if secret.source == "file" else _from_variable(secret, environment)


def _from_variable(secret: Secret, environment: Mapping[str, str]) -> str:
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


def _from_file(spec: Spec, secret: Secret) -> str:
    """The text of a file. An absolute path is fine: that is where many systems put secrets."""
    name = secret.path or ""
    text = _text_of(spec.file.parent / name, name).rstrip("\r\n")
    if not text:
        raise Refusal(f"The file {name!r} is empty.", "Write the secret into it.")
    return text


def _text_of(file: Path, name: str) -> str:
    try:
        if not file.is_file():
            raise Refusal(
                f"There is no file {name!r}.",
                "Create it; a relative path is relative to the workflow's directory.",
            )
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            reason = f"The file {name!r} has more than {MOST_BYTES} bytes, which is no secret's size."
            raise Refusal(reason, "Name the file with the secret alone.")
        return data.decode("utf-8")
    except UnicodeDecodeError:
        reason = f"The file {name!r} is not UTF-8 text."
        raise Refusal(reason, "Write the base64 form of the bytes into it.") from None
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reason = f"The file {name!r} cannot be read: {said}."
        raise Refusal(reason, "Check its path and its permissions.") from None
