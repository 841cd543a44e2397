"""What people see while a workflow runs: plain lines, and a live display in real terminals."""

import io
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strands_cli.cli.progress import open_progress
from strands_cli.cli.terminal import (
    bytes_text,
    call_text,
    cell_width,
    clean_text,
    clock_text,
    cut_text,
    duration_text,
    fit_text,
    one_line,
    text_tail,
    tokens_text,
    value_text,
    wrapped_text,
)
from strands_cli.events import (
    ArtifactWritten,
    ContextCompacted,
    Event,
    ModelFinished,
    ModelRetried,
    ModelStarted,
    ModelText,
    RunFinished,
    RunNoticed,
    RunStarted,
    StepFinished,
    StepStarted,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    ToolStderr,
)
from strands_cli.types.run_results import Usage

MODEL = "ollama llama3.2"
RUN: list[Event] = [
    RunStarted("owls", "parallel"),
    StepStarted("branches/0", "habitat", "researcher", MODEL),
    StepStarted("branches/1", "hearing", "researcher", MODEL),
    ModelStarted("branches/0", MODEL),
    ModelText("branches/0", "The owl "),
    ModelRetried("branches/1", 1, 2.0, "429 Too Many Requests"),
    ModelFinished("branches/0", MODEL, 0.4, Usage(400, 100), "tool_use"),
    ToolStarted("search", "1.0.0", "c1", {"query": "owls", "limit": 3}, "branches/0"),
    ToolProgress("search", "c1", "page 2", "branches/0"),
    ToolFinished("search", "1.0.0", "c1", 0.34, 20, step="branches/0"),
    ToolStarted("ask", "1.0.0", "c2", {}, "branches/0"),
    ToolFinished("ask", "1.0.0", "c2", 0.1, 0, "interrupted", step="branches/0"),
    ToolStarted("fetch", "1.0.0", "c3", {"url": "http://x\x1b[2J"}, "branches/0"),
    ToolFinished("fetch", "1.0.0", "c3", 30.0, 20, "timeout", step="branches/0"),
    ContextCompacted("branches/0", 40, 12),
    StepFinished("branches/0", "habitat", "researcher", 75.2, Usage(1000, 234)),
    StepFinished("branches/1", "hearing", "researcher", 3.2, Usage(), "The provider\nis \x1b[31mdown"),
    ArtifactWritten("out/report.md", 12345),
    RunNoticed("The price of this model is not known."),
    RunFinished("failed", 80.0, Usage(1000, 234), "The provider is down"),
]


