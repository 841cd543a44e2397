"""What an attack could reach, and the traces that it leaves when it does: laid out by the attacked host."""

import ctypes
import os
import resource
import secrets
import selectors
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path

from tests.sandbox.attacks.records import Attack

SIGNAL = signal.SIGRTMIN + 5
FORGERY = "this-answer-is-forged"
ENVIRONMENT_NAME = "STRANDS_CANARY"
_CORE_LIMIT = (1024, 1024)
_LIBC = ctypes.CDLL(None, use_errno=True)


def new_secret() -> str:
    return f"canary-{secrets.token_hex(12)}"


class Canaries:
    """Secrets, victims and listeners in a directory that the run throws away."""

    def __init__(self, place: Path, secrets_of_host: dict[str, str]) -> None:
        self.place = place
        self.home = Path.home()
        kinds = (
            "file",
            "module",
            "link",
            "home",
            "name at home",
            "memory",
            "descriptor",
            "shared",
            "session",
        )
        self.secrets = {kind: new_secret() for kind in kinds} | secrets_of_host
        self.token = secrets.token_hex(8)
        self._memory = ctypes.create_string_buffer(self.secrets["memory"].encode())
        self.signals = 0
        self.listeners = Listeners(place, self.secrets["descriptor"])
        self._lay_out()
        self._processors = os.sched_getaffinity(0)
        self._priority = os.getpriority(os.PRIO_PROCESS, 0)
        # A limit that is already lower stays, and is watched as it is.
        with suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_CORE, _CORE_LIMIT)
        self._core = resource.getrlimit(resource.RLIMIT_CORE)
        signal.signal(SIGNAL, self._note_signal)

    def _lay_out(self) -> None:
        place = self.place
        for file, content in (
            ("secret.txt", self.secrets["file"]),
            ("planted.py", f"VALUE = {self.secrets['module']!r}\n"),
        ):
            (place / file).write_text(content)
            (place / file).chmod(0o644)
        (place / "link").symlink_to(f"/nowhere/{self.secrets['link']}")
        (place / "drop").mkdir(mode=0o755)
        (self.home / ".secret").write_text(self.secrets["home"])
        (self.home / self.secrets["name at home"]).touch()
        text = self.secrets["shared"].encode()
        self.shared = _LIBC.shmget(0, 4096, 0o1644)
        if self.shared >= 0:
            _LIBC.shmat.restype = ctypes.c_void_p
            ctypes.memmove(_LIBC.shmat(self.shared, None, 0), text, len(text))
            # Linux lets others in until the last one leaves, and then it is gone, however this process ends.
            _LIBC.shmctl(self.shared, 0, None)

    def _note_signal(self, *_: object) -> None:
        self.signals += 1

    def given(self, attack: Attack) -> dict[str, object]:
        """The names that the code of an attack finds."""
        return {
            "CANARY": str(self.place),
            "HOME": str(self.home),
            "DROP": str(self.drop(attack)),
            "HOST": os.getpid(),
            "SECRET_AT": ctypes.addressof(self._memory),
            "SECRET_SIZE": len(self._memory),
            "NAME": attack.name,
            "TOKEN": self.token,
            "FORGERY": FORGERY,
            "SIGNAL": int(SIGNAL),
            "SHARED": self.shared,
            **self.listeners.addresses,
        }

    def drop(self, attack: Attack) -> Path:
        return self.place / "drop" / "".join(c if c.isalnum() else "_" for c in attack.name)

    def prepare(self, attack: Attack) -> None:
        drop = self.drop(attack)
        drop.mkdir(exist_ok=True)
        drop.chmod(0o777)
        for left in drop.iterdir():
            left.unlink()
        victim = drop / "victim.txt"
        victim.write_text("victim")
        victim.chmod(0o666)
        os.utime(victim, (1_000_000, 1_000_000))

    def traces(self, attack: Attack, answers: str) -> list[str]:
        """What is wrong after an attack, as sentences."""
        found = [f"leak: {kind}" for kind, secret in self.secrets.items() if secret in answers]
        if f"REACHED {self.token[::-1]}" in answers:
            found.append("reached")
        if attack.name.encode() in self.listeners.heard():
            found.append("contact")
        return found + self._changed_files(attack) + self._changed_host()

    def _changed_files(self, attack: Attack) -> list[str]:
        drop = self.drop(attack)
        names = sorted(path.name for path in drop.iterdir())
        if names != ["victim.txt"]:
            return [f"write: {names}"]
        victim = drop / "victim.txt"
        stat = victim.stat()
        attributes = os.listxattr(victim)
        owner = (stat.st_uid, stat.st_gid) == (os.getuid(), os.getgid())
        same = victim.read_text() == "victim" and stat.st_mode == 0o100666 and stat.st_mtime == 1_000_000
        return [] if same and owner and not attributes else ["write: victim.txt has changed"]

    def _changed_host(self) -> list[str]:
        """Also puts back what was changed."""
        found = []
        if self.signals:
            found.append("contact: a signal")
            self.signals = 0
        if self._memory.value.decode() != self.secrets["memory"]:
            found.append("host: its memory was written")
            self._memory.value = self.secrets["memory"].encode()
        if os.getpriority(os.PRIO_PROCESS, 0) != self._priority:
            found.append("host: its priority has changed")
            with suppress(PermissionError):
                os.setpriority(os.PRIO_PROCESS, 0, self._priority)
        if os.sched_getaffinity(0) != self._processors:
            found.append("host: its processors have changed")
            os.sched_setaffinity(0, self._processors)
        if resource.getrlimit(resource.RLIMIT_CORE) != self._core:
            found.append("host: its limits have changed")
            resource.setrlimit(resource.RLIMIT_CORE, self._core)
        return found


