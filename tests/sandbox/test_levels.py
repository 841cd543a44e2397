"""What confinement the machine offers, how that is found out, and what is said where it offers less."""

import asyncio
import struct
import subprocess
import sys

import pytest

from strands_cli.sandbox import landlock, seccomp
from strands_cli.sandbox.monty import run_interpreted
from strands_cli.sandbox.profile import ALL_LAYERS, EXECUTABLE_PROFILE, PYTHON_PROFILE, Layer, Profile
from strands_cli.sandbox.python_code import (
    PythonLevel,
    PythonUnavailable,
    python_level_now,
    run_python,
    try_level,
)
from tests.projects import Project

linux = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")


def try_with(*layers: Layer) -> PythonLevel:
    return asyncio.run(try_level(frozenset(layers)))


@linux
def test_the_self_test_finds_the_level_of_this_machine() -> None:
    level = python_level_now()
    assert level.is_confined, level
    assert {"seccomp", "rlimits"} <= level.layers


@linux
@pytest.mark.parametrize(
    ("layers", "name"),
    [
        (("seccomp", "rlimits"), "seccomp"),
        (("seccomp", "rlimits", "landlock"), "seccomp+landlock"),
        (("seccomp", "rlimits", "landlock", "namespaces"), "full"),
    ],
)
def test_each_combination_has_its_name_and_holds(layers: tuple[Layer, ...], name: str) -> None:
    level = try_with(*layers)
    assert level.name == name or level.missing
    assert level.reason == ""


@linux
def test_a_sandbox_that_the_self_test_breaks_out_of_is_not_used() -> None:
    level = try_with("rlimits")
    assert not level.is_confined
    assert "the self-test broke out" in level.reason
    assert "stat" in level.reason


@linux
def test_no_layers_at_all_confine_nothing() -> None:
    assert not try_with().is_confined


@linux
def test_where_code_cannot_be_confined_it_is_refused_with_the_reason() -> None:
    level = PythonLevel(name="disabled", reason="no seccomp", missing={"seccomp": "install libseccomp"})
    assert str(PythonUnavailable(level)) == "Python code cannot be confined on this machine: no seccomp"


@linux
def test_doctor_shows_the_level(project: Project) -> None:
    findings = project.strands("doctor", "--json").json["findings"]
    texts = [finding["text"] for finding in findings if finding["topic"] == "sandbox"]
    assert texts
    assert texts[0].startswith(python_level_now().name)


@linux
@pytest.mark.parametrize("architecture", seccomp.ARCHITECTURES)
def test_the_filter_for_python_allows_no_file_no_socket_and_no_process(architecture: str) -> None:
    text = seccomp.filter_text("python", architecture)
    assert f"filter for arch {architecture}" in text
    assert "# default action\n  action ERRNO(1);" in text
    for name in ("read", "write", "mmap", "mprotect", "futex", "exit_group", "clone", "prlimit64"):
        assert f'syscall "{name}"' in text
    for name in (
        "open",
        "openat",
        "openat2",
        "newfstatat",
        "statx",
        "socket",
        "execve",
        "fork",
        "vfork",
        "kill",
    ):
        assert f'syscall "{name}"' not in text
    for name in ("ptrace", "process_vm_writev", "memfd_create", "io_uring_setup", "bpf", "unshare", "tgkill"):
        assert f'syscall "{name}"' not in text


@linux
@pytest.mark.parametrize("architecture", seccomp.ARCHITECTURES)
def test_memory_can_never_be_made_executable(architecture: str) -> None:
    rules = seccomp.filter_text("python", architecture).split("# filter for syscall ")
    for name in ("mmap", "mprotect"):
        rule = next(rule for rule in rules if rule.startswith(f'"{name}"'))
        assert "$a2.lo32 & 0x00000004 == 0" in rule


@linux
@pytest.mark.parametrize("architecture", seccomp.ARCHITECTURES)
def test_the_filter_for_executables_refuses_sockets_unless_asked(architecture: str) -> None:
    without = seccomp.filter_text("executable", architecture)
    with_network = seccomp.filter_text("executable", architecture, network=True)
    assert 'syscall "socket"' in without
    assert 'syscall "socket"' not in with_network
    for name in ("ptrace", "mount", "bpf", "unshare", "keyctl"):
        assert f'syscall "{name}"' in without
        assert f'syscall "{name}"' in with_network