def told(events: list[Event], *, verbose: bool = False, encoding: str = "utf-8") -> str:
    """What a run with these events says to something that is no terminal."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding=encoding)
    with open_progress(verbose=verbose, stream=stream) as progress:
        for event in events:
            progress(event)
    return written.getvalue().decode(encoding)


# --- Plain lines -------------------------------------------------------------------------------------------


def test_what_an_executable_says_beside_its_answer_is_shown_with_verbose_and_a_refusal_always() -> None:
    events: list[Event] = [
        StepStarted("steps/0", "format", "coder", MODEL),
        ToolStarted("p__t", "1.0.0", "c1", {}, "steps/0"),
        ToolStderr("p__t", "c1", "3 files\nskipped", step="steps/0"),
        ToolStderr("p__t", "c1", "a.js: denied", "It tried to write a.js", step="steps/0"),
        ToolFinished("p__t", "1.0.0", "c1", 0.3, 2, step="steps/0"),
    ]
    quiet, verbose = told(events), told(events, verbose=True)
    assert "3 files" not in quiet
    assert "format: p__t: It tried to write a.js\n" in quiet
    assert "format: p__t: 3 files skipped\n" in verbose
    assert "format: p__t: It tried to write a.js a.js: denied\n" in verbose


def test_something_that_is_no_terminal_gets_a_line_for_each_thing_worth_telling() -> None:
    assert told(RUN) == textwrap.dedent("""\
        owls (parallel)
        habitat: started, researcher, ollama llama3.2
        hearing: started, researcher, ollama llama3.2
        hearing: 429 Too Many Requests, again in 2 s
        habitat: search: page 2
        habitat: search, 340 ms
        habitat: fetch failed [timeout], 30.0 s
        habitat: context compacted from 40 messages to 12
        habitat: done, 1 m 15 s, 1,234 tokens, 2 tool calls
        hearing: failed, 3.2 s, The provider is down
        wrote out/report.md, 12.3 kB
        The price of this model is not known.
        owls: failed, 1 m 20 s, 1,234 tokens, 2 steps, 1 failed, 2 tool calls
    """)


def test_verbose_says_what_tools_are_called_with() -> None:
    lines = told(RUN, verbose=True).splitlines()
    assert 'habitat: search(query="owls", limit=3), 340 ms' in lines
    assert 'habitat: fetch(url="http://x") failed [timeout], 30.0 s' in lines


@pytest.mark.parametrize(
    ("outcome", "line"),
    [
        ("done", "owls: done, 2.0 s, 0 steps"),
        ("budget", "owls: stopped, 2.0 s, over budget, 0 steps"),
        ("paused", "owls: stopped, 2.0 s, paused, 0 steps"),
        ("interrupted", "owls: stopped, 2.0 s, interrupted, 0 steps"),
    ],
)
def test_the_last_line_says_how_the_run_ended(outcome: str, line: str) -> None:
    ended = RunFinished(outcome, 2.0, Usage())  # type: ignore[arg-type]
    assert told([RunStarted("owls", "chain"), ended]).splitlines()[-1] == line


def test_a_step_that_waits_for_a_person_has_not_failed() -> None:
    lines = told(
        [
            RunStarted("owls", "chain"),
            StepStarted("steps/0", "approval", "human"),
            StepFinished("steps/0", "approval", "human", 0.5, Usage(), waiting=True),
            RunFinished("paused", 2.0, Usage()),
        ]
    ).splitlines()
    assert lines[2:] == [
        "approval: stopped, 500 ms, waits for an answer",
        "owls: stopped, 2.0 s, paused, 1 step, 1 waiting",
    ]


def test_questions_and_failures_are_counted_where_they_are_and_not_in_what_they_are_part_of() -> None:
    waiting = [("steps/0/each/0", "ask 1/2"), ("steps/0/each/1", "ask 2/2"), ("steps/0", "ask")]
    part = StepFinished("steps/1/each/0", "say 1/1", "echo", 1.0, Usage(), "The disk is full.")
    whole = StepFinished("steps/1", "say", "", 1.0, Usage(), "The disk is full.", stopped=True)
    lines = told(
        [
            RunStarted("owls", "chain"),
            *(StepFinished(key, title, "human", 0.5, Usage(), waiting=True) for key, title in waiting),
            *(part, whole),
            RunFinished("failed", 2.0, Usage()),
        ]
    ).splitlines()
    assert lines[-3:] == [
        "say 1/1: failed, 1.0 s, The disk is full.",
        "say: stopped, 1.0 s, not finished",
        "owls: failed, 2.0 s, 5 steps, 1 failed, 2 waiting",
    ]


def test_a_silent_run_says_now_and_then_what_its_steps_are_doing() -> None:
    stream = io.StringIO()
    with open_progress(stream=stream, longest_silence=0.05) as progress:
        for event in RUN[:3]:
            progress(event)
        progress(ToolStarted("search", "1.0.0", "c1", {}, "branches/0"))
        deadline = time.monotonic() + 30
        while stream.getvalue().count("hearing: running") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        progress(StepFinished("branches/0", "habitat", "researcher", 1.0, Usage()))
        progress(StepFinished("branches/1", "hearing", "researcher", 1.0, Usage()))
        progress(RunFinished("done", 1.0, Usage()))
    lines = stream.getvalue().splitlines()
    assert any(re.fullmatch(r"habitat: running, .+, calling search", line) for line in lines)
    assert any(re.fullmatch(r"hearing: running, .+, waiting for ollama llama3.2", line) for line in lines)
    assert lines[-1].startswith("owls: done")


def test_what_a_run_costs_is_shown_with_its_tokens() -> None:
    events = [
        *RUN[:2],
        StepFinished("branches/0", "habitat", "researcher", 2.0, Usage(1000, 234, 0.0123)),
        RunFinished("done", 2.0, Usage(1000, 234, 1.5)),
    ]
    assert told(events).splitlines()[-2:] == [
        "habitat: done, 2.0 s, 1,234 tokens, $0.0123",
        "owls: done, 2.0 s, 1,234 tokens, $1.50, 1 step",
    ]


def test_steps_that_never_told_their_end_are_named() -> None:
    started: list[Event] = [
        RunStarted("owls", "chain"),
        StepStarted("steps/0", "habitat", "researcher", MODEL),
    ]
    stopped, ended = told([*started, RunFinished("interrupted", 1.0, Usage())]).splitlines()[2:]
    assert re.fullmatch(r"habitat: stopped, \d+ ms, not finished", stopped)
    assert ended == "owls: stopped, 1.0 s, interrupted, 0 steps"
    (stopped,) = told(started).splitlines()[2:]
    assert re.fullmatch(r"habitat: stopped, \d+ ms, not finished", stopped)


def test_a_step_that_is_answered_at_once_and_calls_of_no_step_are_told() -> None:
    events: list[Event] = [
        StepFinished("steps/0", "habitat", "researcher", 0.0, Usage()),
        ToolStarted("search", "1.0.0", "c1"),
        ToolFinished("search", "1.0.0", "c1", 1.0, 2, "crashed"),
        ToolProgress("search", "c9", "nobody has heard of this call"),
        ModelText("steps/9", "nor of this step"),
    ]
    assert told(events) == "habitat: done, 0 ms\nsearch failed [crashed], 1.0 s\n"


def test_a_tool_that_failed_says_why_and_a_reason_keeps_its_own_period() -> None:
    said = "fetch cannot reach\x1b[2J x.\nTry another."
    finished = ToolFinished("fetch", "1", "c", 1.0, 9, "network", [{"text": said}, {"json": {}}])
    retried = ModelRetried("s", 1, 1.0, "ollama failed (500): boom.")
    assert told([finished, retried]) == (
        "fetch failed: cannot reach x [network], 1.0 s\nollama failed (500): boom, again in 1 s\n"
    )


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_what_an_encoding_cannot_say_is_replaced(encoding: str) -> None:
    shown = told([StepFinished("a", "漢字", "a", 1.0, Usage(), "x" * 500)], encoding=encoding)
    assert shown.startswith("??: failed, 1.0 s, xxx")
    assert shown.rstrip("\r\n").endswith(("xxx...", "xxx…"))


def test_nothing_is_written_while_a_question_stands() -> None:
    stream = io.StringIO()
    with open_progress(stream=stream) as progress:
        with progress.asking():
            for event in RUN[:2]:
                progress(event)
            assert stream.getvalue() == ""
        assert stream.getvalue() == "owls (parallel)\nhabitat: started, researcher, ollama llama3.2\n"


def test_a_reader_that_has_gone_does_not_end_the_run() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    stream = os.fdopen(writer, "w")
    with open_progress(stream=stream) as progress:
        for event in RUN:
            progress(event)
    with pytest.raises(BrokenPipeError):  # what could not be written is still in the buffer
        stream.close()


def test_a_pipe_that_was_full_for_a_while_gets_the_lines_that_come_later() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while os.write(writer, b"." * 4096):
            pass
    with os.fdopen(reader) as pipe:
        with os.fdopen(writer, "w") as stream, open_progress(stream=stream) as progress:
            progress(ArtifactWritten("early.md", 1))
            os.set_blocking(reader, False)
            with suppress(BlockingIOError):
                while os.read(reader, 65536):
                    pass
            progress(ArtifactWritten("late.md", 1))
        assert "wrote late.md" in pipe.read()


def test_a_closed_standard_error_is_borne(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with open_progress() as progress:
        for event in RUN:
            progress(event)


def test_events_from_many_threads_are_counted_once_each() -> None:
    stream = io.StringIO()

    def step(number: int) -> None:
        for turn in range(200):
            call = f"{number}/{turn}"
            progress(ToolStarted("search", "1", call, {}, f"steps/{number}"))
            progress(ToolProgress("search", call, {"page": turn}, f"steps/{number}"))
            progress(ToolFinished("search", "1", call, 0.1, 1, None, None, f"steps/{number}"))
        progress(StepFinished(f"steps/{number}", f"step {number}", "a", 1.0, Usage(1, 1)))

    with open_progress(stream=stream) as progress:
        progress(RunStarted("owls", "parallel"))
        for number in range(8):
            progress(StepStarted(f"steps/{number}", f"step {number}", "a"))
        threads = [Thread(target=step, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        progress(RunFinished("done", 1.0, Usage(8, 8)))
    lines = stream.getvalue().splitlines()
    assert lines[-1] == "owls: done, 1.0 s, 16 tokens, 8 steps, 1600 tool calls"
    assert sum("done, 1.0 s, 2 tokens, 200 tool calls" in line for line in lines) == 8


# --- Texts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("plain", "plain"),
        ("a\x1b[31mred\x1b[0m", "ared"),
        ("a\x1b[2J\x1b[H\x1b[?25lb", "ab"),
        ("a\x1b]0;title\x07b\x1b]8;;http://x\x1b\\c", "abc"),
        ("a\x1b]52;c;cGF5bG9hZA==\x9cb", "ab"),
        ("a\x1b]0;no end", "a0;no end"),
        ("a\x9b31mb\x9d0;x\x07c\x90q\x1b\\d", "abcd"),
        ("a\x1bcb\x1b(0c\x1b", "abc"),
        ("a\x1b\x1b[31m[31mb", "a[31mb"),
        ("cut\x1b[3", "cut"),
        ("a\x08\x07\x00\x7fb", "ab"),
        ("one\r\ntwo\rthree\x0bfour\u2028five\ttab", "one\ntwo\nthree\nfour\nfive\ttab"),
        ("abc\u202ecba\u2066x\u200b\ufeff\U000e0041", "abccbax"),
        ("lone \ud800 surrogate", "lone \ufffd surrogate"),
        ("漢字 é 👩‍👧 \u06cc\u200c", "漢字 é 👩‍👧 \u06cc\u200c"),
    ],
)
def test_nothing_that_acts_on_a_terminal_is_left_of_a_text(hostile: str, harmless: str) -> None:
    assert clean_text(hostile) == harmless


@given(st.text(st.characters(exclude_categories=[])))
def test_no_text_at_all_gets_through(text: str) -> None:
    assert all(letter in "\n\t" or letter.isprintable() or ord(letter) > 0x9F for letter in clean_text(text))
    assert one_line(text).encode().decode() == " ".join(clean_text(text).split())


@given(st.text("ab 漢字é👩\u0301"), st.integers(0, 30))
@example(" 字字字字", 7)
def test_texts_take_the_cells_that_they_are_given(text: str, room: int) -> None:
    assert cell_width(fit_text(text, room)) == room
    assert cell_width(cut_text(text, room, "...")) <= room
    assert cell_width(text_tail(text, room)) <= room
    assert text.endswith(text_tail(text, room))
    assert " ".join(wrapped_text(text, room)) == " ".join(text.split())


def test_a_tail_begins_with_a_word() -> None:
    assert text_tail("the quick brown fox jumps over", 20) == "brown fox jumps over"
    assert text_tail("the quick brown fox jumps over", 18) == "fox jumps over"
    assert text_tail("x" * 100, 10) == "x" * 10
    assert text_tail("漢字漢字", 5) == "漢字"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (
            [duration_text(s) for s in (0, 0.34, 3.21, 59.94, 60, 125, 3725)],
            "0 ms|340 ms|3.2 s|59.9 s|1 m 00 s|2 m 05 s|1 h 02 m",
        ),
        ([clock_text(s) for s in (-1, 0.9, 59.9, 65, 3725)], "0 s|0 s|59 s|1:05|1:02:05"),
        (
            [tokens_text(n) for n in (1, 1234, 999_999, 1_234_567)],
            "1 token|1,234 tokens|999,999 tokens|1.23 M tokens",
        ),
        ([tokens_text(20, about=True)], "~20 tokens"),
        ([bytes_text(n) for n in (0, 999, 1234, 5_000_000, 7_100_000_000)], "0 B|999 B|1.2 kB|5.0 MB|7.1 GB"),
    ],
)
def test_numbers_are_made_for_people(shown: list[str], expected: str) -> None:
    assert "|".join(shown) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"query": 'say "hi"', "limit": 3, "deep": None, "on": True}, 'f(query="say \\"hi\\"", limit=3, deep=null, on=true)'),
        ({"path": "x" * 100}, f'f(path="{"x" * 39}…")'),
        ({"a": [1, [2, [3, [4]]]], "b": {}}, "f(a=[1, [2, [3, […]]]], b={})"),
        ({str(n): n for n in range(1000)}, "f(0=0, 1=1, 2=2, 3=3, 4=4, 5=5, 6=6, 7=7, …)"),
        ({"x": {"k\x1b[1m": 0.5}, "y": object()}, 'f(x={"k": 0.5}, y=object)'),
        ("not an object", 'f("not an object")'),
    ],
)  # fmt: skip
def test_a_call_is_shown_as_it_is_written(arguments: object, expected: str) -> None:
    assert call_text("f", arguments, 50) == expected


def test_a_glance_at_a_huge_value_costs_nothing() -> None:
    huge = {"rows": [{"text": "x" * 1_000_000, "n": 10**5000}] * 1_000_000}
    before = time.process_time()
    assert cell_width(value_text(huge, 60)) <= 60
    assert time.process_time() - before < 0.2


# --- The live display: what is written ---------------------------------------------------------------------

PRELUDE = """
import os, signal, sys, time
from pathlib import Path
from strands_cli.cli.progress import open_progress
from strands_cli.events import *
from strands_cli.types.run_results import Usage

