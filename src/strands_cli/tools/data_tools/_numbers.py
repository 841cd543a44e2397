"""Numbers of the calculator: exact fractions where that is possible, else decimals with digits to spare."""

import math
from decimal import Context, Decimal, DecimalException, DivisionByZero, Inexact, InvalidOperation, Overflow
from fractions import Fraction

from strands_cli.documents.problems import shorten
from strands_cli.errors import ToolFailed

Number = Fraction | Decimal

WORKING_DIGITS = 120
TRUSTED_DIGITS = 100
"""Of a decimal's digits, those that rounding errors have not reached."""
MOST_DIGITS = 4000
"""Of an exact number. Python itself refuses to print an integer with more than 4300."""
MOST_BITS = int(MOST_DIGITS * math.log2(10))

_SHOWN_DIGITS = 16
_SHOWN_EXACT_DIGITS = 28
_SMALLEST_SHOWN_EXPONENT = -7

_TRAPS: list[type[DecimalException]] = [DivisionByZero, InvalidOperation, Overflow]
CONTEXT = Context(prec=WORKING_DIGITS, Emax=99_999, Emin=-99_999, traps=_TRAPS)


def bounded(value: Fraction) -> Number:
    """The exact value, or a decimal where writing it down takes too many digits."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) <= MOST_BITS:
        return value
    if value.denominator == 1:
        raise too_large("The number")
    return decimal_of(value)


def too_large(what: str) -> ToolFailed:
    return ToolFailed(
        f"{what} has more than {MOST_DIGITS:,} digits",
        hint="Use smaller numbers, or logarithms: log10(a ** b) is b * log10(a).",
    )


def decimal_of(value: Number) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(value.numerator) / Decimal(value.denominator)


def tidy(value: Decimal) -> Number:
    """The integer that a decimal differs from by no more than its rounding errors, or the decimal."""
    if not value:
        return Fraction(0)
    if value.adjusted() >= TRUSTED_DIGITS:
        return value
    nearest = value.to_integral_value()
    if nearest and abs(value - nearest) <= abs(value).scaleb(-TRUSTED_DIGITS):
        return Fraction(int(nearest))
    return value


def rounded(value: Number, digits: int) -> Number:
    """Rounded to digits after the point, halves away from zero; a decimal that has none there stays."""
    if isinstance(value, Decimal):
        if value.adjusted() < -digits - 1:
            return Fraction(0)
        if value.adjusted() + digits >= TRUSTED_DIGITS:
            return value
        value = Context(prec=TRUSTED_DIGITS).plus(value)
    exact = Fraction(value)
    scale = Fraction(10) ** digits
    whole = math.floor(abs(exact) * scale + Fraction(1, 2))
    return bounded(Fraction(whole if exact >= 0 else -whole) / scale)


def magnitude(value: Number) -> Number:
    return -value if value < 0 else value


def add(left: Number, right: Number) -> Number:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return bounded(left + right)
    left, right = decimal_of(left), decimal_of(right)
    total = left + right
    # What is left when two rounded numbers cancel each other, as in sqrt(2)**2 - 2, is their rounding errors.
    noise = max(abs(left), abs(right)).scaleb(-TRUSTED_DIGITS)
    return total if abs(total) > noise else Fraction(0)


def subtract(left: Number, right: Number) -> Number:
    return add(left, -right)


def multiply(left: Number, right: Number) -> Number:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return bounded(left * right)
    return tidy(decimal_of(left) * decimal_of(right))


def divide(left: Number, right: Number) -> Number:
    _refuse_zero(left, "/", right)
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return bounded(left / right)
    return tidy(decimal_of(left) / decimal_of(right))


def floor_divide(left: Number, right: Number) -> Number:
    _refuse_zero(left, "//", right)
    return floor(divide(left, right))


def remainder(left: Number, right: Number) -> Number:
    """With the sign of the right side, as in Python."""
    _refuse_zero(left, "%", right)
    return subtract(left, multiply(right, floor(divide(left, right))))


def floor(value: Number) -> Number:
    value = tidy(value) if isinstance(value, Decimal) else value
    if isinstance(value, Decimal) and value.adjusted() >= TRUSTED_DIGITS:
        raise ToolFailed(
            f"{number_text(value)} is not known to the last digit before the point",
            hint=f"Rounding to integers works up to {TRUSTED_DIGITS} digits.",
        )
    return Fraction(math.floor(value))


def power(base: Number, exponent: Number) -> Number:
    exponent = tidy(exponent) if isinstance(exponent, Decimal) else exponent
    if not base and exponent < 0:
        raise ToolFailed("0 has no negative power", hint="That would be a division by zero.")
    if isinstance(exponent, Fraction) and exponent.denominator == 1:
        return _whole_power(base, exponent.numerator)
    if base < 0:
        raise ToolFailed(
            f"{_short(base)} ** {_short(exponent)} is not a real number",
            hint="A negative number has whole powers only; cbrt gives the cube root.",
        )
    if exponent == Fraction(1, 2):
        return square_root(base)
    return tidy(decimal_of(base) ** decimal_of(exponent))


def _whole_power(base: Number, exponent: int) -> Number:
    if not base:
        return Fraction(0 if exponent else 1)
    if abs(base) == 1:
        return base if exponent % 2 else Fraction(1)
    if isinstance(base, Fraction):
        least_bits = (max(abs(base.numerator), base.denominator).bit_length() - 1) * abs(exponent)
        if least_bits <= MOST_BITS:
            return bounded(base**exponent)
        if base.denominator == 1 and exponent > 0:
            raise too_large(f"{_short(base)} ** {_short(Fraction(exponent))}")
    return tidy(decimal_of(base) ** Decimal(exponent))


def square_root(value: Number) -> Number:
    if value < 0:
        raise ToolFailed(
            f"The square root of {_short(value)} is not a real number",
            hint="sqrt takes numbers from 0 upwards.",
        )
    if isinstance(value, Fraction):
        exact = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
        if exact * exact == value:
            return exact
    return tidy(decimal_of(value).sqrt())


def _refuse_zero(left: Number, operator: str, right: Number) -> None:
    if not right:
        raise ToolFailed(
            f"Division by zero: {_short(left)} {operator} 0", hint="Give a divisor that is not zero."
        )


def _short(value: Number) -> str:
    return shorten(number_text(value), 30)


def number_text(value: Number, precision: int | None = None) -> str:
    """The number as people write it, rounded to `precision` digits after the point where that is given."""
    if precision is not None:
        value = rounded(value, precision)
    if isinstance(value, Fraction) and value.denominator == 1:
        return str(value.numerator)
    is_rounded = precision is not None and isinstance(value, Fraction)
    digits = 2 * MOST_DIGITS if is_rounded else _SHOWN_EXACT_DIGITS
    try:
        shown = _in_digits(value, digits, traps=[Inexact])
    except Inexact:
        digits = _SHOWN_DIGITS
        shown = _in_digits(value, digits, traps=[])
    if not shown:
        return "0"
    shown = shown.normalize(Context(prec=digits))
    if not is_rounded and not _SMALLEST_SHOWN_EXPONENT <= shown.adjusted() < digits - 1:
        return f"{shown:e}"
    return f"{shown:f}"


def _in_digits(value: Number, digits: int, traps: list[type[DecimalException]]) -> Decimal:
    context = Context(prec=digits, traps=traps)
    if isinstance(value, Decimal):
        return context.plus(value)
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))
