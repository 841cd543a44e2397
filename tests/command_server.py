"""Runs `strands` commands for tests, each in a process of its own that need not import everything first.

This process has imported what commands import. For each request it forks, and the child is the command: with
its own arguments, directory, environment and streams. Most of the time of a command is the time of its
imports, and there are thousands of them in these tests.
"""

import array
import atexit
import gc
import json
import os
import select
import signal
import socket
import sys
import threading
import time

MAX_REQUEST = 1_000_000
PRELOADED = (
    "strands_cli.cli.app",
    "strands_cli.cli.run",
    "strands_cli.cli.resume",
    "strands_cli.cli.runs",
    "strands_cli.cli.plan",
    "strands_cli.cli.explain",
    "strands_cli.cli.validate",
    "strands_cli.cli.tool",
    "strands_cli.cli.progress",
    "strands_cli.cli.questions",
    "strands_cli.capability",
    "strands_cli.exec.run",
    "strands_cli.exec.journal",
    "strands_cli.http_tools.executors",
    "strands_cli.providers.scripted",
    "jinja2",
    "yaml",
)


def serve(listener: socket.socket) -> None:
    """Answers requests until the other end of standard input is closed."""
    for name in PRELOADED:
        __import__(name)
    gc.collect()
    gc.freeze()
    running: dict[int, socket.socket] = {}
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    os.write(1, b"ready\n")
    while True:
        ready, _, _ = select.select([listener, woken, 0], [], [])
        if 0 in ready:
            return
        if woken in ready:
            os.read(woken, 1000)
            _report_ended(running)
        if listener in ready:
            _begin(listener, running)


def _report_ended(running: dict[int, socket.socket]) -> None:
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with running.pop(pid) as connection:
                connection.sendall(json.dumps(os.waitstatus_to_exitcode(status)).encode())


def _begin(listener: socket.socket, running: dict[int, socket.socket]) -> None:
    connection, _ = listener.accept()
    request, streams = _received(connection)
    pid = os.fork()
    if pid:
        for stream in streams:
            os.close(stream)
        running[pid] = connection
        connection.sendall(f"{pid}\n".encode())
        return
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 1024)
    _become(request)


def _received(connection: socket.socket) -> tuple[dict, list[int]]:
    """A request: its length in 8 digits with the three streams, then its text."""
    room = socket.CMSG_LEN(3 * array.array("i").itemsize)
    head, ancillary, _, _ = connection.recvmsg(8, room)
    streams = array.array("i")
    for _, _, data in ancillary:
        streams.frombytes(data)
    text = b""
    while len(text) < int(head):
        text += connection.recv(MAX_REQUEST)
    return json.loads(text), list(streams)


def _become(request: dict) -> None:
    """Makes this process the command of a request."""
    import random

    random.seed()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    sys.argv = ["strands", *request["arguments"]]
    sys.path[0] = request["cwd"]
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        errors = "backslashreplace" if name == "stderr" else "strict"
        stream = open(number, mode, encoding="utf-8", errors=errors, closefd=False, buffering=-1)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    from strands_cli.__main__ import main

    _end(main())


def _end(code: int) -> None:
    """Ends the process as the interpreter does, but for taking every imported module apart."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except (OSError, ValueError):
            code = 120  # as the interpreter has it
    os._exit(code)


if __name__ == "__main__":
    own = socket.socket(socket.AF_UNIX)
    own.bind(sys.argv[1])
    own.listen(64)
    try:
        serve(own)
    except SystemExit as ended:
        _end(ended.code if isinstance(ended.code, int) else 1)
