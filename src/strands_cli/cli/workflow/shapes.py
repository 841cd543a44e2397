"""The elements of an SVG picture, and what they look like by day and by night."""

from strands_cli.patterns.outline import Kind

STYLE = """<style>
  svg { --page: #ffffff; --ink: #1f2933; --soft: #52606d; --line: #7b8794; --frame: #f5f7fa; --edge: #9aa5b1;
    --step: #e8f0fe; --step-edge: #3b6fd4; --choice: #fff4d6; --choice-edge: #b7791f;
    --human: #fde8ef; --human-edge: #c2255c; --dynamic: #e6f7ee; --dynamic-edge: #2b8a57; }
  @media (prefers-color-scheme: dark) {
    svg { --page: #14181d; --ink: #e6ebf0; --soft: #a9b4c0; --line: #8794a3; --frame: #1b2128;
      --edge: #4a5664; --step: #1c2c49; --step-edge: #6f9bf0; --choice: #3a2f14; --choice-edge: #e0b04c;
      --human: #431c2b; --human-edge: #f0799f; --dynamic: #14352a; --dynamic-edge: #5cc794; } }
  .page { fill: var(--page); }
  text { font-family: "DejaVu Sans", Verdana, "Segoe UI", system-ui, sans-serif; text-anchor: middle;
    fill: var(--soft); }
  text.title { font-weight: 600; fill: var(--ink); }
  text.label-text, text.frame-title { fill: var(--ink); }
  .shape { fill: var(--step); stroke: var(--step-edge); stroke-width: 1.4; }
  .start .shape, .end .shape { fill: var(--frame); stroke: var(--line); }
  .router .shape, .evaluator .shape { fill: var(--choice); stroke: var(--choice-edge); }
  .human .shape { fill: var(--human); stroke: var(--human-edge); }
  .orchestrator .shape, .worker .shape, .reduce .shape { fill: var(--dynamic); stroke: var(--dynamic-edge); }
  .worker .shape { stroke-dasharray: 6 4; }
  .frame { fill: var(--frame); stroke: var(--edge); stroke-dasharray: 2 3; }
  .label { fill: var(--page); stroke: var(--edge); stroke-width: 0.7; }
  .line { fill: none; stroke: var(--line); stroke-width: 1.5; }
  .head { fill: var(--line); }
</style>
<defs>
<marker id="arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">
<path class="head" d="M 0 0.5 L 10 5 L 0 9.5 z"/></marker>
</defs>"""

_SLANT = 14.0


def element(name: str, text: str | None = None, **attributes: str | float | None) -> str:
    head = opened(name, **attributes)
    return f"{head}{escaped(text)}</{name}>" if text is not None else f"{head[:-1]}/>"


def opened(name: str, **attributes: str | float | None) -> str:
    """The opening tag; `class_` is class, and `data_key` is data-key."""
    pairs = [
        f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    ]
    return f"<{name}{''.join(pairs)}>"


def _value(value: str | float) -> str:
    return escaped(value) if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def escaped(text: str) -> str:
    """Text that is nothing but text; characters that XML cannot hold are replaced."""
    kept = "".join(letter if _is_xml(ord(letter)) else "�" for letter in text)
    for letter, reference in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        kept = kept.replace(letter, reference)
    return kept


def _is_xml(code: int) -> bool:
    return (
        code in (0x9, 0xA)
        or 0x20 <= code < 0x7F
        or 0xA0 <= code <= 0xD7FF
        or 0xE000 <= code <= 0xFFFD
        or code >= 0x10000
    )


def outline_shape(kind: Kind, x: float, y: float, width: float, height: float) -> str:
    if kind == "human":
        points = [(x + _SLANT, y), (x + width, y), (x + width - _SLANT, y + height), (x, y + height)]
    elif kind in ("router", "evaluator"):
        half, right, bottom = y + height / 2, x + width, y + height
        points = [
            (x + _SLANT, y), (right - _SLANT, y), (right, half), (right - _SLANT, bottom),
            (x + _SLANT, bottom), (x, half),
        ]  # fmt: skip
    else:
        radius = height / 2 if kind in ("start", "end") else 6.0
        return element("rect", class_="shape", x=x, y=y, width=width, height=height, rx=radius)
    return element("polygon", class_="shape", points=" ".join(f"{px:.1f},{py:.1f}" for px, py in points))
