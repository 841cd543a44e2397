"""Ask: what a project's file asks for beyond the project's own directory. Only the user can grant it."""

import msgspec

KINDS: dict[str, tuple[str, str]] = {
    # What a file does, and what that lets happen.
    "owner": ("belongs to another user ({})", "Its owner can change it at any time."),
    "unread": ("cannot be used ({})", "What it sets is not known."),
    "workspace": ("asks for file access to {}", "Tools could read and write files outside the project."),
    "consent": ("asks to call {} without your consent", "A model could call it as often as it wants."),
    "key": ("asks to send {}", "Whoever runs that host could use your key."),
    "secret": ("asks to send {}", "Whoever runs that host learns its value."),
    "variable": ("asks to put {}", "A model, or whoever runs a host, learns its value."),
    "network": ("asks for network access to {}", "Tools could reach services that are not public."),
    "sandbox": ("asks for weaker confinement ({})", "Plugins could read all your files."),
    "callable": ("asks to use the function {} as a tool", "It is not part of the project."),
    "server": ("asks to use the MCP server {}", "It runs on your machine, or gets what you send to it."),
    "limit": ("asks for {}", "It raises a limit that protects your machine."),
}
"""The kinds of asks. A new one is a line here, and whoever finds it in a file."""

IGNORED = ("owner", "unread")
"""The kinds of whole files that are ignored without trust. They stop nothing, and have an absolute path."""


_SHOWN_CHARACTERS = 500
_SHOWN_AT_THE_END = 200


def _shown(text: str) -> str:
    """On one line, with its end, and without what a terminal acts on: nothing may look like another ask."""
    cut = text
    if len(text) > _SHOWN_CHARACTERS:
        begin, end = text[: _SHOWN_CHARACTERS - _SHOWN_AT_THE_END], text[-_SHOWN_AT_THE_END:]
        cut = f"{begin}…{end} ({len(text)} characters)"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    value: str
    file: str
    """Relative to the project, where it is inside."""
    line: int = 0
    trusted: bool = False

    @property
    def id(self) -> str:
        """What identifies it, wherever the project is: the same ask on another line is the same."""
        from hashlib import sha256  # dear, and few commands ask

        parts = [text.encode("utf-8", "surrogateescape") for text in (self.kind, self.value, self.file)]
        return sha256(msgspec.msgpack.encode(parts)).hexdigest()[:32]

    @property
    def shown_file(self) -> str:
        return _shown(self.file)

    @property
    def place(self) -> str:
        return f"{self.shown_file}:{self.line}" if self.line else self.shown_file

    @property
    def text(self) -> str:
        """`asks for file access to /srv`: what follows the place."""
        return KINDS[self.kind][0].format(_shown(self.value))

    @property
    def reason(self) -> str:
        return KINDS[self.kind][1]
