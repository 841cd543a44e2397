"""Conditions on edges: they compare what nodes answered, and do nothing else.

`nodes.review.response contains 'approved' and not (inputs.strict and nodes.score.output.points[0] < 3)`:
names and what is below them, text, numbers, lists, `true`, `false` and `null`; `==`, `!=`, `<`, `<=`, `>`,
`>=`, `in`, `contains`; `and`, `or`, `not` and parentheses; of a value also `.lower()`, `| length`, `int(…)`
and the like. The whole may stand in `{{ … }}`; `else` alone is true. What is not there (a node that has not
run) is null, and so is everything below it or made of it. Text that is a number is compared as one with a
number. `contains` does not mind upper and lower case, since it is what models write that is looked into; `in`
and `==` do.

The parser is that of the templates. It gets no other tokens than these, and what it makes of them is a tree
of ours, which nests and takes as much time and memory as the text is long.
"""
# ruff: noqa: TID253 - only graphs import this module, and what they are made of needs Jinja anyway

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import combinations, product
from operator import and_, or_
from typing import Any

import msgspec
from jinja2 import TemplateSyntaxError, nodes
from jinja2.lexer import Token, TokenStream, operators, reverse_operators
from jinja2.parser import Parser

from strands_cli.errors import SpecError, did_you_mean
from strands_cli.templates import Name, name_and_path
from strands_cli.templates.environment import template_environment, with_valid_escapes
from strands_cli.templates.meter import TooMuch, current_meter
from strands_cli.templates.pattern_search import search_pattern

LONGEST = 2_000
DEEPEST = 40

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<string>'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")
      | (?P<number>-?\d+(?:\.\d+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>==|!=|<=|>=|<|>|\|(?!\|)|[()\[\],.])
    )""",
    re.VERBOSE | re.DOTALL,
)
_RESERVED = frozenset({"and", "or", "not", "in", "is", "if", "else"})
_SLIPS = {"===": "==", "&&": "and", "||": "or", "=": "==", "!": "not"}
_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""Never both true of the same two values. Both `<` and `>=` are false of null, which has no order."""
_FILTERS = ("lower", "upper", "trim", "length", "int", "float", "string", "default", "search")
_CHANGES = {
    "filter": {name: name for name in _FILTERS},
    "method": {"lower": "lower", "upper": "upper", "strip": "trim"},
    "function": {"len": "length", "int": "int", "float": "float", "str": "string"},
}
"""What may be done to a value, each as the filter that does the same."""
_WITH_ARGUMENT = ("default", "search")
_OF_RESULTS = ("status", "type", "tokens", "tokens_estimated", "index", "iteration")
_MOST_CLAIMS = 12
"""How many different claims a truth table has room for: it has 4,096 rows."""


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


class Change(msgspec.Struct, frozen=True):
    """What a filter, a method or a function makes of a value, under the name of the filter."""

    name: str
    argument: "Expression | None" = None


class Changed(msgspec.Struct, frozen=True):
    value: "Expression"
    changes: tuple[Change, ...]
    """One after the other."""


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


Expression = Literal | Listing | Name | Changed | Comparison | Not | Junction


# --- Reading ----------------------------------------------------------------------------------------------


def parse_condition(text: str) -> Expression:
    """The condition that a text states; ConditionError says where and why it is not one."""
    if len(text) > LONGEST:
        raise ConditionError(f"The condition has more than {LONGEST} characters", hint="Make it shorter.")
    if re.fullmatch(r"\s*(?:\{\{\s*else\s*\}\}|else)\s*", text, re.IGNORECASE):
        return Literal(True)
    parser = Parser(template_environment(), "")
    tokens = [Token(*token) for token in _condition_tokens(text)]
    parser.stream = TokenStream(iter(tokens), None, None)
    try:
        condition = _parsed_expression(parser.parse_expression(with_condexpr=False), text)
    except TemplateSyntaxError as error:
        column, word = error.lineno, _word_at(text, error.lineno)
        absent = re.search(r"\bexpected (?:token )?'(.+?)'", error.message or "")
        if absent is not None:
            reason, hint = f"{absent[1]!r} is missing here", f"Add {absent[1]!r}."
        elif error.message == "expected name or number":
            reason, hint = "A name is expected after '.'", "Write a.b, a[0] or a['b']."
        elif not word:
            reason, hint = "The condition ends where a value is expected", "Write a value after it."
        else:
            reason, hint = f"{word!r} found where a value is expected", "Write a value before it."
        raise ConditionError(reason, hint=hint, column=column) from None
    except RecursionError:  # the caller has left less room than that
        raise _condition_too_deep() from None
    if parser.stream.current.type != "eof":
        raise _unexpected_word(text, parser.stream.current.lineno)
    return condition


