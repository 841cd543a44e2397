"""What is written into the boxes of a drawing: short, and the same in every format."""

from strands_cli.patterns.outline import Box

_MOST_TOOLS = 6


def tool_name(reference: str) -> str:
    """The part of a reference by which people know the tool: `native:echo` is `echo`."""
    if reference.endswith(".py"):
        return reference.rpartition("/")[2].removesuffix(".py")
    name, version = reference.rpartition(":")[2], ""
    if "@" in name:
        name, _, version = name.partition("@")
    return name.rpartition(".")[2] + (f"@{version}" if version else "")


def box_lines(box: Box) -> list[str]:
    """The lines of a box below its title."""
    lines = []
    if box.agent and box.agent != box.title:
        lines.append(f"agent {box.agent}")
    if box.kind == "human":
        lines.append("asks a human")
    if box.tools:
        names = [tool_name(tool) for tool in box.tools]
        more = f", … {len(names) - _MOST_TOOLS} more" if len(names) > _MOST_TOOLS else ""
        lines.append(f"tools: {', '.join(names[:_MOST_TOOLS])}{more}")
    if box.kind in ("worker", "orchestrator"):
        lines.append(box.note)
    return lines


def first_line(text: str, most: int = 100) -> str:
    """The first line of a text that has something in it, cut to a length; '…' where there is more."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()] or [""]
    line = lines[0] if len(lines) == 1 else f"{lines[0]} …"
    return printable(line if len(line) <= most else line[: most - 1].rstrip() + "…")


def printable(text: str) -> str:
    """Text without characters that do something to a terminal instead of standing there."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
