"""Renders a template with a scope, to text or to a value."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from strands_cli.documents.problems import json_pointer
from strands_cli.errors import Issue, SpecError, did_you_mean
from strands_cli.templates.meter import Meter, TooMuch, current_meter
from strands_cli.templates.names import jinja_message, may_be_template, names_in_template

if TYPE_CHECKING:
    from jinja2 import Template

    from strands_cli.types.sections import BaseSpec

_MANY = 1000
"""No suggestion (`Did you mean`) is made among more names, or for a longer name."""
_MOST_PARTS = 2000
_OPENING_TAGS = ("for", "if", "call", "filter", "with", "autoescape", "block")


class TemplateError(SpecError):
    """A template that cannot be rendered."""

    code = "template"


def render(
    text: str,
    scope: Mapping[str, Any],
    *,
    spec: "BaseSpec | None" = None,
    pointer: str = "",
) -> str:
    """Renders a template to text. Errors name its place, `pointer` in `spec`."""
    if not may_be_template(text):
        return text

    def rendered(meter: Meter) -> str:
        return meter.collect(_compiled_template(text).generate(dict(scope)))

    return str(_computed(text, rendered, scope, spec, pointer))


def render_values(
    value: Any, scope: Mapping[str, Any], *, spec: "BaseSpec | None" = None, pointer: str = ""
) -> Any:
    """Renders a JSON value in which each text is a template.

    A text that is a single `{{ … }}` keeps the type of its value: a number, a list or an object. All
    templates together have the limits of one.
    """
    if isinstance(value, dict):
        with current_meter().running():
            return {
                key: render_values(inner, scope, spec=spec, pointer=pointer + json_pointer((key,)))
                for key, inner in value.items()
            }
    if isinstance(value, list | tuple):
        with current_meter().running():
            return [
                render_values(inner, scope, spec=spec, pointer=f"{pointer}/{index}")
                for index, inner in enumerate(value)
            ]
    if not isinstance(value, str) or not may_be_template(value):
        return value

    def computed(meter: Meter) -> Any:
        template = _compiled_expression(value)
        if template is None:
            return meter.collect(_compiled_template(value).generate(dict(scope)))
        context = template.new_context(dict(scope))
        for _ in template.root_render_func(context):
            pass
        return _plain_value(context.vars[_RESULT], meter)

    return _computed(value, computed, scope, spec, pointer)


def is_expression(text: str) -> bool:
    """Whether a text is a single `{{ … }}`, so its value can have any type.

    Also true for some invalid templates; their errors are reported elsewhere.
    """
    from jinja2 import TemplateSyntaxError

    try:
        return _compiled_expression(text) is not None
    except (TemplateSyntaxError, TooMuch, SyntaxError, RecursionError, ValueError):
        return True


def _plain_value(value: Any, meter: Meter) -> Any:
    """The value of an expression as JSON: results of steps become their texts, as in all templates."""
    from jinja2 import Undefined

    if isinstance(value, Undefined):
        value._fail_with_undefined_error()
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | int | float | None):
        return value
    meter.make(meter.weight(value))
    if isinstance(value, Mapping):
        return {str(key): _plain_value(inner, meter) for key, inner in value.items()}
    if isinstance(value, Iterable):
        return [_plain_value(inner, meter) for inner in value]
    return str(value)


def _computed(
    text: str,
    compute: Callable[[Meter], Any],
    scope: Mapping[str, Any],
    spec: "BaseSpec | None",
    pointer: str,
) -> Any:
    """The result of a template; TemplateError with its place if rendering fails."""
    import jinja2

    from strands_cli.templates.environment import UndefinedName

    # The template is its author's code: a wrong type or a division by zero is not a bug of ours. Python
    # raises SyntaxError for loops that are nested too deeply to compile, and NameError for `inf`, from 1e999.
    wrong = (
        *(ArithmeticError, LookupError, TypeError, ValueError, AttributeError),
        *(SyntaxError, RecursionError, MemoryError, NameError),
    )
    try:
        with current_meter().running() as meter:
            return compute(meter)
    except UndefinedName as error:
        reason, hint = _unknown_name(error.name, scope if error.known is None else error.known)
        line = _template_line(error)
    except jinja2.TemplateSyntaxError as error:
        reason = f"Invalid template: {jinja_message(error)}"
        hint, line = "Correct the template.", error.lineno
    except TooMuch as error:
        reason = f"The template was stopped: {error}"
        hint, line = "Make it smaller: fewer loops, shorter texts.", _template_line(error)
    except (jinja2.TemplateError, *wrong) as error:
        reason = f"The template failed: {jinja_message(error)}"
        hint, line = "Fix the template, or the values it gets.", _template_line(error)
    reason = f"{reason}{f' (line {line} of the text)' if line and text.strip().count(chr(10)) else ''}."
    if spec is not None:
        issue = spec.issue(pointer, reason, hint)
    else:
        issue = Issue(reason=reason, remediation=hint, pointer=pointer)
    message = f"{issue.place}: {reason}" if issue.place else reason
    raise TemplateError(message, hint=hint, issues=[issue])


def _unknown_name(name: str, known: "Mapping[str, Any] | list[Any]") -> tuple[str, str]:
    names = sorted(map(str, known)) if len(known) < _MANY else []
    shown = f"{name[:_MANY]}…" if len(name) > _MANY else name
    hint = did_you_mean(shown, names) or (f"Available: {', '.join(names[:20])}." if names else "")
    return f"There is no name {shown!r} here", hint


def render_known(text: str, scope: Mapping[str, Any]) -> str:
    """Like `render`, but parts with names outside the scope, or that exceed the limits, stay unrendered."""
    try:
        current_meter().read_code(text)
    except TooMuch:
        return text
    parts = template_parts(text)
    if len(parts) > _MOST_PARTS:
        return text
    return "".join(_render_part(part, scope) for part in parts)


def _render_part(part: str, scope: Mapping[str, Any]) -> str:
    names, flaws = names_in_template(part)
    if flaws or any(name.name not in scope for name in names):
        return part
    try:
        return render(part, scope)
    except TemplateError:
        return part


def template_parts(text: str) -> list[str]:
    """Splits a template into texts, expressions and statements that can be rendered separately.

    A template that defines variables or macros is one part.
    """
    if not may_be_template(text):
        return [text]
    from jinja2 import TemplateSyntaxError

    from strands_cli.templates.environment import template_environment

    parts, part, depth, last = [], "", 0, ""
    try:
        for _, kind, token in template_environment().lex(text):
            is_tag = last == "block_begin" and kind != "whitespace"
            if is_tag and token in ("set", "macro"):
                return [text]
            depth += is_tag and (token in _OPENING_TAGS) - token.startswith("end")
            depth += (kind == "raw_begin") - (kind == "raw_end")
            last = kind if kind != "whitespace" else last
            part += token
            if depth == 0 and (kind == "data" or kind.endswith("_end")):
                parts.append(part)
                part = ""
    except TemplateSyntaxError:
        return [text]
    return [*parts, part]


@lru_cache(maxsize=512)
def _compiled_template(text: str) -> "Template":
    from strands_cli.templates.environment import template_environment

    current_meter().read_code(text)
    return template_environment().from_string(text)


_RESULT = "_result_of_expression"
"""The template variable that gets the value."""


@lru_cache(maxsize=512)
def _compiled_expression(text: str) -> "Template | None":
    """The compiled expression of a text that is a single `{{ … }}`; otherwise None."""
    from jinja2 import nodes

    from strands_cli.templates.environment import template_environment

    current_meter().read_code(text)
    match template_environment().parse(text.strip()).body:
        case [nodes.Output(nodes=[expression])] if not isinstance(expression, nodes.TemplateData):
            kept = nodes.Assign(nodes.Name(_RESULT, "store"), expression, lineno=1)
            return template_environment().from_string(nodes.Template([kept], lineno=1))
    return None


def _template_line(error: BaseException) -> int:
    """The template's line from the traceback, where Jinja puts it."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in ("<template>", "<unknown>"):
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