def _condition_tokens(text: str) -> Iterator[tuple[int, str, Any]]:
    """The tokens of a condition as Jinja's parser takes them, each with its column in place of a line."""
    at, end = 0, len(text.rstrip())
    if text.lstrip().startswith("{{") and text.rstrip().endswith("}}"):
        at, end = text.index("{{") + 2, len(text[: text.rindex("}}")].rstrip())
    depth = negations = 0
    kind = value = ""
    while at < end:
        match = _TOKEN.match(text, at, end)
        if match is None:
            raise _unreadable_condition(text[at:end].lstrip(), end - len(text[at:end].lstrip()))
        is_member = value == "."  # a node may be called as a word of ours
        last, kind = kind, str(match.lastgroup)
        value, column, at = match[kind], match.start(kind), match.end()
        if last == kind == "string":  # which Jinja would join
            raise _unexpected_word(text, column)
        depth += (value in ("(", "[")) - (value in (")", "]"))
        negations = negations + 1 if value == "not" else 0
        if depth + negations > DEEPEST:
            raise _condition_too_deep(column)
        if kind == "string":
            yield column, kind, _literal_text(value[1:-1], column)
        elif kind == "number":
            yield column, *(("float", float(value)) if "." in value else ("integer", int(value)))
        elif value == "contains" and not is_member:
            # Jinja has no such operator. A plus, which conditions lack, tells it from `in`.
            yield from ((column, "name", "in"), (column, "add", "+"))
        elif kind == "name":
            yield column, kind, "none" if value == "null" and not is_member else value
        else:
            yield column, operators[value], value
    yield end, "eof", ""


def _literal_text(literal: str, column: int) -> str:
    """The text that a literal stands for, as in templates: a backslash that begins no escape stays."""
    try:
        return with_valid_escapes(literal).encode("ascii", "backslashreplace").decode("unicode-escape")
    except UnicodeDecodeError as error:
        reason, hint = f"Invalid escape in a text: {error.reason}", "Write two backslashes for one."
        raise ConditionError(reason, hint=hint, column=column) from None


def _word_at(text: str, column: int) -> str:
    match = _TOKEN.match(text, column)
    return match.group().strip() if match else ""


def _condition_too_deep(column: int = 0) -> ConditionError:
    reason = f"The condition is nested more than {DEEPEST} levels deep"
    return ConditionError(reason, hint="Make it simpler.", column=column)


def _unexpected_word(text: str, column: int) -> ConditionError:
    reason = f"{_word_at(text, column)!r} is not expected here"
    return ConditionError(reason, hint="Join conditions with 'and' or 'or'.", column=column)


def _unreadable_condition(rest: str, column: int) -> ConditionError:
    slip = next((slip for slip in _SLIPS if rest.startswith(slip)), "")
    if not slip and rest[0] in "'\"":
        return ConditionError("The text does not end", hint=f"Close it with {rest[0]}", column=column)
    hint = f"Write {_SLIPS[slip]!r}." if slip else "Write a comparison."
    return ConditionError(f"{slip or rest[0]!r} has no meaning in a condition", hint=hint, column=column)


def _parsed_expression(node: nodes.Node, text: str) -> Expression:
    match node:
        case nodes.Const(value=value):
            return Literal(value)
        case nodes.List(items=items):
            return Listing(tuple(_parsed_expression(item, text) for item in items))
        case nodes.Not(node=inner):
            found = _parsed_expression(inner, text)
            return found.inner if isinstance(found, Not) else Not(found)
        case nodes.And() | nodes.Or():
            kind, parts = type(node), list[nodes.Node]()
            while isinstance(node, kind):
                parts.append(node.right)
                node = node.left
            ordered = (node, *reversed(parts))
            return Junction(kind.__name__.lower(), tuple(_parsed_expression(part, text) for part in ordered))
        case nodes.Compare(expr=left, ops=operands):
            return _parsed_comparison(left, operands, text)
        case nodes.Filter() | nodes.Call():
            return _parsed_changes(node, text)
        case nodes.Pos(node=inner):  # of `contains`
            return _parsed_expression(inner, text)
        case _:
            return _parsed_name(node, text)