MODEL = "ollama llama3.2"

def until(name):
    end = time.monotonic() + 30
    while not Path(name).exists():
        if time.monotonic() > end:
            sys.exit("nobody came")
        time.sleep(0.01)

def start(n, title, agent="researcher"):
    emit(StepStarted(f"s/{n}", title, agent, MODEL))

def end(n, title, agent="researcher", error=""):
    emit(StepFinished(f"s/{n}", title, agent, 3.2, Usage(1000, 234), error))

"""


def child(script: str, *, head: str = "with open_progress() as emit:\n") -> str:
    return PRELUDE + head + textwrap.indent(textwrap.dedent(script), "    ")


def on_a_terminal(tmp_path: Path, script: str, **env: str) -> tuple[str, str, int]:
    """Runs the script with a pseudo-terminal as standard error: what it got, what standard output got, the code."""
    ours, theirs = pty.openpty()
    given = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", child(script)],
        env=given | {"TERM": "xterm", "PYTHONIOENCODING": "utf-8"} | env,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    got = bytearray()

    def drain() -> None:
        try:
            while piece := os.read(ours, 65536):
                got.extend(piece)
        except OSError:
            pass  # the other side has ended

    reader = Thread(target=drain)
    reader.start()
    out, _ = process.communicate(timeout=40)
    reader.join()
    os.close(ours)
    return got.decode(env.get("PYTHONIOENCODING", "utf-8")), out.decode(), process.returncode


SHORT = """
emit(RunStarted("owls", "chain"))
start(0, "habitat")
for _ in range(60):
    emit(ModelText("s/0", "words "))
    time.sleep(0.01)
