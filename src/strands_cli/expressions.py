"""Conditions on edges: a small language that can compare what nodes answered, and do nothing else.

    condition  = conjunction { "or" conjunction }
    conjunction = negation { "and" negation }
    negation   = "not" negation | comparison
    comparison = value [ operator value ]
    operator   = "==" | "!=" | "<" | "<=" | ">" | ">=" | [ "not" ] "in" | [ "not" ] "contains"
    value      = text | number | "true" | "false" | "null" | path | list | "(" condition ")"
    list       = "[" [ value { "," value } ] "]"
    path       = name { "." name | "[" ( integer | text ) "]" }

The whole may stand in `{{ … }}`. What is not there (a node that has not run) is null, and so is everything
below it. Text that is a number is compared as one with a number. `contains` does not mind upper and lower
case, since it is what models write that is looked into; `in` and `==` do.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from strands_cli.errors import SpecError

LONGEST = 2_000
DEEPEST = 40

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")
      | (?P<number>-?\d+(?:\.\d+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>==|!=|<=|>=|<|>|[()\[\],.])
    )""",
    re.VERBOSE | re.DOTALL,
)
_CONSTANTS = {
    **dict.fromkeys(("true", "True"), True),
    **dict.fromkeys(("false", "False"), False),
    **dict.fromkeys(("null", "none", "None"), None),
}
_OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "in", "contains")
_SLIPS = {"=": "==", "&&": "and", "||": "or", "!": "not", "===": "=="}


