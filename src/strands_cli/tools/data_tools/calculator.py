"""Evaluate an arithmetic expression."""

from strands_cli.toolkit.decorator import tool

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


@tool(
    spec=TOOL_SPEC,
    version="1.0.0",
    family="data_tools",
    category="data",
    timeout=10.0,
    annotations={"readOnlyHint": True},
)
def calculator(expression: str, precision: int | None = None) -> str:
    from decimal import localcontext

    from strands_cli.tools.data_tools._arithmetic import CONTEXT, evaluate, number_text

    with localcontext(CONTEXT):
        return number_text(evaluate(expression), precision)