def _parsed_comparison(left: nodes.Node, operands: list[nodes.Operand], text: str) -> Expression:
    if len(operands) > 1:
        reason, column = "Comparisons do not follow each other", operands[1].expr.lineno
        raise ConditionError(reason, hint="Write 'a < b and b < c'.", column=column)
    operator, right = reverse_operators.get(operands[0].op, "in"), operands[0].expr
    inner: nodes.Node | None = right
    while isinstance(inner, nodes.Filter):
        inner = inner.node
    if isinstance(inner, nodes.Pos):
        operator = "contains"
    found = Comparison(_parsed_expression(left, text), operator, _parsed_expression(right, text))
    return Not(found) if operands[0].op == "notin" else found


def _parsed_changes(node: nodes.Node, text: str) -> Changed:
    changes: list[Change] = []
    while True:
        match node:
            case nodes.Filter(node=nodes.Node() as inner, name=name, args=given):
                changes.append(_parsed_change("filter", name, given, node, text))
            case nodes.Call(node=nodes.Getattr(node=inner, attr=name), args=given):
                changes.append(_parsed_change("method", name, given, node, text))
            case nodes.Call(node=nodes.Name(name=name), args=[inner, *given]):
                changes.append(_parsed_change("function", name, given, node, text))
            case nodes.Call():
                raise _unexpected_word(text, node.lineno)
            case _:
                return Changed(_parsed_expression(node, text), tuple(reversed(changes)))
        node = inner


def _parsed_change(noun: str, word: str, given: Sequence[nodes.Node], node: Any, text: str) -> Change:
    known = _CHANGES[noun]
    if word not in known:
        hint = did_you_mean(word, known) or f"Available: {', '.join(known)}."
        raise ConditionError(f"There is no {noun} {word!r} in conditions", hint=hint, column=node.lineno)
    name = known[word]
    expected = int(name in _WITH_ARGUMENT)
    if len(given) != expected or node.kwargs or node.dyn_args or node.dyn_kwargs:
        reason = f"The {noun} {word!r} takes {'one value' if expected else 'no other arguments'}"
        hint = f"Write {word}('…')." if expected else "Leave them out."
        raise ConditionError(reason, hint=hint, column=node.lineno)
    return Change(name, _parsed_expression(given[0], text) if given else None)


def _parsed_name(node: nodes.Node, text: str) -> Name:
    chain = name_and_path(node)
    if chain is None and not isinstance(node, nodes.Getitem):
        raise _unexpected_word(text, node.lineno)
    if chain is None or not all(type(part) in (str, int) for part in chain[1]):
        reason, hint = "A number or a text is expected in the brackets", "Write a[0] or a['b']."
        raise ConditionError(reason, hint=hint, column=node.lineno)
    name, path = chain
    if name in _RESERVED:
        reason = f"{_word_at(text, node.lineno)!r} found where a value is expected"
        raise ConditionError(reason, hint="Write a value before it.", column=node.lineno)
    if internal := [part for part in chain[1] if re.fullmatch("__.*__", str(part))]:
        reason, hint = f"{internal[0]!r} cannot be used in a condition", "Name a part of an answer."
        raise ConditionError(reason, hint=hint, column=node.lineno)
    return Name(name, path)


def names_in_condition(expression: Expression) -> Iterator[Name]:
    """Every name in a condition, with what is asked of it."""
    match expression:
        case Name():
            yield expression
        case Listing(parts) | Junction(_, parts):
            for part in parts:
                yield from names_in_condition(part)
        case Not(inner):
            yield from names_in_condition(inner)
        case Changed(value, changes):
            for part in (value, *(change.argument for change in changes if change.argument is not None)):
                yield from names_in_condition(part)
        case Comparison(left, _, right):
            yield from names_in_condition(left)
            yield from names_in_condition(right)


# --- Deciding ---------------------------------------------------------------------------------------------


def condition_holds(condition: Expression, scope: Mapping[str, Any]) -> bool:
    """Whether a condition is true of a scope; ConditionError if two values cannot be compared."""
    try:
        with current_meter().running():
            return _is_true(condition, scope)
    except TooMuch:
        hint = "Compare less, or shorter values."
        raise ConditionError("The condition takes too long to decide", hint=hint) from None


def _is_true(condition: Expression, scope: Mapping[str, Any]) -> bool:
    value = evaluate_expression(condition, scope)
    return bool(value.strip()) if isinstance(value, str) else bool(value)


def evaluate_expression(expression: Expression, scope: Mapping[str, Any]) -> Any:
    match expression:
        case Literal(value):
            return value
        case Listing(items):
            return [evaluate_expression(item, scope) for item in items]
        case Name(name, path):
            value = scope.get(name)
            for part in path:
                value = _value_member(value, part)
            return value
        case Changed():
            return _evaluate_changes(expression, scope)
        case Not(inner):
            return not _is_true(inner, scope)
        case Junction("and", parts):
            return all(_is_true(part, scope) for part in parts)
        case Junction(_, parts):
            return any(_is_true(part, scope) for part in parts)
        case Comparison(left, operator, right):
            return _compare_values(
                _comparable_value(evaluate_expression(left, scope)),
                operator,
                _comparable_value(evaluate_expression(right, scope)),
            )


