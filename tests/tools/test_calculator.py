import math
import time
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strands_cli.tools.data_tools.calculator import TOOL_SPEC, calculator
from tests.exploring import examples


def answer(expression: str, precision: int | None = None) -> dict[str, Any]:
    given_input = {"expression": expression} | ({} if precision is None else {"precision": precision})
    result: dict[str, Any] = calculator({"toolUseId": "x", "input": given_input})
    return result


def value(expression: str, precision: int | None = None) -> str:
    result = answer(expression, precision)
    assert result["status"] == "success", result
    text: str = result["content"][0]["text"]
    return text


def refusal(expression: str) -> dict[str, Any]:
    result = answer(expression)
    assert result["status"] == "error", result
    error: dict[str, Any] = result["content"][1]["json"]["error"]
    return error


EXACT = {
    "2 + 3 * 4": "14",
    "(2 + 3) * 4": "20",
    "0.1 + 0.2": "0.3",
    "5 / 2": "2.5",
    "4.35 * 100": "435",
    "1/3 * 3": "1",
    "2**3**2": "512",
    "-2**2": "-4",
    "2**-1": "0.5",
    "--5": "5",
    "+5 - -5": "10",
    "7 // 2": "3",
    "-7 // 2": "-4",
    "-7 % 3": "2",
    "5.5 % 2": "1.5",
    "1_000 * 2": "2000",
    "0x1F + 0b11 + 0o7": "41",
    "1.5e3": "1500",
    ".5 + 5.": "5.5",
    "1e-10": "1e-10",
    "1e20": "1" + "0" * 20,
    "2**200": str(2**200),
    "12345678901234567890.5": "12345678901234567890.5",
    "-0.0": "0",
    "3×4−2÷1·1": "10",
    "π - pi": "0",
    "0**0": "1",
    "(-1)**(10**30 + 1)": "-1",
    "factorial(20)": str(math.factorial(20)),
    "comb(52, 5)": "2598960",
    "comb(3, 5)": "0",
    "comb(10**18, 2)": str(math.comb(10**18, 2)),
    "perm(5, 2)": "20",
    "perm(5)": "120",
    "perm(2, 5)": "0",
    "gcd(12, 18, 27)": "3",
    "lcm(4, 6)": "12",
    "sum([1, 2, 3], 4)": "10",
    "min(3, 1, 2) + max(3, 1, pi)": "4.141592653589793",
    "abs(-3.5)": "3.5",
    "floor(-2.5)": "-3",
    "ceil(2.1)": "3",
    "trunc(-2.7)": "-2",
    "round(2.5)": "3",
    "round(-2.5)": "-3",
    "round(1.005, 2)": "1.01",
    "round(1234.5, -2)": "1200",
    "round(sin(pi / 6))": "1",
    "pow(2, 10)": "1024",
    "mod(-7, 3)": "2",
    "sqrt(16/9) * 3": "4",
    "sqrt(2)**2 - 2": "0",
    "cbrt(-27)": "-3",
    "8**(1/3)": "2",
    "hypot(3, 4)": "5",
    "log10(1000)": "3",
    "log2(8)": "3",
    "log(81, 3)": "4",
    "ln(e**2)": "2",
    "floor(log10(1000))": "3",
    "exp(0)": "1",
    "sin(pi)": "0",
    "sin(2 * pi)": "0",
    "sin(1e-20)": "1e-20",
    "sin(10**30)": "-0.0901169019121381",
    "cos(pi / 2)": "0",
    "sin(pi / 6)": "0.5",
    "tan(pi / 4)": "1",
    "degrees(pi)": "180",
    "degrees(acos(0.5))": "60",
    "radians(180) - pi": "0",
    "atan2(0, -1) - pi": "0",
    "tanh(10**6)": "1",
    "factorial(sqrt(9))": "6",
}


@pytest.mark.parametrize(("expression", "expected"), EXACT.items())
def test_a_result_is_written_without_noise(expression: str, expected: str) -> None:
    assert value(expression) == expected


