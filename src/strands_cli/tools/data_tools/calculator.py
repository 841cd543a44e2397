"""Evaluate an arithmetic expression. Python's parser reads it, and only arithmetic is let through.

A number is a Fraction while it is exact, a Decimal after a root, a power or a logarithm, and a float after a
trigonometric or hyperbolic function.
"""

import ast
import inspect
import math
import operator
import re
from collections.abc import Callable, Iterable
from decimal import Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow, localcontext
from fractions import Fraction
from functools import partial, reduce

from strands_cli.documents.problems import shorten_text
from strands_cli.errors import ToolFailed, did_you_mean
from strands_cli.toolkit.decorator import tool
from strands_cli.tools import with_tool_specs

TOOL_SPEC = {
    "name": "calculator",
    "description": (
        "Evaluate an arithmetic expression. Integers, fractions and decimals are exact: 0.1 + 0.2 is 0.3. "
        "Operators: + - * / // % ** and parentheses; ** is the power, % the remainder. "
        "Functions: sqrt, cbrt, abs, round, floor, ceil, trunc, min, max, sum, exp, log(x) or log(x, base), "
        "ln, log2, log10, sin, cos, tan, asin, acos, atan, atan2, sinh, cosh, tanh, degrees, radians, "
        "factorial, gcd, lcm, comb, perm, hypot, pow, mod. Constants: pi, e, tau. "
        "Angles are in radians; trigonometric and hyperbolic functions are right to 15 digits. "
        "Halves are rounded away from zero."
    ),
    "inputSchema": {
        "json": {
            "type": "object",
            "properties": {
                "expression": {
                    "type": "string",
                    "description": "What to evaluate, such as '(2 + 3) * 4' or 'sqrt(2) / sin(pi / 6)'",
                    "minLength": 1,
                    "maxLength": 10000,
                },
                "precision": {
                    "type": "integer",
                    "description": "Digits after the point to round the result to; "
                    "without it only what has no end is rounded, to 16 digits",
                    "minimum": 0,
                    "maximum": 50,
                },
            },
            "required": ["expression"],
        }
    },
}


@tool(spec=TOOL_SPEC, version="1.0.0", category="data", timeout=10.0, annotations={"readOnlyHint": True})
def calculator(expression: str, precision: int | None = None) -> str:
    with localcontext(_CONTEXT):
        return _number_text(_evaluate_expression(expression), precision)


Number = Fraction | Decimal | float

_CONTEXT = Context(prec=120, Emax=99_999, Emin=-99_999, traps=[DivisionByZero, InvalidOperation, Overflow])
_TRUSTED_DIGITS = 100
"""Of a decimal's 120 digits, those that rounding errors have not reached."""
_FLOAT_DIGITS = 15
_MAX_DIGITS = 4000
"""Of an exact number. Python itself refuses to print an integer with more than 4300."""
_MAX_BITS = int(_MAX_DIGITS * math.log2(10))
_MAX_ROUNDING_DIGITS = 1000
_MAX_ANGLE = Decimal("1e100")

_SHOWN_DIGITS = 16
_SHOWN_EXACT_DIGITS = 28
_SMALLEST_SHOWN_EXPONENT = -7

_SYNTAX = (
    "The operators are + - * / // % ** and parentheses. Write * between two factors, ** for a power, "
    "factorial(n) for n!, numbers without commas; close what you open; divide by 100 for a percentage."
)

# --- Expressions --------------------------------------------------------------------------------------------

_SAME = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "π": "pi", "τ": "tau"})
_FOREIGN = re.compile(
    r"[^\w.+*/%()\[\], -]|[^\x00-\x7f]"
    # or a letter right after a number: 2pi is missing its operator, and 1or is a warning of Python's
    r"|(?<![\w.])(?>0[xXbBoO][\da-fA-F_]+|\.?\d[\d_.]*(?:[eE][+-]?\d[\d_]*)?)[a-zA-Z]"
)


def _evaluate_expression(expression: str) -> Number:
    """The value of an expression; ToolFailed where it has none. To be called under _CONTEXT."""
    text = re.sub(r"\s", " ", expression.translate(_SAME)).strip()
    if foreign := _FOREIGN.search(text):
        raise _unreadable_expression(text, foreign.end() - 1)
    try:
        return _evaluate_node(ast.parse(text, mode="eval").body, text)
    except SyntaxError as problem:
        _check_parentheses(text)
        raise _unreadable_expression(text, (problem.offset or len(text) + 1) - 1) from None
    except (RecursionError, MemoryError):
        raise ToolFailed(
            "The expression is nested too deeply",
            hint="Calculate its inner parts first, in separate calls.",
        ) from None
    except (Overflow, OverflowError):
        raise ToolFailed(
            "A number in the calculation is too large to be represented",
            hint="Use smaller numbers, or calculate with logarithms.",
        ) from None


