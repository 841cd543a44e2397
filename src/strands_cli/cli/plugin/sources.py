"""Where a plugin comes from: a directory, or a Git repository with a ref and a directory in it."""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from strands_cli.errors import UsageError
from strands_cli.plugins.state import Approved

PROTOCOLS = ("https", "ssh", "git", "file")

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://")
_SHORT_SSH = re.compile(r"[\w.-]+@[\w.-]+:(?!/?/)")
"""`git@host:owner/repository.git`"""
_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./+@=-]*")
_FORMS = "Write URL, URL@REF, or URL@REF#DIRECTORY."


class Source(msgspec.Struct, frozen=True, kw_only=True):
    place: str
    """A directory, absolute, or the URL of a repository."""
    is_repository: bool = False
    ref: str = ""
    """A branch, a tag or a commit; the repository's own choice where it is empty."""
    directory: str = ""
    """Where the plugin lies in the repository."""

    def __str__(self) -> str:
        ref = f"@{self.ref}" if self.ref else ""
        return f"{self.place}{ref}{self._fragment}"

    @property
    def _fragment(self) -> str:
        return f"#{self.directory}" if self.directory else ""

    def approved(self, files: dict[str, str], commit: str, lock: Path, owner: str) -> Approved:
        """The entry of a lock. A project's lock goes to other machines, so paths in it are relative."""
        place = self.place
        if not self.is_repository and owner == "project":
            place = os.path.relpath(place, lock.parent.resolve())
        return Approved(files=files, source=f"{place}{self._fragment}", ref=self.ref, commit=commit)


def source_from(text: str) -> Source:
    """What a person wrote: a directory, or a URL."""
    url = _URL.match(text)
    if url is None and (_SHORT_SSH.match(text) is None or Path(text).exists()):
        return Source(place=str(Path(text).expanduser().resolve()))
    address, _, directory = text.partition("#")
    return _repository(*_divided(address), directory)


def source_in(approved: Approved, lock: Path) -> Source:
    """What a lock says."""
    text = approved.source
    if _URL.match(text) or _SHORT_SSH.match(text):
        place, _, directory = text.partition("#")
        return _repository(place, approved.ref, directory)
    return Source(place=str((lock.parent / text).resolve()))


def _repository(place: str, ref: str, directory: str) -> Source:
    url = _URL.match(place)
    _refuse_bad_url(place, url["scheme"] if url else "ssh")
    if ref and not _REF.fullmatch(ref):
        raise UsageError(f"{ref!r} is not a branch, tag or commit.", hint=_FORMS)
    return Source(place=place, is_repository=True, ref=ref, directory=_inside(directory))


def _divided(address: str) -> tuple[str, str]:
    """The URL and the ref. An `@` before the path belongs to the host, one in a path that exists to it."""
    scheme = _URL.match(address)
    if scheme and scheme["scheme"] == "file" and Path(urlsplit(address).path).exists():
        return address, ""
    start = address.find("/", scheme.end()) if scheme else address.find(":")
    place, mark, ref = address[max(start, 0) :].rpartition("@")
    if start < 0 or not mark:
        return address, ""
    if not ref:
        raise UsageError(f"There is no ref after the '@' of {address}.", hint=_FORMS)
    return address[:start] + place, ref


def _refuse_bad_url(place: str, scheme: str) -> None:
    if scheme not in PROTOCOLS:
        raise UsageError(
            f"Plugins do not come by {scheme}.", hint=f"Use one of {', '.join(PROTOCOLS)}, or a directory."
        )
    parts = urlsplit(place) if _URL.match(place) else None
    if parts and (parts.password or (parts.username and scheme != "ssh")):
        raise UsageError(
            "The URL contains a credential, which would end up in the lock.",
            hint="Leave it out, and let a credential helper of Git or SSH give it.",
        )


def _inside(directory: str) -> str:
    parts = Path(directory).parts
    if directory and (Path(directory).is_absolute() or ".." in parts or ".git" in parts):
        raise UsageError(f"{directory} is not a directory inside the repository.", hint=_FORMS)
    return Path(directory).as_posix() if directory else ""
