"""The functions and constants of the calculator."""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import msgspec

from strands_cli.documents.problems import shorten
from strands_cli.errors import ToolFailed
from strands_cli.tools.data_tools._numbers import (
    MOST_BITS,
    TRUSTED_DIGITS,
    WORKING_DIGITS,
    Number,
    add,
    bounded,
    decimal_of,
    divide,
    floor,
    magnitude,
    multiply,
    number_text,
    power,
    remainder,
    rounded,
    square_root,
    subtract,
    tidy,
    too_large,
)

_SPARE_DIGITS = 20
_LARGEST_ANGLE = 10**_SPARE_DIGITS
"""Taking whole turns off an angle costs as many digits as it has before the point."""
_LARGEST_TANH = 300
_MOST_ROUNDING_DIGITS = 1000


class Function(msgspec.Struct, frozen=True):
    body: Callable[..., Number]
    usage: str = "x"
    least: int = 1
    most: int = 1

    def takes(self, count: int) -> bool:
        return self.least <= count <= self.most

    @property
    def arity(self) -> str:
        if self.most == _ANY_NUMBER:
            return "one number or more"
        count = str(self.least) if self.least == self.most else f"{self.least} or {self.most}"
        return f"{count} number{'' if count == '1' else 's'}"


_ANY_NUMBER = 10_000


def _outside(name: str, value: Number, takes: str) -> ToolFailed:
    call = f"{name}({shorten(number_text(value), 30)})"
    return ToolFailed(f"{call} has no value", hint=f"{name} takes {takes}.")


# --- Constants and series ---------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def pi() -> Decimal:
    """With spare digits, for taking whole turns off an angle."""
    with localcontext(prec=WORKING_DIGITS + 2 * _SPARE_DIGITS):
        return 16 * _arctangent_series(Decimal(1) / 5) - 4 * _arctangent_series(Decimal(1) / 239)


def tau() -> Decimal:
    return 2 * pi()


def euler() -> Decimal:
    return Decimal(1).exp()


def _power_series(first: Decimal, square: Decimal, start: int) -> Decimal:
    """The series of sin, cos, sinh and cosh: each term is the last one by square / ((n + 1) * (n + 2))."""
    total = term = first
    while True:
        term = term * square / ((start + 1) * (start + 2))
        if total + term == total:
            return total
        total += term
        start += 2


def _arctangent_series(value: Decimal) -> Decimal:
    total = odd_power = value
    count = 1
    while True:
        odd_power *= -value * value
        count += 2
        if total + odd_power / count == total:
            return total
        total += odd_power / count


# --- Angles -----------------------------------------------------------------------------------------------


def _quarter_turns(name: str, angle: Number) -> tuple[int, Decimal]:
    """The quarter turns (0 to 3) in an angle, and what remains of it, an eighth of a turn at most."""
    if magnitude(angle) > _LARGEST_ANGLE:
        raise _outside(name, angle, "angles up to 1e20 radians")
    value, quarter = decimal_of(angle), pi() / 2
    turns = (value / quarter).to_integral_value()
    rest = value - turns * quarter
    if abs(rest) <= abs(value).scaleb(-TRUSTED_DIGITS):
        rest = Decimal(0)
    return int(turns) % 4, rest


def _sine_and_cosine(name: str, angle: Number) -> tuple[Number, Number]:
    with localcontext() as context:
        context.prec += _SPARE_DIGITS
        turns, rest = _quarter_turns(name, angle)
        sine = _power_series(rest, -rest * rest, 1)
        cosine = _power_series(Decimal(1), -rest * rest, 0)
    sine, cosine = [(sine, cosine), (cosine, -sine), (-sine, -cosine), (-cosine, sine)][turns]
    return tidy(+sine), tidy(+cosine)


def sin(angle: Number) -> Number:
    return _sine_and_cosine("sin", angle)[0]


def cos(angle: Number) -> Number:
    return _sine_and_cosine("cos", angle)[1]


