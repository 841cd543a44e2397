"""Values of settings: as JSON in a manifest, as text in an environment variable."""

from strands_cli.plugins.manifest import Setting

Value = str | int | float | bool

_WORDS = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}
_ARTICLES = {"string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false"}


def value_problem(value: Value, setting: Setting) -> str:
    """Why a value is none for a setting, or nothing: the rest of a sentence about it."""
    if not _is_of(value, setting.type):
        return f"is not {_ARTICLES[setting.type]}"
    if setting.enum and value not in setting.enum:
        return f"is none of {', '.join(as_text(option) for option in setting.enum)}"
    return ""


def value_from(text: str, setting: Setting) -> Value:
    """The value that a text stands for; ValueError says why it is none, without the text itself."""
    try:
        value = _converted(text, setting.type)
    except (ValueError, KeyError):
        raise ValueError(f"is not {_ARTICLES[setting.type]}") from None
    if problem := value_problem(value, setting):
        raise ValueError(problem)
    return value


def as_text(value: Value) -> str:
    """How a value is given to an executable."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_of(value: Value, kind: str) -> bool:
    if kind in ("boolean", "string"):
        return isinstance(value, bool if kind == "boolean" else str)
    return isinstance(value, int if kind == "integer" else (int, float)) and not isinstance(value, bool)


def _converted(text: str, kind: str) -> Value:
    if kind == "integer":
        return int(text)
    if kind == "number":
        return float(text)
    return _WORDS[text.strip().lower()] if kind == "boolean" else text
