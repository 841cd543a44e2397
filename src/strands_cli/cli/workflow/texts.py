"""Texts of a workflow, fit to be shown."""


def first_line(text: str, most: int = 100) -> str:
    """The first line of a text that has something in it, cut to a length; '…' where there is more."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()] or [""]
    line = lines[0] if len(lines) == 1 else f"{lines[0]} …"
    return printable(line if len(line) <= most else line[: most - 1].rstrip() + "…")


def printable(text: str) -> str:
    """Text without characters that do something to a terminal instead of standing there."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)
