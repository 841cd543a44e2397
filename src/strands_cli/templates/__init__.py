"""Templates (`{{ … }}`) in prompts, inputs, headers and paths: rendered in a strict sandbox, and checked
without running.

Jinja is imported only if a text contains a template. Plain text is never passed to it.
"""

from strands_cli.templates.meter import Meter
from strands_cli.templates.names import Each, Flaw, Name, may_be_template, name_and_path, names_in_template
from strands_cli.templates.rendering import (
    TemplateError,
    is_expression,
    render,
    render_known,
    render_values,
    template_parts,
)

__all__ = [
    "Each",
    "Flaw",
    "Meter",
    "Name",
    "TemplateError",
    "is_expression",
    "may_be_template",
    "name_and_path",
    "names_in_template",
    "render",
    "render_known",
    "render_values",
    "template_parts",
]