def _evaluate_node(node: ast.expr, text: str) -> Number:
    match node:
        case ast.Constant(value=int() | float()) if not isinstance(node.value, bool):
            return _literal_number(node, text)
        case ast.UnaryOp(op=ast.UAdd()):
            return _evaluate_node(node.operand, text)
        case ast.UnaryOp(op=ast.USub()):
            return -_evaluate_node(node.operand, text)
        case ast.BinOp():
            return _evaluate_operations(node, text)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.Name(id=name) if name in _FUNCTIONS:
            raise ToolFailed(f"{name} is a function without its arguments", hint=_function_usage(name))
        case ast.Name(id=name):
            raise _unknown_name("constant", name, _CONSTANTS)
        case ast.Call(func=ast.Name() | ast.Attribute(), keywords=[]):
            return _evaluate_call(node, text)
    raise _unreadable_expression(text, node.col_offset)


def _literal_number(node: ast.Constant, text: str) -> Number:
    if isinstance(node.value, int):
        return _bounded_number(Fraction(node.value))
    written = text[node.col_offset : node.end_col_offset]
    number = Decimal(written)
    if len(written) > _MAX_DIGITS or abs(number.adjusted()) > _MAX_DIGITS:
        raise _too_many_digits(f"The number {shorten_text(written, 30)}")
    return _bounded_number(Fraction(number))


def _evaluate_operations(node: ast.expr, text: str) -> Number:
    """From left to right, so that a long sum is not a deep one."""
    links: list[ast.BinOp] = []
    while isinstance(node, ast.BinOp):
        links.append(node)
        node = node.left
    value = _evaluate_node(node, text)
    for link in reversed(links):
        right = _evaluate_node(link.right, text)
        sign, apply = _OPERATORS[type(link.op)]
        try:
            value = apply(value, right)
        except (ZeroDivisionError, InvalidOperation, ValueError) as problem:
            tried = f"{shorten_text(_number_text(value), 30)} {sign} {shorten_text(_number_text(right), 30)}"
            reason, hint = f"Division by zero: {tried}", "Give a divisor that is not zero."
            if not isinstance(problem, ZeroDivisionError):
                reason = f"{tried} is not a real number"
                hint = "A negative number has whole powers only; cbrt gives the cube root."
            raise ToolFailed(reason, hint=hint) from None
    return value


def _evaluate_call(node: ast.Call, text: str) -> Number:
    name = text[node.func.col_offset : node.func.end_col_offset]
    if name in _CONSTANTS:
        raise ToolFailed(f"{name} is a constant, not a function", hint="Write * between two factors.")
    if name not in _FUNCTIONS:
        raise _unknown_name("function", name, _FUNCTIONS)
    arguments: list[Number] = []
    for argument in node.args:  # a list in brackets counts as the numbers in it, as in sum([1, 2])
        parts = argument.elts if isinstance(argument, ast.List) else [argument]
        arguments += [_evaluate_node(part, text) for part in parts]
    try:
        inspect.signature(_FUNCTIONS[name]).bind(*arguments)
    except TypeError:
        raise ToolFailed(
            f"{name} does not take {len(arguments)} argument(s)", hint=_function_usage(name)
        ) from None
    try:
        return _FUNCTIONS[name](*arguments)
    except (ValueError, InvalidOperation, ZeroDivisionError):
        call = f"{name}({', '.join(map(_number_text, arguments))})"
        takes = _TAKES.get(name, "whole numbers")
        raise ToolFailed(f"{shorten_text(call, 60)} has no value", hint=f"{name} takes {takes}.") from None


def _function_usage(name: str) -> str:
    parameters = inspect.signature(_FUNCTIONS[name]).parameters.values()
    written = ("…" if each.kind is each.VAR_POSITIONAL else each.name for each in parameters)
    return f"Write it as {name}({', '.join(written)})."


