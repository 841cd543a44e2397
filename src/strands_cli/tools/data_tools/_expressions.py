"""Reads an expression and calculates it on the way: a parser by binding strength, and no `eval`."""

import re
from collections.abc import Callable, Iterable
from fractions import Fraction

import msgspec

from strands_cli.documents.problems import shorten
from strands_cli.errors import ToolFailed, did_you_mean
from strands_cli.tools.data_tools import _numbers as numbers
from strands_cli.tools.data_tools._functions import CONSTANTS, FUNCTIONS
from strands_cli.tools.data_tools._numbers import MOST_DIGITS, Number

MOST_LEVELS = 100

_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<based>0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+)"
    r"|(?P<number>(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[^\W\d][\w.]*)"
    r"|(?P<sign>\*\*|//|[-+*/%(),\[\]×·÷−])"
    r"|(?P<end>\Z)"
    r"|(?P<other>.))",
    re.DOTALL,
)
_SAME_SIGNS = {"×": "*", "·": "*", "÷": "/", "−": "-"}
_SAME_NAMES = {"π": "pi", "τ": "tau"}

_FOREIGN_SIGNS = {
    "^": "Write ** for a power.",
    "!": "Write factorial(n).",
    "=": "Give one side of the equation only.",
    "√": "Write sqrt(x).",
    "%": "% is the remainder of a division; for a percentage divide by 100.",
    ",": "Write numbers without commas between their digits.",
}

_OPERATORS: dict[str, tuple[int, int, Callable[[Number, Number], Number]]] = {
    # the sign: how strongly it binds what is on its left and on its right, and what it does
    "+": (1, 1, numbers.add),
    "-": (1, 1, numbers.subtract),
    "*": (2, 2, numbers.multiply),
    "/": (2, 2, numbers.divide),
    "//": (2, 2, numbers.floor_divide),
    "%": (2, 2, numbers.remainder),
    "**": (4, 3, numbers.power),
}
_NO_OPERATOR = (0, 0, numbers.add)
_UNARY_STRENGTH = 3


class _Token(msgspec.Struct, frozen=True):
    kind: str
    text: str
    position: int


def evaluate(expression: str) -> Number:
    """The value of an expression; ToolFailed where it has none."""
    reader = _Reader(expression)
    value = reader.expression()
    if reader.token.kind != "end":
        raise reader.unexpected()
    return value


class _Reader:
    """Stands at a token of the expression; each method reads a part and returns its value."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = 0
        self._levels = 0
        self.token = self._read()

    def expression(self, strength: int = 0) -> Number:
        """Everything from here on that binds more strongly than `strength`."""
        self._levels += 1
        if self._levels > MOST_LEVELS:
            raise ToolFailed(
                f"The expression is nested more than {MOST_LEVELS} levels deep",
                hint="Calculate its inner parts first, in calls of their own.",
            )
        value = self._operand()
        while True:
            binds_left, binds_right, apply = _OPERATORS.get(self.token.text, _NO_OPERATOR)
            if binds_left <= strength:
                break
            self._advance()
            value = apply(value, self.expression(binds_right))
        self._levels -= 1
        return value

    def _operand(self) -> Number:
        token = self._advance()
        if token.kind == "number":
            return _literal(token.text)
        if token.kind == "based":
            return numbers.bounded(Fraction(int(token.text, 0)))
        if token.kind == "name":
            return self._call(token) if self.token.text == "(" else _constant(token)
        if token.text == "(":
            value = self.expression()
            self._expect(")")
            return value
        if token.text in ("+", "-"):
            value = self.expression(_UNARY_STRENGTH)
            return -value if token.text == "-" else value
        self.token = token
        raise self.unexpected()

    def _call(self, name: _Token) -> Number:
        function = FUNCTIONS.get(name.text)
        if function is None:
            raise _unknown("function", name.text, FUNCTIONS)
        self._expect("(")
        arguments = self._arguments(")")
        if not function.takes(len(arguments)):
            raise ToolFailed(
                f"{name.text} takes {function.arity}, not {len(arguments)}",
                hint=f"Write it as {name.text}({function.usage}).",
            )
        return function.body(*arguments)

    def _arguments(self, closing: str) -> list[Number]:
        """Up to the closing sign; a list in brackets counts as the numbers in it, as in sum([1, 2])."""
        values: list[Number] = []
        while self.token.text != closing:
            if closing == ")" and self.token.text == "[":
                self._advance()
                values += self._arguments("]")
            else:
                values.append(self.expression())
            if self.token.text != closing:
                self._expect(",")
        self._advance()
        return values

    def _expect(self, sign: str) -> None:
        if self.token.text != sign:
            raise self.unexpected(f"; {sign!r} was expected")
        self._advance()

    def _advance(self) -> _Token:
        passed, self.token = self.token, self._read()
        return passed

    def _read(self) -> _Token:
        match = _TOKEN.match(self._text, self._next)
        if match is None or match.lastgroup is None:  # the last two alternatives match whatever is left
            raise AssertionError(self._text[self._next :])
        self._next = match.end()
        kind, text = match.lastgroup, match[match.lastgroup]
        same = _SAME_SIGNS.get(text, _SAME_NAMES.get(text, text))
        return _Token(kind, same, match.start(kind) + 1)

    def unexpected(self, expected: str = "") -> ToolFailed:
        """What to say of the token that the reader stands at."""
        token = self.token
        if token.kind == "end":
            percent = self._text.rstrip().endswith("%")
            hint = _FOREIGN_SIGNS["%"] if percent else "Complete it."
            return ToolFailed(f"The expression ends too early{expected}", hint=hint)
        hint = _FOREIGN_SIGNS.get(token.text, "")
        if token.kind in ("number", "based", "name") or token.text == "(":
            hint = "Write * between two factors."
        what = f"{shorten(token.text, 20)!r} at position {token.position}"
        return ToolFailed(
            f"The expression cannot be read from {what} on{expected}",
            hint=hint or f"The operators are {' '.join(_OPERATORS)} and parentheses.",
        )


def _literal(text: str) -> Number:
    digits, _, exponent = text.replace("_", "").lower().partition("e")
    if len(digits) > MOST_DIGITS or len(exponent) > 6 or abs(int(exponent or 0)) > MOST_DIGITS:
        raise numbers.too_large(f"The number {shorten(text, 30)}")
    return numbers.bounded(Fraction(digits) * Fraction(10) ** int(exponent or 0))


def _constant(name: _Token) -> Number:
    constant = CONSTANTS.get(name.text)
    if constant is not None:
        return constant()
    if name.text in FUNCTIONS:
        usage = f"{name.text}({FUNCTIONS[name.text].usage})"
        raise ToolFailed(f"{name.text} is a function without its arguments", hint=f"Write it as {usage}.")
    raise _unknown("constant", name.text, CONSTANTS)


def _unknown(kind: str, name: str, known: Iterable[str]) -> ToolFailed:
    """The last part of a dotted name counts, since people write math.sqrt."""
    hint = did_you_mean(name.rpartition(".")[2], known)
    listed = f"The {kind}s are {', '.join(known)}."
    if name in CONSTANTS:
        return ToolFailed(f"{name} is a constant, not a function", hint="Write * between two factors.")
    return ToolFailed(f"There is no {kind} {shorten(name, 40)!r}", hint=hint or listed)