def _value_member(value: Any, part: object) -> Any:
    """What is below a value: a mapping's key, a list's item, or a field of one of our own values."""
    if isinstance(value, Mapping):
        return value.get(part)
    if isinstance(value, list | tuple) and isinstance(part, int):
        return value[part] if -len(value) <= part < len(value) else None
    if isinstance(value, msgspec.Struct) and part in (*value.__struct_fields__, *_OF_RESULTS):
        return getattr(value, str(part), None)
    return None


def _comparable_value(value: Any) -> Any:
    """A result of a step is compared as the text that it is."""
    return str(value) if isinstance(value, msgspec.Struct) else value


def _evaluate_changes(changed: Changed, scope: Mapping[str, Any]) -> Any:
    value = evaluate_expression(changed.value, scope)
    for change in changed.changes:
        argument = None if change.argument is None else evaluate_expression(change.argument, scope)
        value = _changed_value(_comparable_value(value), change.name, argument)
    return value


def _changed_value(value: Any, change: str, argument: Any) -> Any:
    """What a filter makes of a value. Of null it makes null, but for `default`, and `length`, which is 0."""
    meter = current_meter()
    meter.spend(meter.weight(value))
    if change == "default":
        return argument if value is None else value
    if value is None:
        return 0 if change == "length" else None
    if change in ("int", "float"):
        return _as_number(value, int if change == "int" else float)
    if change == "length" and isinstance(value, str | list | tuple | Mapping):
        return len(value)
    if change == "length" or not isinstance(value, str | int | float):
        needed = "a text or a list" if change == "length" else "a text"
        raise ConditionError(f"{change!r} needs {needed}, not {str(value)[:60]!r}", hint="Use it on a text.")
    if change == "search":
        return _is_found(str(argument), str(value))
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return {"lower": text.lower, "upper": text.upper, "trim": text.strip}.get(change, text.__str__)()


def _as_number(value: Any, kind: type[int] | type[float]) -> int | float:
    """As in Jinja: 0 for what is not a number."""
    try:
        return kind(value)
    except (ValueError, TypeError, OverflowError):
        pass
    try:
        return kind(float(value))
    except (ValueError, TypeError, OverflowError):
        return kind(0)


def _is_found(pattern: str, text: str) -> bool:
    try:
        return search_pattern(pattern, text) is not None
    except ValueError as error:
        raise ConditionError(f"'search' failed: {error}", hint="Correct the expression.") from None


def _compare_values(left: Any, operator: str, right: Any) -> bool:
    meter = current_meter()
    meter.spend(meter.weight(left) + meter.weight(right))
    if operator == "contains":
        return _contains_value(left, right, ignore_case=True)
    if operator == "in":
        return _contains_value(right, left, ignore_case=False)
    if _is_number(left):
        right = _text_as_number(right)
    elif _is_number(right):
        left = _text_as_number(left)
    if operator in ("==", "!="):
        return bool(left == right) == (operator == "==")
    if left is None or right is None:
        return False
    if not all(map(_is_number, (left, right))) and not all(isinstance(side, str) for side in (left, right)):
        reason = f"{str(left)[:60]!r} and {str(right)[:60]!r} have no order"
        raise ConditionError(reason, hint="Compare numbers, or texts.")
    if operator in ("<", ">="):
        return bool(left < right) == (operator == "<")
    return bool(left > right) == (operator == ">")