INEXACT = {
    "1/3": "0.3333333333333333",
    "2/3": "0.6666666666666667",
    "sqrt(2)": "1.414213562373095",
    "pi": "3.141592653589793",
    "10**30/7": "1.428571428571429e+29",
    "1e16/3": "3.333333333333333e+15",
    "exp(1000)": "1.970071114017047e+434",
    "2**-20000": "2.512388057698745e-6021",
    "1.0001**1000000": "2.67471099314214e+43",
}


@pytest.mark.parametrize(("expression", "expected"), INEXACT.items())
def test_what_has_no_end_is_rounded_to_16_digits(expression: str, expected: str) -> None:
    assert value(expression) == expected


PRECISE = [
    ("pi", 50, "3.14159265358979323846264338327950288419716939937511"),
    ("e", 50, "2.71828182845904523536028747135266249775724709369996"),
    ("sqrt(2)", 30, "1.41421356237309504880168872421"),
    ("exp(100)", 2, "26881171418161354484126255515800135873611118.77"),
    ("atan(1) * 4", 14, "3.14159265358979"),
    ("atan(1) * 4", 45, "3.14159265358979"),  # floats are right to 15 digits, and no more are shown
    ("sin(1) * 10**20", 0, "84147098480789700000"),
    ("1/7", 10, "0.1428571429"),
    ("2.5", 3, "2.5"),
    ("2.5", 0, "3"),
    ("1.005", 2, "1.01"),
    ("-1.005", 2, "-1.01"),
    ("1e-20", 5, "0"),
    ("exp(-300)", 5, "0"),
    ("exp(1000)", 2, "1.970071114017047e+434"),
    ("10**20 + 0.125", 2, "100000000000000000000.13"),
]


@pytest.mark.parametrize(("expression", "precision", "expected"), PRECISE)
def test_precision_is_a_number_of_true_digits_after_the_point(
    expression: str, precision: int, expected: str
) -> None:
    assert value(expression, precision) == expected