class ConditionError(SpecError):
    """A condition that cannot be read or decided; `column` counts from 0."""

    code = "condition"

    def __init__(self, message: str, *, hint: str = "", column: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.column = column


class Literal(msgspec.Struct, frozen=True):
    value: Any


class Listing(msgspec.Struct, frozen=True):
    items: tuple["Expression", ...]


class Path(msgspec.Struct, frozen=True):
    name: str
    parts: tuple[str | int, ...] = ()


class Comparison(msgspec.Struct, frozen=True):
    left: "Expression"
    operator: str
    right: "Expression"


class Not(msgspec.Struct, frozen=True):
    inner: "Expression"


class Junction(msgspec.Struct, frozen=True):
    word: str
    """`and` or `or`."""
    parts: tuple["Expression", ...]


Expression = Literal | Listing | Path | Comparison | Not | Junction


def parse_condition(text: str) -> Expression:
    """The condition that a text states; ConditionError says where and why it states none."""
    if len(text) > LONGEST:
        raise ConditionError(f"The condition has more than {LONGEST} characters", hint="Make it shorter.")
    return _Parser(text).condition()


def holds(condition: Expression, scope: Mapping[str, Any]) -> bool:
    """Whether a condition is true of a scope; ConditionError where two values cannot be compared."""
    return _truth(evaluate(condition, scope))


def evaluate(expression: Expression, scope: Mapping[str, Any]) -> Any:
    match expression:
        case Literal(value):
            return value
        case Listing(items):
            return [evaluate(item, scope) for item in items]
        case Path(name, parts):
            value = scope.get(name)
            for part in parts:
                value = _member(value, part)
            return value
        case Not(inner):
            return not holds(inner, scope)
        case Junction("and", parts):
            return all(holds(part, scope) for part in parts)
        case Junction(_, parts):
            return any(holds(part, scope) for part in parts)
        case Comparison(left, operator, right):
            return _compare(evaluate(left, scope), operator, evaluate(right, scope))


def paths(expression: Expression) -> Iterator[Path]:
    """Every path in a condition."""
    match expression:
        case Path():
            yield expression
        case Listing(parts) | Junction(_, parts):
            for part in parts:
                yield from paths(part)
        case Not(inner):
            yield from paths(inner)
        case Comparison(left, _, right):
            yield from paths(left)
            yield from paths(right)


# --- Deciding ---------------------------------------------------------------------------------------------


def _member(value: Any, part: str | int) -> Any:
    """What is below a value: a mapping's key, a list's item, or a field of one of our own values."""
    if isinstance(value, Mapping):
        return value.get(part)
    if isinstance(value, list | tuple) and isinstance(part, int):
        return value[part] if -len(value) <= part < len(value) else None
    if isinstance(value, msgspec.Struct) and part in value.__struct_fields__:
        return getattr(value, str(part))
    return None


def _truth(value: Any) -> bool:
    return bool(value.strip()) if isinstance(value, str) else bool(value)


def _compare(left: Any, operator: str, right: Any) -> bool:
    left, right = _plain(left), _plain(right)
    if operator == "contains":
        return _contains(left, right, ignore_case=True)
    if operator == "in":
        return _contains(right, left, ignore_case=False)
    left, right = _alike(left, right)
    if operator in ("==", "!="):
        return bool(left == right) == (operator == "==")
    if left is None or right is None:
        return False
    return _ordered(left, operator, right)


def _plain(value: Any) -> Any:
    """A result of a step is compared as the text that it is."""
    return str(value) if isinstance(value, msgspec.Struct) else value


def _contains(whole: Any, part: Any, *, ignore_case: bool) -> bool:
    if whole is None or part is None:
        return False
    if isinstance(whole, str):
        inner = part if isinstance(part, str) else str(part)
        return inner.casefold() in whole.casefold() if ignore_case else inner in whole
    if isinstance(whole, list | tuple | Mapping):
        return part in list(whole)
    raise ConditionError(f"Nothing can be in {whole!r}", hint="Look into a text or a list.")


def _alike(left: Any, right: Any) -> tuple[Any, Any]:
    """Both sides as numbers where one is a number and the other is the text of one."""
    if _is_number(left) and isinstance(right, str):
        return left, _number(right)
    if _is_number(right) and isinstance(left, str):
        return _number(left), right
    return left, right


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(text: str) -> Any:
    try:
        return float(text.strip())
    except ValueError:
        return text


def _ordered(left: Any, operator: str, right: Any) -> bool:
    if not (_is_number(left) and _is_number(right)) and not (
        isinstance(left, str) and isinstance(right, str)
    ):
        raise ConditionError(
            f"{str(left)[:60]!r} and {str(right)[:60]!r} have no order", hint="Compare numbers, or texts."
        )
    if operator in ("<", ">="):
        return bool(left < right) == (operator == "<")
    return bool(left > right) == (operator == ">")


# --- Reading ----------------------------------------------------------------------------------------------


class _Parser:
    """Recursive descent over the tokens: (kind, text, column)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.at = 0
        self.depth = 0

    def condition(self) -> Expression:
        found = self._either()
        kind, text, _ = self._now
        if kind != "end":
            raise self._error(f"{text!r} is not expected here", "Join conditions with 'and' or 'or'.")
        return found

    @property
    def _now(self) -> tuple[str, str, int]:
        return self.tokens[self.at]

    def _takes(self, *words: str) -> str:
        """The token, where it is one of these words or signs; it is then behind us."""
        kind, text, _ = self._now
        if kind in ("name", "sign") and text in words:
            self.at += 1
            return text
        return ""

    def _error(self, reason: str, hint: str) -> ConditionError:
        return ConditionError(reason, hint=hint, column=self._now[2])

    def _either(self) -> Expression:
        parts = [self._both()]
        while self._takes("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Junction("or", tuple(parts))

    def _both(self) -> Expression:
        parts = [self._negated()]
        while self._takes("and"):
            parts.append(self._negated())
        return parts[0] if len(parts) == 1 else Junction("and", tuple(parts))

    def _negated(self) -> Expression:
        times = 0
        while self._takes("not"):
            times += 1
        found = self._comparison()
        return Not(found) if times % 2 else found

    def _comparison(self) -> Expression:
        left = self._value()
        denied = self._now[1] == "not" and self.tokens[self.at + 1][1] in ("in", "contains")
        self.at += denied
        operator = self._takes(*_OPERATORS)
        if not operator:
            return left
        found = Comparison(left, operator, self._value())
        if self._now[1] in _OPERATORS:
            raise self._error("Comparisons do not follow each other", "Write 'a < b and b < c'.")
        return Not(found) if denied else found

    def _value(self) -> Expression:
        kind, text, _ = self._now
        if sign := self._takes("(", "["):
            return self._nested(sign)
        if kind == "end":
            raise self._error("The condition ends where a value is expected", "Write a value after it.")
        if kind == "sign" or text in ("and", "or", "in", "contains"):
            raise self._error(f"{text!r} stands where a value is expected", "Write a value before it.")
        self.at += 1
        if kind == "text":
            return Literal(re.sub(r"\\(.)", r"\1", text[1:-1]))
        if kind == "number":
            return Literal(float(text) if "." in text else int(text))
        return Literal(_CONSTANTS[text]) if text in _CONSTANTS else self._path(text)

    def _nested(self, sign: str) -> Expression:
        self.depth += 1
        if self.depth > DEEPEST:
            raise self._error(f"The condition is nested more than {DEEPEST} levels deep", "Make it simpler.")
        inner = self._list() if sign == "[" else self._either()
        if sign == "(":
            self._expect(")")
        self.depth -= 1
        return inner

    def _list(self) -> Expression:
        items: list[Expression] = []
        while not self._takes("]"):
            items.append(self._value())
            if self._now[1] != "]":
                self._expect(",")
        return Listing(tuple(items))

    def _path(self, name: str) -> Path:
        parts: list[str | int] = []
        while sign := self._takes(".", "["):
            kind, text, _ = self._now
            if kind != "name" if sign == "." else kind not in ("number", "text"):
                raise self._error(f"A name is expected after {sign!r}", "Write a.b, a[0] or a['b'].")
            self.at += 1
            parts.append(text if kind == "name" else text[1:-1] if kind == "text" else self._index(text))
            if sign == "[":
                self._expect("]")
        return Path(name, tuple(parts))

    def _index(self, text: str) -> int:
        if "." in text:
            raise self._error(f"{text} is not the number of an item", "Write a whole number.")
        return int(text)

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise self._error(f"{sign!r} is missing here", f"Add {sign!r}.")


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    at, end = 0, len(text.rstrip())
    if text.lstrip().startswith("{{") and text.rstrip().endswith("}}"):
        at, end = text.index("{{") + 2, len(text[: text.rindex("}}")].rstrip())
    while at < end:
        match = _TOKEN.match(text, at, end)
        if match is None:
            raise _unreadable(text[at:end].lstrip(), end - len(text[at:end].lstrip()))
        kind = str(match.lastgroup)
        yield kind, match[kind], match.start(kind)
        at = match.end()
    # Two of them, so that looking one ahead is always possible.
    yield from (("end", "", end), ("end", "", end))


def _unreadable(rest: str, column: int) -> ConditionError:
    sign = next((slip for slip in sorted(_SLIPS, key=len, reverse=True) if rest.startswith(slip)), "")
    if sign:
        return ConditionError(
            f"{sign!r} has no meaning in a condition", hint=f"Write {_SLIPS[sign]!r}.", column=column
        )
    if rest[0] in "'\"":
        return ConditionError("The text does not end", hint=f"Close it with {rest[0]}", column=column)
    return ConditionError(
        f"{rest[0]!r} has no meaning in a condition", hint="Write a comparison.", column=column
    )