def _contains_value(whole: Any, part: Any, *, ignore_case: bool) -> bool:
    if whole is None or part is None:
        return False
    if isinstance(whole, str):
        inner = part if isinstance(part, str) else str(part)
        return inner.casefold() in whole.casefold() if ignore_case else inner in whole
    if isinstance(whole, list | tuple | Mapping):
        return part in list(whole)
    raise ConditionError(f"Nothing can be in {whole!r}", hint="Look into a text or a list.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text_as_number(value: Any) -> Any:
    """Text as a number, if it is one."""
    try:
        return float(value.strip()) if isinstance(value, str) else value
    except ValueError:
        return value


# --- What the form of a condition shows -------------------------------------------------------------------


def negated_condition(
    expression: Expression, is_never_null: Callable[[Name], bool] = lambda _: False
) -> Expression:
    """The condition that is true when this one is false. With null, both `<` and `>=` may be false."""
    if isinstance(expression, Not):
        return expression.inner
    if isinstance(expression, Comparison) and (
        expression.operator in ("==", "!=")
        or (expression.operator in _OPPOSITES and all(map(is_never_null, names_in_condition(expression))))
    ):
        return Comparison(expression.left, _OPPOSITES[expression.operator], expression.right)
    return Not(expression)


def is_impossible(expression: Expression) -> bool:
    """Whether a condition is never true, as far as its form shows: constants, and claims that clash."""
    return is_exhaustive([Not(expression)])


def is_certain(expression: Expression) -> bool:
    """Whether a condition is always true, as far as its form shows."""
    return is_exhaustive([expression])


def is_exhaustive(
    conditions: Sequence[Expression], is_never_null: Callable[[Name], bool] = lambda _: False
) -> bool:
    """Whether one of the conditions is always true, as far as their form shows.

    It is read from a truth table with a column for each claim. A column is a number whose bits are its rows.
    """
    plain = [_without_negative_claims(condition, is_never_null) for condition in conditions]
    claims = list(dict.fromkeys(claim for condition in plain for claim in _claims_in(condition)))
    if len(claims) > _MOST_CLAIMS:
        return False
    every = (1 << (1 << len(claims))) - 1
    columns = {claim: every // ((1 << (1 << index)) + 1) for index, claim in enumerate(claims)}
    covered = 0
    for condition in plain:
        covered |= _truth_column(condition, columns, every)
    sides: list[list[tuple[Comparison, int]]] = []
    for claim, column in columns.items():
        both = ((claim, column), (negated_condition(claim, is_never_null), every ^ column))
        sides.append([(side, rows) for side, rows in both if isinstance(side, Comparison)])
    for one, other in combinations(sides, 2):
        for (claim, rows), (second, others) in product(one, other):
            if rows & others & ~covered and _claims_clash(claim, second):
                covered |= rows & others  # which cannot be
    return covered == every


def _without_negative_claims(expression: Expression, is_never_null: Callable[[Name], bool]) -> Expression:
    """With `not a == b` for `a != b`, so that both are one claim; `<=` and `>=` too if nothing is null."""
    match expression:
        case Junction(word, parts):
            return Junction(word, tuple(_without_negative_claims(part, is_never_null) for part in parts))
        case Not(inner):
            return Not(_without_negative_claims(inner, is_never_null))
        case Comparison(_, "!=" | "<=" | ">=", _):
            opposite = negated_condition(expression, is_never_null)
            return Not(opposite) if isinstance(opposite, Comparison) else expression
    return expression


def _claims_in(expression: Expression) -> Iterator[Expression]:
    """What a condition is made of, without `and`, `or`, `not` and constants."""
    match expression:
        case Junction(_, parts):
            for part in parts:
                yield from _claims_in(part)
        case Not(inner):
            yield from _claims_in(inner)
        case _ if any(names_in_condition(expression)):
            yield expression


def _truth_column(expression: Expression, columns: Mapping[Expression, int], every: int) -> int:
    match expression:
        case Not(inner):
            return every ^ _truth_column(inner, columns, every)
        case Junction("and", parts):
            return reduce(and_, (_truth_column(part, columns, every) for part in parts))
        case Junction(_, parts):
            return reduce(or_, (_truth_column(part, columns, every) for part in parts))
    known = columns.get(expression)
    return known if known is not None else every if _constant_truth(expression) else 0


def _constant_truth(expression: Expression) -> bool:
    try:
        return condition_holds(expression, {})
    except ConditionError:
        return False


def _claims_clash(one: Comparison, other: Comparison) -> bool:
    """Whether two claims cannot both be true: opposite ones, and those about one name and two constants."""
    if (one.left, one.right, _OPPOSITES.get(one.operator)) == (other.left, other.right, other.operator):
        return True
    if one.left != other.left or not isinstance(one.left, Name | Changed):
        return False
    if not isinstance(one.right, Literal) or not isinstance(other.right, Literal):
        return False
    if _is_number(one.right.value) != _is_number(other.right.value):
        return False  # text that is a number is compared as one with a number, and else as text
    for claim, rest in ((one, other), (other, one)):
        if claim.operator == "==" and rest.operator in _OPPOSITES:  # what it is, put into the other claim
            return not _constant_truth(Comparison(claim.right, rest.operator, rest.right))
        if claim.operator in ("<", "<=") and rest.operator in (">", ">="):  # x < 3 and x > 5
            meets = claim.operator == "<=" and rest.operator == ">="
            return _constant_truth(Comparison(claim.right, "<" if meets else "<=", rest.right))
    return False