def tan(angle: Number) -> Number:
    sine, cosine = _sine_and_cosine("tan", angle)
    if not cosine:
        raise _outside("tan", angle, "angles that are not an odd multiple of pi / 2")
    return divide(sine, cosine)


def atan(value: Number) -> Number:
    with localcontext() as context:
        context.prec += _SPARE_DIGITS
        size = abs(decimal_of(value))
        inverted = size > 1
        size = 1 / size if inverted else size
        halvings = 6
        for _ in range(halvings):
            size = size / (1 + (1 + size * size).sqrt())
        angle = _arctangent_series(size) * 2**halvings
        angle = pi() / 2 - angle if inverted else angle
    return tidy(angle.copy_sign(decimal_of(value)) + 0)


def asin(value: Number) -> Number:
    if magnitude(value) > 1:
        raise _outside("asin", value, "numbers from -1 to 1")
    rest = square_root(subtract(Fraction(1), multiply(value, value)))
    return atan2(value, rest)


def acos(value: Number) -> Number:
    if magnitude(value) > 1:
        raise _outside("acos", value, "numbers from -1 to 1")
    rest = square_root(subtract(Fraction(1), multiply(value, value)))
    return atan2(rest, value)


def atan2(y: Number, x: Number) -> Number:
    if not x:
        return tidy((pi() / 2).copy_sign(decimal_of(y))) if y else Fraction(0)
    angle = atan(divide(y, x))
    if x > 0:
        return angle
    return add(angle, -pi() if y < 0 else +pi())


def degrees(angle: Number) -> Number:
    return divide(multiply(angle, Fraction(180)), +pi())


def radians(angle: Number) -> Number:
    return multiply(divide(angle, Fraction(180)), +pi())


# --- Exponentials and logarithms --------------------------------------------------------------------------


def exp(value: Number) -> Number:
    return tidy(decimal_of(value).exp())


def sinh(value: Number) -> Number:
    number = decimal_of(value)
    if abs(number) < 1:
        return tidy(_power_series(number, number * number, 1))
    return tidy((number.exp() - (-number).exp()) / 2)


def cosh(value: Number) -> Number:
    number = decimal_of(value)
    return tidy((number.exp() + (-number).exp()) / 2)


def tanh(value: Number) -> Number:
    if magnitude(value) > _LARGEST_TANH:
        return Fraction(1 if value > 0 else -1)
    return divide(sinh(value), cosh(value))


def log(value: Number, base: Number | None = None) -> Number:
    if value <= 0:
        raise _outside("log", value, "numbers greater than 0")
    if base is None:
        return tidy(decimal_of(value).ln())
    if base <= 0 or base == 1:
        raise ToolFailed(
            f"There is no logarithm to the base {shorten(number_text(base), 30)}",
            hint="A base is greater than 0 and not 1.",
        )
    return divide(decimal_of(value).ln(), decimal_of(base).ln())


def log10(value: Number) -> Number:
    if value <= 0:
        raise _outside("log10", value, "numbers greater than 0")
    return tidy(decimal_of(value).log10())


def log2(value: Number) -> Number:
    return log(value, Fraction(2))


# --- Roots and rounding -----------------------------------------------------------------------------------


def cbrt(value: Number) -> Number:
    root = power(magnitude(value), Fraction(1, 3))
    return root if value >= 0 else -root


def hypot(*values: Number) -> Number:
    return square_root(total(*(multiply(value, value) for value in values)))


def ceil(value: Number) -> Number:
    return -floor(-value)


def trunc(value: Number) -> Number:
    return floor(value) if value >= 0 else ceil(value)


def round_to(value: Number, digits: Number = Fraction(0)) -> Number:
    count = _whole("round", digits)
    if abs(count) > _MOST_ROUNDING_DIGITS:
        raise ToolFailed(
            f"round cannot round to {number_text(digits)} digits",
            hint=f"It takes {_MOST_ROUNDING_DIGITS} at most.",
        )
    return rounded(value, count)


# --- Integers ---------------------------------------------------------------------------------------------


def _whole(name: str, value: Number) -> int:
    exact = tidy(value) if isinstance(value, Decimal) else value
    if isinstance(exact, Decimal) or exact.denominator != 1:
        raise _outside(name, value, "whole numbers")
    return exact.numerator


