"""The zygote: a warm interpreter that forks one confined process for each call.

Started by the host as a program of its own with an empty environment, so that there is nothing of the host in
it, and without site-packages. It never runs anything that a model wrote; its children do, and each confines
itself before it reads the code. Both the zygote and its children end when the host does.
"""

import _socket
import _thread
import builtins
import gc
import marshal
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from strands_cli.sandbox import landlock, messages, namespaces, process_tree, seccomp
from strands_cli.sandbox.inside import memory_files
from strands_cli.sandbox.inside.interpreter import run_interpreter
from strands_cli.sandbox.inside.standard_library import MemoryLibrary, read_zones

_REST_SECONDS = 3600.0
_REST_BEFORE_IMPORTS_SECONDS = 0.005
_CHANNEL = 3
_THREAD_STACK_BYTES = 2 * 1024 * 1024
"""Small enough that all the threads of a child fit into its address space."""
_NAMESPACES = namespaces.NEWPID | namespaces.NEWNET | namespaces.NEWIPC | namespaces.NEWUTS

# Imported while nobody waits: what model-written code uses most, the heaviest at last.
_OFTEN_USED = (
    "re math random datetime collections itertools functools statistics decimal fractions dataclasses typing "
    "enum string textwrap csv copy heapq bisect operator hashlib base64 time calendar uuid traceback "
    "contextlib io struct unicodedata pprint zoneinfo threading pathlib urllib.parse logging asyncio"
)


class _Child:
    def __init__(self, process: int, status: int) -> None:
        self.process = process
        self.status = status
        """The descriptor that takes its end."""
        self.until = 0.0
        """When it is killed; 0 is never."""
        self.is_late = False


