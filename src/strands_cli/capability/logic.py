"""What the form of a condition shows: that it is never true, or always, or the opposite of another."""

from strands_cli.expressions import (
    Comparison,
    ConditionError,
    Expression,
    Junction,
    Literal,
    Not,
    Path,
    holds,
    paths,
)

_ORDERS = ("!=", "<", "<=", ">", ">=")
_OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def negation(expression: Expression) -> Expression:
    """The condition that is true where this one is false."""
    if isinstance(expression, Not):
        return expression.inner
    if isinstance(expression, Comparison) and expression.operator in _OPPOSITES:
        return Comparison(expression.left, _OPPOSITES[expression.operator], expression.right)
    return Not(expression)


def is_impossible(expression: Expression) -> bool:
    """Whether a condition is never true, as far as its form shows: constants, and claims that clash."""
    if not any(paths(expression)):
        return not _constant(expression)
    if isinstance(expression, Junction) and expression.word == "or":
        return all(is_impossible(part) for part in expression.parts)
    if not isinstance(expression, Junction):
        return False
    claims = [part for part in expression.parts if isinstance(part, Comparison)]
    clash = any(_clash(one, other) for index, one in enumerate(claims) for other in claims[:index])
    denied = any(negation(part) in expression.parts for part in expression.parts)
    return clash or denied or any(is_impossible(part) for part in expression.parts)


def is_certain(expression: Expression) -> bool:
    """Whether a condition is always true, as far as its form shows."""
    if not any(paths(expression)):
        return _constant(expression)
    if isinstance(expression, Junction) and expression.word == "or":
        return any(negation(part) in expression.parts or is_certain(part) for part in expression.parts)
    return isinstance(expression, Not) and is_impossible(expression.inner)


def _constant(expression: Expression) -> bool:
    try:
        return holds(expression, {})
    except ConditionError:
        return False


def _clash(one: Comparison, other: Comparison) -> bool:
    """Whether two claims about the same path, each against a constant, cannot both be true."""
    if one.left != other.left or not isinstance(one.left, Path):
        return False
    if not isinstance(one.right, Literal) or not isinstance(other.right, Literal):
        return False
    exact = [claim.right.value for claim in (one, other) if claim.operator == "=="]  # type: ignore[union-attr]
    if len(exact) == 2:
        return bool(exact[0] != exact[1])
    if exact:
        rest = other if one.operator == "==" else one
        return rest.operator in _ORDERS and not _constant(
            Comparison(Literal(exact[0]), rest.operator, rest.right)
        )
    return _bounds_clash(one, other) or _bounds_clash(other, one)


def _bounds_clash(upper: Comparison, lower: Comparison) -> bool:
    """`x < 3` and `x > 5`."""
    if upper.operator not in ("<", "<=") or lower.operator not in (">", ">="):
        return False
    strict = upper.operator == "<" or lower.operator == ">"
    return _constant(Comparison(upper.right, "<=" if strict else "<", lower.right))