def _counts(name: str, *values: Number) -> list[int]:
    counts = [_whole(name, value) for value in values]
    if any(count < 0 for count in counts):
        raise _outside(name, min(values), "whole numbers from 0 upwards")
    return counts


def factorial(value: Number) -> Number:
    return perm(value)


def perm(value: Number, chosen: Number | None = None) -> Number:
    name = "factorial" if chosen is None else "perm"
    count, take = _counts(name, value, value if chosen is None else chosen)
    if take > count:
        return Fraction(0)
    product = 1
    for factor in range(count - take + 1, count + 1):
        product *= factor
        if product.bit_length() > MOST_BITS:
            raise too_large(f"{name}({shorten(str(count), 30)}{'' if chosen is None else ', …'})")
    return Fraction(product)


def comb(value: Number, chosen: Number) -> Number:
    count, take = _counts("comb", value, chosen)
    if take > count:
        return Fraction(0)
    take = min(take, count - take)
    if take > MOST_BITS or (take and _most_bits_of_comb(count, take) > MOST_BITS):
        raise too_large(f"comb({shorten(str(count), 30)}, {shorten(str(take), 30)})")
    return bounded(Fraction(math.comb(count, take)))


def _most_bits_of_comb(count: int, take: int) -> float:
    """A bound: comb(n, k) is at most n**k / k!."""
    return take * math.log2(count) - math.lgamma(take + 1) / math.log(2)


def gcd(*values: Number) -> Number:
    return Fraction(math.gcd(*(_whole("gcd", value) for value in values)))


def lcm(*values: Number) -> Number:
    multiple: Number = Fraction(1)
    for value in values:
        multiple = bounded(Fraction(math.lcm(_whole("lcm", multiple), _whole("lcm", value))))
    return multiple


# --- Many numbers -----------------------------------------------------------------------------------------


def total(*values: Number) -> Number:
    so_far: Number = Fraction(0)
    for value in values:
        so_far = add(so_far, value)
    return so_far


def smallest(*values: Number) -> Number:
    return min(values)


def largest(*values: Number) -> Number:
    return max(values)


CONSTANTS: dict[str, Callable[[], Number]] = {"pi": lambda: +pi(), "e": euler, "tau": tau}

FUNCTIONS: dict[str, Function] = {
    "sqrt": Function(square_root),
    "cbrt": Function(cbrt),
    "abs": Function(magnitude),
    "round": Function(round_to, "x, digits", 1, 2),
    "floor": Function(floor),
    "ceil": Function(ceil),
    "trunc": Function(trunc),
    "min": Function(smallest, "a, b, …", 1, _ANY_NUMBER),
    "max": Function(largest, "a, b, …", 1, _ANY_NUMBER),
    "sum": Function(total, "a, b, …", 1, _ANY_NUMBER),
    "exp": Function(exp),
    "log": Function(log, "x, base", 1, 2),
    "ln": Function(log),
    "log2": Function(log2),
    "log10": Function(log10),
    "sin": Function(sin),
    "cos": Function(cos),
    "tan": Function(tan),
    "asin": Function(asin),
    "acos": Function(acos),
    "atan": Function(atan),
    "atan2": Function(atan2, "y, x", 2, 2),
    "sinh": Function(sinh),
    "cosh": Function(cosh),
    "tanh": Function(tanh),
    "degrees": Function(degrees),
    "radians": Function(radians),
    "factorial": Function(factorial, "n"),
    "gcd": Function(gcd, "a, b, …", 1, _ANY_NUMBER),
    "lcm": Function(lcm, "a, b, …", 1, _ANY_NUMBER),
    "comb": Function(comb, "n, k", 2, 2),
    "perm": Function(perm, "n, k", 1, 2),
    "hypot": Function(hypot, "a, b, …", 1, _ANY_NUMBER),
    "pow": Function(power, "x, y", 2, 2),
    "mod": Function(remainder, "a, b", 2, 2),
}
