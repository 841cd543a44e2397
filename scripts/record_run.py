"""Writes docs/run.svg: a real run of README's workflow, as a terminal shows it.

    .venv/bin/python scripts/record_run.py

It needs tmux, whose window is the terminal, and the weights of the embedded model (`strands models pull`).
The files of the project are those that README shows, so that picture and page say the same.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

REPOSITORY = Path(__file__).resolve().parent.parent
PICTURE = REPOSITORY / "docs" / "run.svg"
COMMANDS = ("strands validate menu.yaml", "strands run menu.yaml --verbose")
COLUMNS, LINES, LONGEST_SECONDS = 80, 40, 900

_FILE = re.compile(r"^```\w*\n# file: (?P<path>\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_STYLE = re.compile(r"\x1b\[([\d;]*)m")
_CELL_WIDTH, _CELL_HEIGHT, _MARGIN = 8.4, 19, 18
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
_PAGE, _INK = "#14181d", "#e6ebf0"
_COLOURS = {"2": "#8794a3", "31": "#f0799f", "32": "#5cc794", "33": "#e0b04c", "36": "#6fc3df"}


def recorded_screen(project: Path) -> list[str]:
    """The lines of the window, with their colours, after the commands were typed into it."""
    socket = project / "tmux"
    path = os.pathsep.join([str(REPOSITORY / ".venv" / "bin"), os.environ["PATH"]])

    def tmux(*arguments: str) -> str:
        environment = {**os.environ, "PATH": path, "PS1": "$ ", "SHELL": "/bin/sh", "LANG": "C.UTF-8"}
        for name in ("CI", "NO_COLOR", "ENV"):
            environment.pop(name, None)
        command = ["tmux", "-S", str(socket), "-f", os.devnull, "-u", *arguments]
        return subprocess.run(
            command, cwd=project, env=environment, check=True, capture_output=True, encoding="utf-8"
        ).stdout

    tmux("new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES), "sh")
    try:
        for number, command in enumerate(COMMANDS, start=1):
            tmux("send-keys", command, "Enter")
            wait_for_prompt(lambda: tmux("capture-pane", "-p"), prompts=number + 1)
        return tmux("capture-pane", "-p", "-e").rstrip().splitlines()[:-1]
    finally:
        tmux("kill-server")


def wait_for_prompt(screen: Callable[[], str], prompts: int) -> None:
    end = time.monotonic() + LONGEST_SECONDS
    while sum(line.startswith("$") for line in screen().splitlines()) < prompts:
        if time.monotonic() > end:
            sys.exit("The commands did not end:\n" + screen())
        time.sleep(0.2)


def drawn(lines: list[str]) -> str:
    """An SVG with its own background and colours as attributes, so that it looks the same everywhere."""
    width = round(2 * _MARGIN + COLUMNS * _CELL_WIDTH)
    height = 2 * _MARGIN + len(lines) * _CELL_HEIGHT
    texts = []
    for number, line in enumerate(lines):
        cells = len(_STYLE.sub("", line))
        if cells:
            place = f'x="{_MARGIN}" y="{_MARGIN + 14 + number * _CELL_HEIGHT}"'
            place += f' textLength="{cells * _CELL_WIDTH:.1f}" xml:space="preserve"'
            texts.append(f"<text {place}>{spans(line)}</text>")
    shown = "\n".join(texts)
    size = f'width="{width}" height="{height}"'
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size} role="img">
<title>A workflow is validated and run in a terminal</title>
<rect {size} rx="8" fill="{_PAGE}"/>
<g font-family="{_FONTS}" font-size="14" fill="{_INK}">
{shown}
</g>
</svg>
"""


def spans(line: str) -> str:
    """The pieces of a line, each in its colour; what was typed is bold."""
    if line.startswith("$ "):
        return f'<tspan font-weight="bold">{escape(line)}</tspan>'
    pieces, colour, bold = [], "", False
    for number, part in enumerate(_STYLE.split(line)):
        if number % 2:
            for code in part.split(";"):
                colour = "" if code in ("", "0", "39") else _COLOURS.get(code, colour)
                bold = code == "1" or (bold and code not in ("", "0", "22"))
        elif part:
            style = (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if bold else "")
            pieces.append(f"<tspan{style}>{escape(part)}</tspan>" if style else escape(part))
    return "".join(pieces)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="run-") as directory:
        project = Path(directory)
        for block in _FILE.finditer((REPOSITORY / "README.md").read_text("utf-8")):
            file = project / block["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block["text"], "utf-8")
        (project / "strands.toml").touch()
        PICTURE.write_text(drawn(recorded_screen(project)), "utf-8")
    print(PICTURE.relative_to(REPOSITORY))


if __name__ == "__main__":
    main()