end(0, "habitat")
emit(RunFinished("done", 1.0, Usage(1000, 234)))
"""
FRAME = "\x1b[?2026h"


def test_a_terminal_gets_colours_and_calm_frames_and_its_cursor_back(tmp_path: Path) -> None:
    before = time.monotonic()
    shown, out, code = on_a_terminal(tmp_path, SHORT)
    assert (out, code) == ("", 0)
    assert "\x1b[32m✓\x1b[0m habitat" in shown
    assert 1 <= shown.count(FRAME) <= 8 * (time.monotonic() - before) + 1
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert "\x1b[?7h" in shown[shown.rindex("\x1b[?7l") :]


def test_no_color_means_none(tmp_path: Path) -> None:
    shown, _, _ = on_a_terminal(tmp_path, SHORT, NO_COLOR="1")
    assert "✓ habitat" in shown
    assert not any(f"\x1b[{code}m" in shown for code in (0, 1, 2, 31, 32, 33, 36))


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"CI": "true"}])
def test_a_simple_terminal_gets_plain_lines(tmp_path: Path, env: dict[str, str]) -> None:
    shown, _, _ = on_a_terminal(tmp_path, SHORT, **env)
    assert "\x1b" not in shown
    assert "habitat: done, 3.2 s, 1,234 tokens\r\n" in shown


def test_signs_are_ascii_where_the_encoding_has_no_others(tmp_path: Path) -> None:
    shown, _, _ = on_a_terminal(tmp_path, SHORT, PYTHONIOENCODING="latin-1", NO_COLOR="1")
    assert "+ habitat" in shown
    assert any(f"\r\n{sign} habitat" in shown for sign in "|/-\\")
    assert shown.isascii()


def test_columns_stand_where_the_encoding_has_no_wide_characters(tmp_path: Path) -> None:
    script = "emit(RunStarted('owls', 'chain'))\nend(0, '漢字')\nend(1, 'owls')"
    shown, _, _ = on_a_terminal(tmp_path, script, PYTHONIOENCODING="ascii", NO_COLOR="1")
    done = [line for line in shown.split("\r\n") if line.startswith("+ ")]
    assert [line[:6].strip() for line in done] == ["+ ??", "+ owls"]
    assert len({line.index("researcher") for line in done}) == 1


def test_a_signal_leaves_the_cursor_visible(tmp_path: Path) -> None:
    ending = "os.kill(os.getpid(), signal.SIGINT)"
    script = (
        f"emit(RunStarted('owls', 'chain'))\nstart(0, 'habitat')\ntime.sleep(0.5)\n{ending}\ntime.sleep(20)"
    )
    shown, _, code = on_a_terminal(tmp_path, script)
    assert code == -signal.SIGINT
    assert FRAME in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_a_hundred_thousand_pieces_of_text_cost_little(tmp_path: Path) -> None:
    script = """
    emit(RunStarted("owls", "parallel"))
    for n in range(50):
        start(n, f"step {n}")
    pieces = [ModelText(f"s/{n % 50}", "wörds and ") for n in range(100_000)]
    before = time.process_time()
    for piece in pieces:
        emit(piece)
    print(time.process_time() - before)
    """
    _, out, code = on_a_terminal(tmp_path, script)
    assert code == 0
    assert float(out) < 4.0  # a display that painted for each piece would take minutes


# --- The live display: what is seen ------------------------------------------------------------------------


class Terminal:
    """A window of tmux in which a script runs."""

    def __init__(self, script: str, directory: Path, socket: Path, columns: int, lines: int) -> None:
        self._socket = socket
        self.directory = directory
        (directory / "script.py").write_text(script, "utf-8")
        env = ["env", "-u", "CI", "NO_COLOR=1", "PYTHONUTF8=1"]
        window = ["-x", str(columns), "-y", str(lines), "sh"]
        self._tmux("-f", os.devnull, "-u", "new-session", "-d", *window, cwd=directory)
        self.type(" ".join([*env, sys.executable, "script.py", ";", "echo", "code", "$?"]), "Enter")

    def _tmux(self, *arguments: str, cwd: Path | None = None) -> str:
        command = ["tmux", "-S", str(self._socket), *arguments]
        shell = {**os.environ, "SHELL": "/bin/sh"}  # the user's own may let nobody in
        done = subprocess.run(
            command, cwd=cwd, env=shell, capture_output=True, encoding="utf-8", timeout=20, check=True
        )
        return done.stdout

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def allow(self, name: str) -> None:
        (self.directory / name).touch()

    def resize(self, columns: int, lines: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def shows(self) -> list[str]:
        return [line.rstrip() for line in self._tmux("capture-pane", "-p").splitlines()]

    def history(self) -> list[str]:
        return [line.rstrip() for line in self._tmux("capture-pane", "-p", "-S", "-").splitlines()]

    def has_cursor(self) -> bool:
        return self._tmux("display", "-p", "#{cursor_flag}").strip() == "1"

    def title(self) -> str:
        return self._tmux("display", "-p", "#{pane_title}")

    def wait(self, seen: Callable[[list[str]], bool]) -> list[str]:
        """The window once it looks as it should."""
        end = time.monotonic() + 20
        while not seen(lines := self.shows()):
            if time.monotonic() > end:
                pytest.fail("It never came to that:\n" + "\n".join(lines))
            time.sleep(0.05)
        return lines

    def wait_for(self, *texts: str) -> list[str]:
        return self.wait(lambda lines: all(any(text in line for line in lines) for text in texts))

    def close(self) -> None:
        subprocess.run(["tmux", "-S", str(self._socket), "kill-server"], capture_output=True, check=False)


Open = Callable[..., Terminal]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Open]:
    if shutil.which("tmux") is None:
        if os.environ.get("STRANDS_TEST_REQUIRE") == "all":
            pytest.fail("tmux is not installed")
        pytest.skip("tmux is not installed")
    opened: list[Terminal] = []
    with tempfile.TemporaryDirectory(prefix="tmux-") as short:  # a socket's path may not be long

        def open_terminal(script: str, *, columns: int = 100, lines: int = 24) -> Terminal:
            opened.append(Terminal(script, tmp_path, Path(short, "s"), columns, lines))
            return opened[-1]

        yield open_terminal
        for each in opened:
            each.close()


def block(lines: list[str]) -> list[str]:
    """The lines that are painted again and again: from the last empty line to the one of the run."""
    last = max(index for index, line in enumerate(lines) if line.startswith("  owls "))
    first = max((index for index, line in enumerate(lines[:last]) if not line), default=-1)
    return lines[first + 1 : last + 1]


BRANCHES = """
    emit(RunStarted("owls", "parallel"))
    for n, title in enumerate(("habitat", "hearing", "写真を調べる漢字漢字漢字漢字")):
        start(n, title)
        emit(ModelStarted(f"s/{n}", MODEL))
    until("text")
    for n in range(200):
        emit(ModelText("s/0", f"word{n} "))
        emit(ModelText("s/2", "漢字 かな "))
        time.sleep(0.002)
    emit(ModelRetried("s/1", 1, 40.0, "429 Too Many Requests"))
    until("tool")
    emit(ModelFinished("s/0", MODEL, 1.0, Usage(400, 120)))
    emit(ToolStarted("search", "1", "c", {}, "s/0"))
    emit(ToolStarted("fetch", "1", "d", {}, "s/0"))
    emit(ToolProgress("search", "c", "page 2 of 5", "s/0"))
    until("end")
    emit(ToolFinished("search", "1", "c", 1.7, 10, "timeout", None, "s/0"))
    emit(ToolFinished("fetch", "1", "d", 1.7, 10, None, None, "s/0"))
    end(0, "habitat")
    until("rest")
    end(1, "hearing", error="The model gave no answer that could be read as JSON, although it was asked three times.")
    end(2, "写真を調べる漢字漢字漢字漢字")
    emit(ArtifactWritten("out/report.md", 12345))
    emit(RunFinished("done", 12.3, Usage(3000, 702)))