def _check_parentheses(text: str) -> None:
    """Says which parenthesis is missing, if one is."""
    open_at: list[int] = []
    for position, character in enumerate(text, 1):
        if character == "(":
            open_at.append(position)
        elif character == ")" and not open_at:
            raise ToolFailed(
                f"The ')' at position {position} has no '(' before it",
                hint="Add the missing '(', or remove this ')'.",
            )
        elif character == ")":
            open_at.pop()
    if open_at:
        missing = "A ')' is missing" if len(open_at) == 1 else f"{len(open_at)} ')' are missing"
        raise ToolFailed(
            f"{missing}: the '(' at position {open_at[-1]} is never closed",
            hint="Add the missing ')', or remove this '('.",
        )


def _unreadable_expression(text: str, position: int) -> ToolFailed:
    if position >= len(text):
        return ToolFailed("The expression ends too early", hint=_SYNTAX)
    rest = shorten_text(text[position:], 20)
    return ToolFailed(f"Syntax error at position {position + 1}, near {rest!r}", hint=_SYNTAX)


def _unknown_name(kind: str, name: str, known: Iterable[str]) -> ToolFailed:
    # The last part of a dotted name counts, since people write math.sqrt.
    hint = did_you_mean(name.rpartition(".")[2], known) or f"The {kind}s are {', '.join(known)}."
    return ToolFailed(f"There is no {kind} {shorten_text(name, 40)!r}", hint=hint)


# --- Numbers ------------------------------------------------------------------------------------------------