class Listeners:
    """Sockets of every kind that can be listened to here; a thread notes what arrives."""

    def __init__(self, place: Path, secret: str) -> None:
        self.addresses: dict[str, object] = dict.fromkeys(("TCP", "TCP6", "UDP", "NETLINK"), 1)
        self._heard = bytearray()
        self._ready = selectors.DefaultSelector()
        self._handed_out = self._secret_file(place, secret)
        for name, family, kind, address in (
            ("TCP", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            ("TCP6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            ("UDP", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            ("UNIX", socket.AF_UNIX, socket.SOCK_STREAM, str(place / "stream")),
            ("UNIX_DATAGRAM", socket.AF_UNIX, socket.SOCK_DGRAM, str(place / "datagram")),
            ("ABSTRACT", socket.AF_UNIX, socket.SOCK_STREAM, f"\0strands-{secrets.token_hex(6)}"),
            ("HANDOUT", socket.AF_UNIX, socket.SOCK_STREAM, str(place / "handout")),
        ):
            with suppress(OSError):
                self._listen(name, socket.socket(family, kind), address)
        with suppress(OSError):
            self._listen_to_netlink()
        threading.Thread(target=self._serve, daemon=True).start()

    def _secret_file(self, place: Path, secret: str) -> int:
        """A file without a name that only the host has open, at a descriptor that a careless start hands on."""
        path = place / "handed-out"
        path.write_text(secret)
        path.chmod(0o600)
        descriptor = os.open(path, os.O_RDONLY)
        path.unlink()
        os.set_inheritable(descriptor, True)
        return descriptor

    def _listen(self, name: str, made: socket.socket, address: object) -> None:
        made.bind(address)  # type: ignore[arg-type]
        if made.type == socket.SOCK_STREAM:
            made.listen(64)
        if made.family == socket.AF_UNIX:
            self.addresses[name] = str(address).removeprefix("\0")
            if not str(address).startswith("\0"):
                Path(str(address)).chmod(0o777)
        else:
            self.addresses[name] = made.getsockname()[1]
        self._ready.register(made, selectors.EVENT_READ, name)

    def _listen_to_netlink(self) -> None:
        made = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 2)
        made.bind((0, 0))
        self.addresses["NETLINK"] = made.getsockname()[0]
        self._ready.register(made, selectors.EVENT_READ, "NETLINK")

    def _serve(self) -> None:
        while True:
            for key, _ in self._ready.select():
                with suppress(OSError):
                    self._answer(key.fileobj, str(key.data))  # type: ignore[arg-type]

    def _answer(self, ready: socket.socket, name: str) -> None:
        if name == "HANDOUT":
            caller, _ = ready.accept()
            socket.send_fds(caller, [b"x"], [self._handed_out])
            caller.close()
        elif name != "a caller" and ready.type == socket.SOCK_STREAM:
            caller, _ = ready.accept()
            self._ready.register(caller, selectors.EVENT_READ, "a caller")
        elif heard := ready.recv(4096):
            self._heard += heard + b"\n"
        elif name == "a caller":
            self._ready.unregister(ready)
            ready.close()

    def heard(self) -> bytes:
        return bytes(self._heard)