@linux
def test_the_exported_programs_are_whole_bpf_instructions_that_return() -> None:
    programs = [seccomp.python_filter(name) for name in seccomp.ARCHITECTURES]
    programs += [seccomp.executable_filter(architecture=name) for name in seccomp.ARCHITECTURES]
    for program in programs:
        instructions = list(struct.iter_unpack("=HBBI", program))
        assert 20 < len(instructions) < 4096
        assert instructions[-1][0] == 0x06  # BPF_RET


@linux
def test_landlock_is_asked_for_by_system_call() -> None:
    assert landlock.abi_version() >= 0


def test_limits_come_from_the_profile() -> None:
    limits = Profile(memory_bytes=1000, cpu_seconds=1.2, processes=3, open_files=4, file_bytes=5).rlimits()
    assert limits == {"AS": 1000, "CPU": 2, "NPROC": 3, "NOFILE": 4, "FSIZE": 5, "CORE": 0}
    assert EXECUTABLE_PROFILE.rlimits()["AS"] == EXECUTABLE_PROFILE.address_bytes
    assert {"seccomp", "rlimits"} <= ALL_LAYERS


# --- Where the kernel cannot confine ----------------------------------------------------------------------

ON_WINDOWS = """
import ctypes, importlib, os, signal, sys

names = ["strands_cli.sandbox.python_code", "strands_cli.sandbox.executables", "strands_cli.tools.python_exec"]
for name in names:  # other people's modules are loaded as on this system
    importlib.import_module(name)
for name in [name for name in sys.modules if name.split(".")[0] == "strands_cli"]:
    del sys.modules[name]

def refuse_nameless_library(name, *arguments, **options):
    raise TypeError("Windows has no library without a name")

sys.platform = "win32"
ctypes.CDLL = refuse_nameless_library
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None
for module, missing in {
    os: ("fork", "geteuid", "getuid", "killpg", "pidfd_open", "register_at_fork", "setsid"),
    signal: ("SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGSTOP", "SIGXCPU"),
}.items():
    for name in missing:
        delattr(module, name)

code, executables, _ = map(importlib.import_module, names)
print(code.python_level_now().reason, executables.executables_level().name, sep=", ")
"""


@linux
def test_the_sandbox_can_be_imported_on_windows_and_says_what_is_missing() -> None:
    done = subprocess.run([sys.executable, "-c", ON_WINDOWS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("win32 has no seccomp, unavailable\n", "")


monty = pytest.importorskip("pydantic_monty", reason="the extra 'monty' is not installed")


def test_the_interpreter_answers_like_the_sandbox() -> None:
    code = "print('hi')\nopen('b.txt', 'w').write(open('a.txt').read().upper())\n[1, 2]"
    outcome = asyncio.run(run_interpreted(code, PYTHON_PROFILE, {"a.txt": b"x"}))
    assert (outcome.stdout, outcome.value, outcome.files) == ("hi\n", [1, 2], {"b.txt": b"X"})


def test_the_interpreter_tells_errors_with_their_line() -> None:
    outcome = asyncio.run(run_interpreted("x = 1\nx / 0", PYTHON_PROFILE, {}))
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.line) == ("ZeroDivisionError", 2)


def test_the_interpreter_keeps_the_time_limit() -> None:
    outcome = asyncio.run(run_interpreted("while True: pass", Profile(seconds=0.3), {}))
    assert outcome.timed_out


def test_the_interpreter_calls_tools() -> None:
    async def call(name: str, arguments: dict[str, object]) -> dict[str, object]:
        return {"value": [name, arguments]} if name == "echo" else {"error": {"code": "x", "message": "no"}}

    good = asyncio.run(run_interpreted("call_tool('echo', a=1)", PYTHON_PROFILE, {}, call_tool=call))
    assert good.value == ["echo", {"a": 1}]
    bad = asyncio.run(run_interpreted("call_tool('other')", PYTHON_PROFILE, {}, call_tool=call))
    assert bad.error is not None
    assert bad.error.message == "no"


def test_the_interpreter_has_no_sessions_and_says_so() -> None:
    outcome = asyncio.run(run_interpreted("1", PYTHON_PROFILE, {}, session="s"))
    assert outcome.error is not None
    assert "sessions need confined processes" in outcome.error.message


@linux
def test_layers_are_chosen_by_tests_only() -> None:
    outcome = asyncio.run(run_python("import posix; posix.stat('/')[0] > 0", _layers=frozenset({"rlimits"})))
    assert outcome.value is True