def _bounded_number(value: Fraction) -> Number:
    """The exact value, or a decimal where writing it down takes too many digits."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) <= _MAX_BITS:
        return value
    if value.denominator == 1:
        raise _too_many_digits("The number")
    return _as_decimal(value)


def _too_many_digits(what: str) -> ToolFailed:
    return ToolFailed(
        f"{what} has more than {_MAX_DIGITS:,} digits",
        hint="Use smaller numbers, or logarithms: log10(a ** b) is b * log10(a).",
    )


def _as_decimal(value: Number) -> Decimal:
    if isinstance(value, float):
        return Decimal(f"{value:.{_FLOAT_DIGITS}g}")
    return value if isinstance(value, Decimal) else Decimal(value.numerator) / Decimal(value.denominator)


def _tidy_number(value: Number) -> Number:
    """The integer that a decimal differs from by no more than its rounding errors, or the number itself."""
    if not isinstance(value, Decimal) or value.adjusted() >= _TRUSTED_DIGITS:
        return value
    nearest = value.to_integral_value()
    is_near = abs(value - nearest) <= abs(value).scaleb(-_TRUSTED_DIGITS)
    return Fraction(int(nearest)) if is_near else value


def _rounded_number(value: Number, digits: int) -> Number:
    """Rounded to digits after the point, halves away from zero; a decimal that has none there stays."""
    if not isinstance(value, Fraction):
        value = Context(prec=_TRUSTED_DIGITS).plus(_as_decimal(value))
        if value.adjusted() + digits >= _TRUSTED_DIGITS:
            return value
        if value.adjusted() < -digits - 1:
            return Fraction(0)
    exact = Fraction(value)
    scale = Fraction(10) ** digits
    whole = math.floor(abs(exact) * scale + Fraction(1, 2))
    return _bounded_number(Fraction(whole if exact >= 0 else -whole) / scale)


def _number_text(value: Number, precision: int | None = None) -> str:
    """The number as people write it, rounded to `precision` digits after the point where that is given."""
    if precision is not None:
        value = _rounded_number(value, precision)
    if isinstance(value, Fraction) and value.denominator == 1:
        return str(value.numerator)
    is_rounded = precision is not None and isinstance(value, Fraction)
    top, bottom = (
        (value.numerator, value.denominator) if isinstance(value, Fraction) else (_as_decimal(value), 1)
    )
    digits = 2 * _MAX_DIGITS if is_rounded else _SHOWN_EXACT_DIGITS
    try:
        shown = Context(prec=digits, traps=[Inexact]).divide(Decimal(top), Decimal(bottom))
    except Inexact:
        digits = _SHOWN_DIGITS
        shown = Context(prec=digits, traps=[]).divide(Decimal(top), Decimal(bottom))
    if not shown:
        return "0"
    shown = shown.normalize(Context(prec=digits))
    if not is_rounded and not _SMALLEST_SHOWN_EXPONENT <= shown.adjusted() < digits - 1:
        return f"{shown:e}"
    return f"{shown:f}"


# --- Operators ----------------------------------------------------------------------------------------------


def _apply_operator(operation: Callable[..., Number], left: Number, right: Number) -> Number:
    """As exactly as the less exact of the two numbers allows."""
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return _bounded_number(Fraction(operation(left, right)))
    if isinstance(left, float) or isinstance(right, float):
        result = operation(float(left), float(right))
        if math.isinf(result):
            raise OverflowError
        return result
    return _tidy_number(operation(_as_decimal(left), _as_decimal(right)))


def _add_numbers(left: Number, right: Number) -> Number:
    total = _apply_operator(operator.add, left, right)
    if isinstance(total, Fraction):
        return total
    # What is left when two rounded numbers cancel each other, as in sqrt(2)**2 - 2, is their rounding errors.
    digits = _FLOAT_DIGITS if isinstance(total, float) else _TRUSTED_DIGITS
    noise = max(abs(_as_decimal(left)), abs(_as_decimal(right))).scaleb(-digits)
    return total if abs(_as_decimal(total)) > noise else Fraction(0)


_multiply_numbers = partial(_apply_operator, operator.mul)
_divide_numbers = partial(_apply_operator, operator.truediv)


def _remainder(left: Number, right: Number) -> Number:
    """With the sign of the right side, as in Python."""
    return _add_numbers(left, -_multiply_numbers(right, _floor(_divide_numbers(left, right))))


def _power(base: Number, exponent: Number) -> Number:
    exponent = _tidy_number(exponent)
    if isinstance(base, Fraction) and isinstance(exponent, Fraction):
        if exponent.denominator == 1:
            least_bits = max(base.numerator.bit_length(), base.denominator.bit_length()) - 1
            if least_bits * abs(exponent) <= _MAX_BITS:
                return _bounded_number(Fraction(base**exponent.numerator))
            if base.denominator == 1 and exponent > 0:
                raise _too_many_digits(f"{shorten_text(str(base), 30)} ** {shorten_text(str(exponent), 30)}")
        if exponent == Fraction(1, 2):
            return _square_root(base)
    if isinstance(base, float) or isinstance(exponent, float):
        return math.pow(base, exponent)
    return _tidy_number(_as_decimal(base) ** _as_decimal(exponent))


_OPERATORS: dict[type[ast.operator], tuple[str, Callable[[Number, Number], Number]]] = {
    ast.Add: ("+", _add_numbers),
    ast.Sub: ("-", lambda left, right: _add_numbers(left, -right)),
    ast.Mult: ("*", _multiply_numbers),
    ast.Div: ("/", _divide_numbers),
    ast.FloorDiv: ("//", lambda left, right: _floor(_divide_numbers(left, right))),
    ast.Mod: ("%", _remainder),
    ast.Pow: ("**", _power),
}


# --- Functions ----------------------------------------------------------------------------------------------


def _square_root(x: Number) -> Number:
    if isinstance(x, Fraction) and x >= 0:
        exact = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
        if exact * exact == x:
            return exact
    return math.sqrt(x) if isinstance(x, float) else _tidy_number(_as_decimal(x).sqrt())


def _floor(x: Number) -> Number:
    number = _tidy_number(_as_decimal(x)) if isinstance(x, float) else _tidy_number(x)
    if isinstance(number, Decimal) and number.adjusted() >= _TRUSTED_DIGITS:
        raise ToolFailed(
            f"{_number_text(x)} is not known to the last digit before the point",
            hint=f"Rounding to integers works up to {_TRUSTED_DIGITS} digits.",
        )
    return Fraction(math.floor(number))


def _round(x: Number, digits: Number = Fraction(0)) -> Number:
    count = _as_integer(digits)
    if abs(count) > _MAX_ROUNDING_DIGITS:
        raise ToolFailed(
            f"round cannot round to {count} digits", hint=f"It takes {_MAX_ROUNDING_DIGITS} at most."
        )
    return _rounded_number(x, count)


def _log(x: Number, base: Number | None = None) -> Number:
    if x <= 0:
        raise ValueError
    logarithm = math.log(x) if isinstance(x, float) else _tidy_number(_as_decimal(x).ln())
    return logarithm if base is None else _divide_numbers(logarithm, _log(base))


def _sine_or_cosine(function: Callable[[float], float], x: Number) -> Number:
    """sin or cos, after taking off the whole turns, which a float has no digits for."""
    if abs(_as_decimal(x)) > _MAX_ANGLE:
        raise ValueError
    rest = float(_as_decimal(x) % _CONSTANTS["tau"])
    value = function(rest)
    return value if abs(value) > abs(rest) * 10**-_FLOAT_DIGITS else Fraction(0)


def _as_integer(x: Number) -> int:
    exact = _tidy_number(_as_decimal(x)) if isinstance(x, float) else _tidy_number(x)
    if not isinstance(exact, Fraction) or exact.denominator != 1:
        raise ValueError
    return exact.numerator


def _count_combinations(name: str, n: Number, k: Number) -> Number:
    """In how many ways k of n things can be taken; their order counts except for comb."""
    count, take = _as_integer(n), _as_integer(k)
    if count < 0 or take < 0:
        raise ValueError
    if take > count:
        return Fraction(0)
    take = min(take, count - take) if name == "comb" else take
    number = 1
    for step in range(take):
        number = number * (count - step) // (step + 1 if name == "comb" else 1)
        if number.bit_length() > _MAX_BITS:
            raise _too_many_digits(f"{name}({shorten_text(str(count), 30)}, …)")
    return Fraction(number)


def _lcm(a: Number, *more: Number) -> Number:
    multiple = 1
    for number in (a, *more):
        multiple = math.lcm(multiple, _as_integer(number))
        _bounded_number(Fraction(multiple))
    return Fraction(multiple)


_CONSTANTS: dict[str, Decimal] = {
    "pi": Decimal(
        "3.14159265358979323846264338327950288419716939937510582097494"
        "4592307816406286208998628034825342117067982148086513282306647"
    ),
    "e": _CONTEXT.exp(Decimal(1)),
}
_CONSTANTS["tau"] = _CONTEXT.multiply(_CONSTANTS["pi"], Decimal(2))

_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "sqrt": _square_root,
    "cbrt": lambda x: -_power(-x, Fraction(1, 3)) if x < 0 else _power(x, Fraction(1, 3)),
    "abs": lambda x: -x if x < 0 else x,
    "round": _round,
    "floor": _floor,
    "ceil": lambda x: -_floor(-x),
    "trunc": lambda x: _floor(x) if x >= 0 else -_floor(-x),
    "min": lambda a, *more: min(a, *more) if more else a,
    "max": lambda a, *more: max(a, *more) if more else a,
    "sum": lambda a, *more: reduce(_add_numbers, more, a),
    "exp": lambda x: math.exp(x) if isinstance(x, float) else _tidy_number(_as_decimal(x).exp()),
    "log": _log,
    "ln": lambda x: _log(x, None),
    "log2": lambda x: _log(x, Fraction(2)),
    "log10": lambda x: _log(x, Fraction(10)),
    "sin": lambda x: _sine_or_cosine(math.sin, x),
    "cos": lambda x: _sine_or_cosine(math.cos, x),
    "tan": lambda x: _divide_numbers(_sine_or_cosine(math.sin, x), _sine_or_cosine(math.cos, x)),
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "atan2": math.atan2,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
    "degrees": lambda x: _divide_numbers(_multiply_numbers(x, Fraction(180)), _CONSTANTS["pi"]),
    "radians": lambda x: _multiply_numbers(_divide_numbers(x, Fraction(180)), _CONSTANTS["pi"]),
    "factorial": lambda n: _count_combinations("factorial", n, n),
    "gcd": lambda a, *more: Fraction(math.gcd(_as_integer(a), *map(_as_integer, more))),
    "lcm": _lcm,
    "comb": lambda n, k: _count_combinations("comb", n, k),
    "perm": lambda n, k=None: _count_combinations("perm", n, n if k is None else k),
    "hypot": lambda a, *more: _square_root(
        reduce(_add_numbers, (_multiply_numbers(x, x) for x in (a, *more)))
    ),
    "pow": _power,
    "mod": _remainder,
}

_TAKES = {
    "sqrt": "numbers from 0 upwards",
    "asin": "numbers from -1 to 1",
    "acos": "numbers from -1 to 1",
    "tan": "angles that are not an odd multiple of pi / 2",
    **dict.fromkeys(("sin", "cos"), "angles up to 1e100"),
    **dict.fromkeys(("log", "ln", "log2", "log10"), "numbers greater than 0, and a base that is not 1"),
    **dict.fromkeys(("factorial", "comb", "perm"), "whole numbers from 0 upwards"),
}


__getattr__ = with_tool_specs(__name__)