REFUSED = {
    "1/0": ("Division by zero: 1 / 0", "not zero"),
    "5 % (2 - 2)": ("Division by zero: 5 % 0", "not zero"),
    "5 // 0": ("Division by zero: 5 // 0", "not zero"),
    "0**-1": ("Division by zero: 0 ** -1", "not zero"),
    "sqrt(-1)": ("sqrt(-1) has no value", "from 0 upwards"),
    "(-8)**(1/3)": ("is not a real number", "cbrt"),
    "log(0)": ("log(0) has no value", "greater than 0"),
    "log10(-1)": ("log10(-1) has no value", "greater than 0"),
    "log(5, 1)": ("log(5, 1) has no value", "not 1"),
    "asin(2)": ("asin(2) has no value", "from -1 to 1"),
    "acos(-1.5)": ("acos(-1.5) has no value", "from -1 to 1"),
    "tan(pi/2)": ("has no value", "odd multiple"),
    "sin(10**101)": ("has no value", "angles up to"),
    "floor(exp(1000))": ("is not known to the last digit", "up to 100 digits"),
    "factorial(-1)": ("factorial(-1) has no value", "from 0 upwards"),
    "factorial(2.5)": ("factorial(2.5) has no value", "whole numbers"),
    "gcd(1.5, 2)": ("gcd(1.5, 2) has no value", "whole numbers"),
    "lcm(1.5)": ("lcm(1.5) has no value", "whole numbers"),
    "round(1, 5000)": ("round cannot round to 5000 digits", "1000 at most"),
    "exp(10**9)": ("too large to be represented", "smaller numbers"),
    "2^3": ("position 2, near '^3'", "** for a power"),
    "5!": ("position 2, near '!'", "factorial(n)"),
    "50%": ("ends too early", "divide by 100"),
    "1,000": ("Syntax error", "without commas"),
    "1,234": ("position 1, near '1,234'", "without commas"),
    "2(3)": ("position 1, near '2(3)'", "Write *"),
    "2 pi": ("position 3, near 'pi'", "Write *"),
    "2pi": ("position 2, near 'pi'", "Write *"),
    "1or 2": ("position 2, near 'or 2'", "Write *"),
    "1 or 2": ("position 1, near '1 or 2'", "The operators are"),
    "True": ("position 1, near 'True'", "The operators are"),
    "1j": ("position 2, near 'j'", "The operators are"),
    "(1": ("A ')' is missing: the '(' at position 1 is never closed", "Add the missing ')'"),
    "2 * (1 + 2": ("A ')' is missing: the '(' at position 5 is never closed", "Add the missing ')'"),
    "sqrt((4": ("2 ')' are missing: the '(' at position 6 is never closed", "Add the missing ')'"),
    "max(1,": ("A ')' is missing: the '(' at position 4 is never closed", "Add the missing ')'"),
    "1)": ("The ')' at position 2 has no '(' before it", "Add the missing '('"),
    "(1 2)": ("position 2, near '1 2)'", "Write *"),
    "1 +": ("ends too early", "The operators are"),
    "   ": ("ends too early", "The operators are"),
    "3 = 3": ("position 3, near '= 3'", "The operators are"),
    "1 << 9": ("position 3, near '<< 9'", "The operators are"),
    '"a"': ("""position 1, near '"a"'""", "The operators are"),
    "().__class__": ("position 1, near '().__class__'", "The operators are"),
    "[1][0]": ("position 1, near '[1][0]'", "The operators are"),
    "abs(*[1])": ("position 5, near '*[1])'", "The operators are"),
    "sqrt 2": ("position 6, near '2'", "The operators are"),
    "sqrt": ("sqrt is a function without its arguments", "sqrt(x)"),
    "sqtr(2)": ("There is no function 'sqtr'", "Did you mean 'sqrt'?"),
    "math.sqrt(2)": ("There is no function 'math.sqrt'", "Did you mean 'sqrt'?"),
    "__import__(1)": ("There is no function '__import__'", "The functions are sqrt"),
    "__import__('os')": ("at position 12", "The operators are"),
    "pie * 2": ("There is no constant 'pie'", "Did you mean 'pi'?"),
    "inf": ("There is no constant 'inf'", "pi, e, tau"),
    "nan": ("There is no constant 'nan'", "pi, e, tau"),
    "pi(2)": ("pi is a constant", "Write *"),
    "atan2(1)": ("atan2 does not take 1 argument", "atan2(y, x)"),
    "round(1, 2, 3)": ("round does not take 3 argument", "round(x, digits)"),
    "sum()": ("sum does not take 0 argument", "sum(a, …)"),
}


@pytest.mark.parametrize(("expression", "told"), REFUSED.items())
def test_a_refusal_says_what_is_wrong_and_what_to_do(expression: str, told: tuple[str, str]) -> None:
    error = refusal(expression)
    assert error["code"] == "failed"
    assert told[0] in error["message"]
    assert told[1] in error["hint"]


TOO_MUCH = {
    "a tower of powers": "9**9**9",
    "a power": "10**4001",
    "a huge exponent": "2**(10**3000)",
    "a product": "10**3000 * 10**3000",
    "a factorial": "factorial(10**15)",
    "combinations": "comb(10**18, 10**9)",
    "permutations": "perm(10**100, 10**50)",
    "multiples": "lcm(" + ", ".join(f"{n}**1900" for n in (3, 5, 7, 11)) + ")",
    "an exponent in a number": "1e999999999",
    "a small number": "1e-999999999",
    "digits": "9" * 9999,
    "hexadecimal digits": "0x" + "f" * 9990,
    "parentheses": "(" * 5000 + "1" + ")" * 4999,
    "signs": "-" * 9999 + "1",
    "powers of powers": "**".join(["2"] * 3000),
    "calls": "abs(" * 2000 + "1" + ")" * 2000,
    "a million characters": "1+" * 500_000 + "1",
    "ten thousand parentheses": "(" * 10_000 + "1" + ")" * 10_000,
}


@pytest.mark.parametrize("expression", TOO_MUCH.values(), ids=list(TOO_MUCH))
def test_too_much_is_refused_quickly_in_one_sentence(expression: str) -> None:
    started = time.perf_counter()
    error = refusal(expression)
    assert time.perf_counter() - started < 0.5
    assert len(error["message"]) < 200
    assert "\n" not in error["message"]