class Zygote:
    def __init__(self, control: "_socket.socket", layers: set[str], filter_program: bytes) -> None:
        self._control = control
        self._filter = filter_program
        self.layers = layers
        self.missing: dict[str, str] = {}
        """The layers that were asked for and cannot be had, with the reason."""
        self._files = memory_files.MemoryFiles()
        self._children: dict[int, _Child] = {}
        """By the number of the call."""
        self._waiting_imports = _OFTEN_USED.split()
        self._base_bytes = 0

    def confine(self) -> None:
        """Everything that needs files or rights; afterwards it has neither."""
        self._try("landlock", _require_landlock)
        self._try("namespaces", lambda: namespaces.unshare(_NAMESPACES))
        sys.meta_path[:] = [*sys.meta_path[:2], MemoryLibrary()]
        self._base_bytes = namespaces.address_space_in_use()
        self._try("uid", namespaces.drop_user)
        namespaces.drop_capabilities()
        landlock.no_new_privileges()
        namespaces.hide_memory()
        memory_files.install_memory_files(self._files)
        _forget_surroundings()

    def _try(self, layer: str, step: Callable[[], object]) -> None:
        try:
            if layer in self.layers:
                step()
        except OSError as error:
            self.layers.discard(layer)
            self.missing[layer] = str(error)

    def run(self) -> None:
        """Forks, kills and reaps until the host is gone."""
        messages.send_value(self._control, (self.layers, self.missing))
        os.dup2(0, 2)  # until here, standard error told the host why it could not start
        gc.freeze()
        ended = process_tree.wake_on_child()
        poll = select.poll()
        poll.register(self._control.fileno(), select.POLLIN)
        poll.register(ended, select.POLLIN)
        while True:
            rest = _REST_BEFORE_IMPORTS_SECONDS if self._waiting_imports else _REST_SECONDS
            if deadlines := [child.until for child in self._children.values() if child.until]:
                rest = max(0.0, min(deadlines) - time.monotonic())
            ready = [descriptor for descriptor, _ in poll.poll(rest * 1000)]
            if ended in ready:
                os.read(ended, 4096)
                self._reap()
            now = time.monotonic()
            for child in self._children.values():
                if 0 < child.until <= now:
                    child.until, child.is_late = 0.0, True
                    os.kill(child.process, signal.SIGKILL)
            if self._control.fileno() in ready and not self._obey():
                break
            if not ready and self._waiting_imports and not deadlines:
                __import__(self._waiting_imports.pop(0))
                if not self._waiting_imports:
                    gc.freeze()
        for child in self._children.values():
            os.kill(child.process, signal.SIGKILL)

    def _obey(self) -> bool:
        """Does what the host asks for; false when the host has gone."""
        message, descriptors = messages.receive_value(self._control)
        if message is None:
            return False
        order, call, until, options = message
        if order == "start":
            self._fork(call, options, *descriptors)
        if child := self._children.get(call):
            child.until = until
            if order == "kill":
                os.kill(child.process, signal.SIGKILL)
        return True

    def _fork(self, call: int, options: dict[str, Any], channel: int, status: int) -> None:
        if options["zones"] and not self._files.background:
            self._files.background = read_zones()
        zygote = os.getpid()
        process = os.fork()
        if not process:
            try:
                self._confine_child(zygote, channel, options["limits"])
                run_interpreter(_CHANNEL, self._files)
            except OSError as error:
                messages.write_frame(_CHANNEL, messages.REFUSED, str(error).encode())
            finally:
                os._exit(1)
        os.close(channel)
        self._children[call] = _Child(process, status)

    def _confine_child(self, zygote: int, channel: int, bounds: dict[str, int]) -> None:
        """The child's first steps: from here on it can compute, and speak over its channel."""
        gc.enable()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(channel, _CHANNEL)
        os.closerange(_CHANNEL + 1, os.sysconf("SC_OPEN_MAX"))
        namespaces.die_with_parent(zygote)
        if not ("namespaces" in self.layers and _enter_user_namespace()):
            bounds["NPROC"] += len(self._children) + 1
        if "rlimits" in self.layers:
            namespaces.apply_limits({**bounds, "AS": bounds["AS"] + self._base_bytes})
        if "landlock" in self.layers:
            landlock.Ruleset(landlock.abi_version(), network=False).enter()
        for name in [name for name in sys.modules if name.startswith(("ctypes", "_ctypes", "strands_cli"))]:
            del sys.modules[name]
        if "seccomp" in self.layers:
            seccomp.load_filter(self._filter)

    def _reap(self) -> None:
        while self._children:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            calls = [call for call, child in self._children.items() if child.process == process]
            for call in calls:  # none for what a child left behind, in tests that leave the filter out
                child = self._children.pop(call)
                with suppress(OSError):  # the host has its answer already, and no longer listens
                    os.write(child.status, marshal.dumps((os.waitstatus_to_exitcode(status), child.is_late)))
                os.close(child.status)


def _require_landlock() -> None:
    if not landlock.abi_version():
        raise OSError("the kernel has no Landlock, or it is disabled")


def _enter_user_namespace() -> bool:
    """Moves into a user namespace of its own, where the limit on processes counts nobody else's."""
    if namespaces.LIBC.unshare(namespaces.NEWUSER):
        return False
    namespaces.clear_capabilities()
    return True


def _forget_surroundings() -> None:
    """What is left to see of the machine and of the way that this program was started."""
    system = os.uname()
    os.uname = lambda: os.uname_result((system.sysname, "sandbox", system.release, "", system.machine))
    os.environ.clear()
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]  # else the work of `site`
    _thread.stack_size(_THREAD_STACK_BYTES)
    sys.path[:] = []
    sys.argv[:] = [""]
    sys.executable = ""


def main() -> None:
    """Takes the host's process as its argument, and the control socket as standard input."""
    host = int(sys.argv[1])
    gc.disable()  # what it makes is there to stay; its children collect theirs
    namespaces.die_with_parent(host)
    control = messages.take_standard_input()
    configuration, _ = messages.receive_value(control)
    if configuration is None:
        return
    zygote = Zygote(control, *configuration)
    zygote.confine()
    namespaces.die_with_parent(host)  # again, since becoming somebody else undoes it
    if "namespaces" in zygote.layers:
        if first := os.fork():
            # The kernel kills all that is in the PID namespace when its first process ends.
            control.close()
            os.dup2(0, 2)
            os.waitpid(first, 0)
            return
        namespaces.die_with_parent(0)
    zygote.run()