print("The answer.")
"""


def test_three_branches_are_seen_side_by_side_and_nothing_jumps(terminal: Open) -> None:
    window = terminal(PRELUDE + "with open_progress() as emit:" + BRANCHES)
    first = block(window.wait_for("waiting for ollama llama3.2", "3 running"))
    assert [line[2:9] for line in first[:2]] == ["habitat", "hearing"]
    assert re.fullmatch(
        r"researcher         [ \d]\d s                   waiting for ollama llama3.2", first[0][24:]
    )
    assert not window.has_cursor()

    window.allow("text")
    second = block(window.wait_for("word199", "again in"))
    window.allow("tool")
    third = block(window.wait_for("s (+1) page 2 of 5"))
    for rows in (first, second, third):
        assert [line[2:6] for line in rows[:2]] == ["habi", "hear"]
        assert rows[2][2:].startswith("写真を調べる漢字漢…")
        assert len(rows) == 4
        # Each number of seconds ends in the same column; the third title has nine wide characters.
        assert {line.index(" s ", 36) + 9 * ("写" in line) for line in rows if " s " in line[36:]} == {45}
    assert "~" in second[0]
    assert "520 tokens" in third[0]

    window.allow("end")
    lines = window.wait_for("✓ habitat")
    assert lines.index("! habitat               search failed [timeout], 1.7 s") < lines.index(
        "✓ habitat               researcher        3.2 s     1,234 tokens  2 tool calls"
    )
    assert [line[2:6] for line in block(lines)] == ["hear", "写真を調", "owls"]

    window.allow("rest")
    lines = window.wait_for("code 0")
    start = lines.index("owls (parallel)")
    assert [line for line in lines[start : lines.index("code 0") + 1] if line] == [
        "owls (parallel)",
        "↻ hearing               429 Too Many Requests, again in 40 s",
        "! habitat               search failed [timeout], 1.7 s",
        "✓ habitat               researcher        3.2 s     1,234 tokens  2 tool calls",
        "✗ hearing               researcher        3.2 s     1,234 tokens",
        "    The model gave no answer that could be read as JSON, although it was asked three times.",
        "✓ 写真を調べる漢字漢…   researcher        3.2 s     1,234 tokens",
        "• wrote out/report.md, 12.3 kB",
        "✓ owls                                   12.3 s     3,702 tokens  3 steps, 1 failed, 2 tool calls",
        "The answer.",
        "code 0",
    ]
    assert window.has_cursor()


def test_what_models_and_tools_say_cannot_act_on_the_terminal(terminal: Open) -> None:
    script = r"""
    emit(RunStarted("owls\x1b]2;evil\x07", "chain"))
    start(0, "one\x1b[2J")
    start(1, "two", "agent\x1b[H\n\n")
    start(2, "three")
    emit(ToolStarted("tool\x1b[5A", "1", "c", {}, "s/1"))
    emit(ToolProgress("tool", "c", "up\x1b[9A\r\n\n\n", "s/1"))
    for letter in "text \x1b]2;evil\x07\x1b[10A\x1b[2J\x9b2J\r\n\n\nends":
        emit(ModelText("s/0", letter))
    emit(ModelRetried("s/2", 1, 60, "\x1b[3A\x1b[2K429"))
    until("end")
    """
    window = terminal(child(script))
    before = window.title()
    lines = window.wait_for("text ends", " s up", "429, again in 1:00")
    assert [line[2:7].strip() for line in block(lines)] == ["one", "two", "three", "owls"]
    assert "owls (chain)" in lines
    assert window.title() == before
    window.allow("end")
    window.wait_for("code 0")


def test_many_parallel_steps_leave_room_and_are_counted(terminal: Open) -> None:
    script = """
    emit(RunStarted("owls", "parallel"))
    for n in range(50):
        start(n, f"step {n}")
    until("end")
    for n in range(50):
        end(n, f"step {n}")
    emit(RunFinished("done", 1.0, Usage()))
    """
    window = terminal(child(script), lines=20)
    rows = block(window.wait_for("50 running"))
    assert [line[2:9].strip() for line in rows[:16]] == [f"step {n}" for n in range(16)]
    assert rows[16] == "  … and 34 more"
    assert len(rows) == 18
    window.allow("end")
    window.wait_for("code 0")
    done = [line for line in window.history() if line.startswith("✓ step")]
    assert [line[2:10].strip() for line in done] == [f"step {n}" for n in range(50)]


def test_five_hundred_steps_one_after_the_other_leave_a_line_each(terminal: Open) -> None:
    script = """
    emit(RunStarted("owls", "chain"))
    for n in range(500):
        start(n, f"step {n}")
        emit(ModelText(f"s/{n}", "text"))
        time.sleep(0.002)
        end(n, f"step {n}")
    emit(RunFinished("done", 1.0, Usage()))
    """
    window = terminal(child(script))
    window.wait_for("500 steps", "code 0")
    lines = window.history()
    done = [line[2:10].strip() for line in lines if line.startswith("✓ step")]
    assert done == [f"step {n}" for n in range(500)]
    assert not any("running" in line for line in lines)


def test_a_window_may_change_its_size(terminal: Open) -> None:
    script = """
    emit(RunStarted("owls", "parallel"))
    for n in range(6):
        start(n, f"step {n}")
        emit(ModelText(f"s/{n}", "many words " * 20))
    until("end")
    """
    window = terminal(child(script))
    window.wait_for("6 running", "step 5")
    for columns, lines in ((60, 24), (140, 24), (140, 8), (30, 8), (20, 5), (100, 24)):
        window.resize(columns, lines)
        shown = min(6, lines - 4)
        seen = window.wait(lambda got, s=shown, w=columns: _is_whole(got, s, w))  # type: ignore[misc]
        assert all(cell_width(line) <= columns for line in seen)
    window.allow("end")
    window.wait_for("code 0")


def _is_whole(lines: list[str], steps: int, width: int) -> bool:
    if not any(line.startswith("  owls ") for line in lines):
        return False
    rows = [line for line in block(lines) if line[2:6] == "step"]
    fits = width < 100 or all("many words" in line for line in rows)
    return [line[2:8] for line in rows] == [f"step {n}" for n in range(steps)] and fits


def test_a_question_has_the_terminal_to_itself(terminal: Open) -> None:
    script = """
    emit(RunStarted("owls", "chain"))
    start(0, "habitat")
    until("ask")
    with emit.asking(), emit.asking():
        emit(ModelRetried("s/0", 1, 2, "429"))
        answer = input("Run it? ")
    emit(ModelText("s/0", f"You said {answer}"))
    until("end")
    """
    window = terminal(child(script))
    window.wait_for("1 running")
    window.allow("ask")
    lines = window.wait_for("Run it?")
    time.sleep(0.4)
    assert window.shows() == lines
    assert not any("habitat" in line or "running" in line for line in lines)
    assert window.has_cursor()
    window.type("yes", "Enter")
    lines = window.wait_for("Run it? yes", "You said yes", "1 running")
    assert lines.index("Run it? yes") < next(
        n for n, line in enumerate(lines) if line.startswith("↻ habitat")
    )
    window.allow("end")
    window.wait_for("code 0")


def test_ctrl_c_leaves_a_clean_terminal(terminal: Open) -> None:
    script = """
    try:
        with open_progress() as emit:
            emit(RunStarted("owls", "chain"))
            start(0, "habitat")
            time.sleep(20)
    except KeyboardInterrupt:
        print("Interrupted.")
        sys.exit(130)
    """
    window = terminal(PRELUDE + textwrap.dedent(script))
    window.wait_for("1 running")
    window.type("C-c")
    lines = window.wait_for("code 130")
    assert not any("running" in line or "^C" in line for line in lines)
    stopped = next(n for n, line in enumerate(lines) if line.startswith("■ habitat"))
    assert lines[stopped].endswith("not finished")
    assert lines[stopped + 1 : stopped + 3] == ["Interrupted.", "code 130"]
    assert window.has_cursor()


def test_what_others_print_meanwhile_stays(terminal: Open) -> None:
    script = """
    emit(RunStarted("owls", "chain"))
    start(0, "habitat")
    until("print")
    print("A library warns.", file=sys.stderr, flush=True)
    until("end")
    end(0, "habitat")
    emit(RunFinished("done", 1.0, Usage()))
    """
    window = terminal(child(script))
    window.wait_for("1 running")
    window.allow("print")
    window.wait_for("A library warns.", "1 running")
    time.sleep(0.3)
    assert [line[2:6] for line in block(window.shows())] == ["habi", "owls"]
    window.allow("end")
    lines = window.wait_for("code 0")
    start = lines.index("owls (chain)")
    assert lines[start + 1] == "A library warns."
    assert lines[start + 2].startswith("✓ habitat")


def test_a_run_that_is_stopped_and_goes_on_is_painted_again(terminal: Open) -> None:
    script = """
    emit(RunStarted("owls", "chain"))
    start(0, "habitat")
    until("end")
    """
    window = terminal(child(script))
    window.wait_for("1 running")
    window.type("C-z")
    lines = window.wait_for("Stopped")
    assert window.has_cursor()
    assert not any("1 running" in line for line in lines)
    window.type("fg", "Enter")
    window.wait_for("1 running")
    window.allow("end")
    window.wait(lambda lines: any("not finished" in line for line in lines))


# --- Progress of tools, and columns, in windows of 80 and 60 ------------------------------------------------

PAGES = "fetched page 12 of 40 of the catalogue of owls, whose index was written last"


def test_progress_that_comes_often_is_told_once_in_a_while() -> None:
    often: list[Event] = [ToolProgress("search", "c1", f"page {n}", "branches/0") for n in range(500)]
    lines = told([*RUN[:8], *often, *RUN[9:]]).splitlines()
    assert "habitat: search: page 0" in lines
    assert len([line for line in lines if ": page " in line]) < 50


def test_the_progress_of_a_tool_is_seen_whole_at_80_columns(terminal: Open) -> None:
    script = f"""
    emit(RunStarted("owls", "chain"))
    start(0, "habitat")
    emit(ToolStarted("search", "1", "c", {{}}, "s/0"))
    emit(ToolProgress("search", "c", "2 of 5", "s/0"))
    until("long")
    emit(ToolProgress("search", "c", "{PAGES}", "s/0"))
    until("end")
    """
    window = terminal(child(script), columns=80)
    window.wait_for("2 of 5")
    window.allow("long")
    lines = window.wait_for("fetched page 12")
    assert PAGES in " ".join(line.strip() for line in lines)
    window.allow("end")


SEARCH = f'''
import pathlib, time
from strands_cli import ToolContext, tool

@tool
def catalogue(context: ToolContext, subject: str = "owls", kind: str = "all") -> str:
    """Search a catalogue for what it has about a subject, page by page, and answer with all that was found.

    Args:
        subject: What the catalogue is searched for, in one or two words that would be found in its index
    """
    context.progress("{PAGES}")
    while not pathlib.Path("end").exists():
        time.sleep(0.05)
    return "found"
'''


def command(*arguments: str) -> str:
    """A script that runs `strands` in a project with one tool."""
    return (
        "import pathlib, sys\n"
        "pathlib.Path('strands.toml').touch()\n"
        "pathlib.Path('tools').mkdir()\n"
        f"pathlib.Path('tools/catalogue.py').write_text({SEARCH!r})\n"
        f"sys.argv[1:] = {[*arguments]!r}\n"
        "from strands_cli.__main__ import main\n"
        "raise SystemExit(main())\n"
    )


def test_a_call_shows_the_progress_of_its_tool_and_then_only_its_result(terminal: Open) -> None:
    window = terminal(command("tool", "call", "catalogue"), columns=80)
    lines = window.wait_for("catalogue 1 s", "fetched page 12")
    assert PAGES in " ".join(line.strip() for line in lines)
    window.allow("end")
    lines = window.wait_for("code 0")
    assert lines[lines.index("code 0") - 1] == "found"
    assert not any("fetched" in line for line in lines)
    assert window.has_cursor()


@pytest.mark.parametrize("columns", [80, 60])
@pytest.mark.parametrize("arguments", [("tool", "show", "catalogue"), ("list-tools",)])
def test_descriptions_are_shown_whole_and_no_word_is_broken(
    terminal: Open, columns: int, arguments: tuple[str, ...]
) -> None:
    window = terminal(command(*arguments), columns=columns, lines=70)
    seen = " ".join(line.strip() for line in window.wait_for("code 0"))
    described = (
        "Search a catalogue for what it has about a subject, page by page, and answer with all that was found"
    )
    assert described in seen
    if "show" in arguments:
        assert "in one or two words that would be found in its index" in seen
    assert "…" not in seen