def test_a_long_sum_is_not_a_deep_one() -> None:
    assert value(" + ".join(["1"] * 900)) == "900"


def test_every_function_that_the_description_names_is_there() -> None:
    description = str(TOOL_SPEC["description"])
    named = description.split("Functions: ")[1].partition(". Constants")[0]
    for name in named.replace("(x)", "").replace(" or log(x, base)", "").split(", "):
        assert "There is no function" not in str(answer(f"{name}(1, 1)")), name


def test_as_a_plain_function_it_returns_the_text() -> None:
    assert calculator("1 + 1") == "2"
    assert calculator("2 / 3", precision=2) == "0.67"


# --- Against Python's own arithmetic ----------------------------------------------------------------------

numbers = st.integers(-(10**6), 10**6).map(str)
trees = st.recursive(
    numbers,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda t: f"({' '.join(t)})")
        | inner.map(lambda text: f"-({text})")
    ),
    max_leaves=20,
)


@given(trees)
def test_integer_arithmetic_is_pythons(expression: str) -> None:
    assert value(expression) == str(eval(expression))


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9).filter(bool))
def test_division_is_exact_and_floors_like_pythons(left: int, right: int) -> None:
    assert value(f"({left}) // ({right})") == str(left // right)
    assert value(f"({left}) % ({right})") == str(left % right)
    assert value(f"({left}) / ({right}) * ({right})") == str(left)
    assert Fraction(value(f"({left}) / ({right})")) == pytest.approx(Fraction(left, right), rel=1e-15)


@given(st.decimals(-(10**7), 10**7, places=6), st.decimals(-(10**7), 10**7, places=6))
def test_decimals_are_added_and_multiplied_exactly(left: Decimal, right: Decimal) -> None:
    assert Decimal(value(f"({left}) + ({right})")) == left + right
    assert Decimal(value(f"({left}) - ({right})")) == left - right
    assert Decimal(value(f"({left:f}) * ({right:f})")) == left * right


@given(st.decimals(-(10**9), 10**9, places=8), st.integers(0, 8))
def test_precision_rounds_halves_away_from_zero(number: Decimal, digits: int) -> None:
    expected = number.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    assert Decimal(value(f"{number:f}", digits)) == expected


FLOAT_FUNCTIONS = {
    "sqrt": (0, 1e6),
    "cbrt": (-1e6, 1e6),
    "exp": (-50, 50),
    "log": (1e-6, 1e6),
    "log2": (1e-6, 1e6),
    "log10": (1e-6, 1e6),
    "sin": (-100, 100),
    "cos": (-100, 100),
    "tan": (-1.5, 1.5),
    "asin": (-1, 1),
    "acos": (-1, 1),
    "atan": (-1e6, 1e6),
    "sinh": (-50, 50),
    "cosh": (-50, 50),
    "tanh": (-50, 50),
    "degrees": (-1e6, 1e6),
    "radians": (-1e6, 1e6),
}


@settings(max_examples=examples(300))
@given(st.data(), st.sampled_from(sorted(FLOAT_FUNCTIONS)))
def test_functions_agree_with_the_math_library(data: st.DataObject, name: str) -> None:
    low, high = FLOAT_FUNCTIONS[name]
    argument = data.draw(st.floats(low, high))
    expected = getattr(math, name)(argument)
    assert float(value(f"{name}({Decimal(argument):f})")) == pytest.approx(expected, rel=1e-12, abs=1e-12)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_angles_of_points_agree_with_the_math_library(y: float, x: float) -> None:
    found = value(f"atan2({Decimal(y):f}, {Decimal(x):f})")
    # Python tells -0.0 from 0.0, which no decimal number does.
    assert float(found) == pytest.approx(math.atan2(y + 0.0, x + 0.0), rel=1e-12, abs=1e-12)


@given(st.text("0123456789.+-*/%()[], ^!eпpi×√sqrtlog", max_size=60) | st.text(max_size=60))
def test_whatever_is_asked_there_is_an_answer_or_a_refusal(expression: str) -> None:
    result = answer(expression)
    if result["status"] == "error":
        assert result["content"][1]["json"]["error"]["code"] in ("failed", "input_invalid")
