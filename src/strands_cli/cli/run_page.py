"""A run as one page for a browser: the timeline, and each step with its messages and tool calls.

The page is self-contained: it has no scripts, and its policy forbids them and all external resources. The
template escapes everything that models and tools wrote, and shows characters that a browser would hide.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from strands_cli.cli.terminal import duration_text, visible_text
from strands_cli.cli.timeline import LEGEND, Axis, run_facts, step_counts, waiting_questions, way_on
from strands_cli.cli.transcript import Part, answer_text, content_parts, data_text, step_facts, usage_facts
from strands_cli.exec.history import RunView, StepView
from strands_cli.secrets import without_credentials

if TYPE_CHECKING:
    from jinja2 import Template

_IMAGES = ("png", "jpeg", "gif", "webp")


def page_text(view: RunView) -> str:
    """The page, in HTML."""
    axis = Axis(view.steps)
    kinds = {span.kind for step in view.steps for span in step.spans()}
    return _template().render(
        view=view,
        steps=[(step, [*_bars(step, axis)]) for step in view.steps],
        axis=axis,
        began=min((step.at for step in view.steps), default=0.0),
        legend={kind: text for kind, text in LEGEND.items() if kind in kinds},
        questions=[*waiting_questions(view)],
        way_on=way_on(view),
        signs={"done": "✓", "failed": "✗", "waiting": "?", "running": "▶"},
    )


@cache
def _template() -> "Template":
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def shown(value: Any) -> Any:
        is_foreign = isinstance(value, str) and not isinstance(value, Markup)
        return visible_text(without_credentials(value), lines=True) if is_foreign else value

    environment = Environment(
        autoescape=True, finalize=shown, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= _FILTERS
    here = files("strands_cli.cli")
    style = here.joinpath("run_page.css").read_text("utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    environment.globals |= {"style": Markup(style), "style_hash": digest}
    return environment.from_string(here.joinpath("run_page.html").read_text("utf-8"))


def _bars(step: StepView, axis: Axis) -> Iterator[tuple[str, float, float]]:
    """The kind of each bar, its start and its width, in thousandths of the axis."""
    parts = [("whole", step.at, step.end), *((span.kind, span.start, span.end) for span in step.spans())]
    for kind, start, end in parts:
        left, right = (round(1000 * axis.place(time), 1) for time in (start, end))
        yield kind, min(left, 998.0), max(round(right - left, 1), 2.0)


def _picture(part: Part) -> str:
    """The data URL of an image in a format that browsers show; otherwise empty."""
    if part.format not in _IMAGES:
        return ""
    return f"data:image/{part.format};base64,{b64encode(part.image).decode()}"


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}"


_FILTERS: dict[str, Callable[[Any], object]] = {
    "answer": answer_text,
    "counts": lambda step: ", ".join(step_counts(step)),
    "data": data_text,
    "duration": duration_text,
    "facts": lambda usage: ", ".join(usage_facts(usage)),
    "moment": _moment,
    "parts": content_parts,
    "picture": _picture,
    "run_facts": lambda view: ", ".join(run_facts(view)),
    "step_facts": lambda step: ", ".join(step_facts(step)),
}
