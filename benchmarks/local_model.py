"""How well the embedded model calls tools, and how fast it is.

    python benchmarks/local_model.py --half test --design steps grammar scoring
    python benchmarks/local_model.py --echo
    python benchmarks/local_model.py --speed

Every prompt is played to its end: calls are made with the real native tools in a directory of their own, or
answered by the canned tools of `local_prompts`, and the model goes on until it answers in words. Design
`steps` is what `strands` uses; the others are what it was chosen over.
"""

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import local_prompts as data
import msgspec
from measuring import Row

from strands_cli import call_tool
from strands_cli.providers.local.decisions import (
    Decision,
    LocalAnswer,
    LocalCall,
    LocalTurn,
    arguments_grammar,
    next_answer,
)
from strands_cli.providers.local.engine import (
    DECISIONS,
    Completion,
    Engine,
    OnText,
    Sampling,
    engine_for,
    thread_count,
)
from strands_cli.providers.local.model import LocalModel
from strands_cli.providers.local.prompts import CALL_OPENING, ToolEntry, chat_with_tools, schema_of
from strands_cli.providers.local.weights import weights_file
from strands_cli.toolkit.context import CallContext
from strands_cli.toolkit.workspace import Workspace
from strands_cli.tools import get_registry

ROUNDS = 4
SAMPLING = Sampling(max_tokens=160)
SYSTEM_PROMPT = "You are a helpful assistant."
ECHO_PROMPT = """You are a helpful assistant. When asked to echo a message,
use the echo tool to return it unchanged.
"""

Design = Callable[[Engine, LocalTurn, OnText], LocalAnswer]


# --- The designs --------------------------------------------------------------------------------------------


def _whole_prompt(engine: Engine, turn: LocalTurn) -> str:
    return engine.render(chat_with_tools(turn.messages, turn.system, turn.tools, engine.persona))


def grammar_design(engine: Engine, turn: LocalTurn, heard: OnText) -> LocalAnswer:
    """One grammar for a call of any tool or free text; the tools stay in the prompt until the end."""
    calls, rules = [], []
    for number, spec in enumerate(turn.tools):
        opening = f'{CALL_OPENING}{spec["name"]}", "arguments": '
        calls.append(f"{json.dumps(opening)} a{number}")
        body = arguments_grammar({"additionalProperties": False, **schema_of(spec)}).split("start: ")[1]
        rules.append(f"a{number}: {body}")
    grammar = (
        "%llguidance {}\nstart: " + " | ".join([*calls, r"/[^\s`{<\[](.|\n)*/"]) + "\n" + "\n".join(rules)
    )
    written = engine.complete(_whole_prompt(engine, turn), turn.sampling, grammar=grammar, slot=DECISIONS)
    if not written.text.startswith(CALL_OPENING):
        heard(written.text)
        return LocalAnswer(None, (written,))
    name, _, arguments = written.text.removeprefix(CALL_OPENING).partition('", "arguments": ')
    try:
        call = LocalCall(name, json.loads(arguments))
    except ValueError:
        return LocalAnswer(None, (written,))
    return _unless_made(engine, turn, heard, call, [written])


def scoring_design(engine: Engine, turn: LocalTurn, heard: OnText) -> LocalAnswer:
    """The opening decides between a call and text; the likeliest whole name is the tool."""
    prompt = _whole_prompt(engine, turn)
    decision = Decision(engine, turn)
    if not decision.wants_call(prompt, turn.request):
        decision.done.append(engine.complete(prompt, turn.sampling, heard))
        return LocalAnswer(None, tuple(decision.done))
    best = max(turn.tools, key=lambda spec: _likelihood(engine, prompt + CALL_OPENING, spec["name"] + '"'))
    decision.turn = msgspec.structs.replace(turn, tools=[best])
    call = decision.draft_call(prompt, turn.request)
    return _unless_made(engine, turn, heard, call, decision.done)


def _unless_made(
    engine: Engine, turn: LocalTurn, heard: OnText, call: LocalCall | None, done: list[Completion]
) -> LocalAnswer:
    """The call, or text where the same call was made before."""
    if call is not None and call not in turn.calls:
        return LocalAnswer(call, tuple(done))
    done.append(engine.complete(_whole_prompt(engine, turn), turn.sampling, heard, slot=DECISIONS))
    return LocalAnswer(None, tuple(done))


def _likelihood(engine: Engine, prompt: str, text: str) -> float:
    """The sum of the log-probabilities of a text's tokens, by making the model write it."""
    request = {
        "prompt": prompt,
        "max_tokens": 24,
        "temperature": 0,
        "logprobs": 1,
        "id_slot": DECISIONS,
        "grammar": f"%llguidance {{}}\nstart: {json.dumps(text)}",
    }
    answer = engine._server.handle_completions(request)
    return sum(token["logprob"] for token in answer["choices"][0]["logprobs"]["content"] if token["bytes"])


DESIGNS: dict[str, Design] = {
    "steps": next_answer,
    "grammar": grammar_design,
    "scoring": scoring_design,
}


# --- Playing a prompt ---------------------------------------------------------------------------------------


class Played(msgspec.Struct):
    calls: list[LocalCall]
    answer: str
    seconds: float


class Stage:
    """The tools, in a directory with the files that the prompts speak of."""

    def __init__(self, root: Path) -> None:
        for name, text in data.FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, "utf-8")
        self._context = CallContext(workspace=Workspace(roots=(root,), base=root), permit=_permit)
        self._native = {name: get_registry().load(name) for name in data.NATIVE}
        native = [
            {"name": tool.id, "description": tool.description, "inputSchema": {"json": tool.input_schema}}
            for tool in self._native.values()
        ]
        self.specs: list[ToolEntry] = native + data.SPECS

    def call(self, call: LocalCall) -> dict[str, Any]:
        if call.name not in self._native:
            return {"status": "success", "content": [{"text": data.answer_of(call.name, call.arguments)}]}
        use = {"toolUseId": "1", "name": call.name, "input": call.arguments}
        result: dict[str, Any] = asyncio.run(call_tool(self._native[call.name], use, self._context))
        return result

    def play(
        self, engine: Engine, design: Design, text: str, system: str = "", only: str | None = None
    ) -> Played:
        started = time.monotonic()
        messages: list[Any] = [{"role": "user", "content": [{"text": text}]}]
        tools = [spec for spec in self.specs if only in (None, spec["name"])]
        calls: list[LocalCall] = []
        for number in range(ROUNDS):
            heard: list[str] = []
            turn = LocalTurn(messages=messages, system=system, tools=tools, sampling=SAMPLING)
            move = design(engine, turn, lambda piece, heard=heard: bool(heard.append(piece)))  # type: ignore[misc]
            if move.call is None:
                return Played(calls, "".join(heard), time.monotonic() - started)
            calls.append(move.call)
            messages += _round(str(number), move.call, self.call(move.call))
        return Played(calls, "", time.monotonic() - started)


async def _permit(tool: Any, arguments: dict[str, Any]) -> None:
    """All is allowed here."""


def _round(number: str, call: LocalCall, result: dict[str, Any]) -> list[Any]:
    use = {"toolUseId": number, "name": call.name, "input": call.arguments}
    answer = {"toolUseId": number, "status": result["status"], "content": result["content"]}
    return [
        {"role": "assistant", "content": [{"toolUse": use}]},
        {"role": "user", "content": [{"toolResult": answer}]},
    ]


# --- Judging ------------------------------------------------------------------------------------------------


def _plain(value: object) -> str:
    return re.sub(r"\s+", " ", str(value)).strip().strip("\"'").rstrip(".").lower()


def fits(wanted: Any, got: Any, stage: Stage) -> bool:
    if isinstance(wanted, data.OneOf):
        return any(got is None if value is None else fits(value, got, stage) for value in wanted.values)
    if got is None:
        return False
    if isinstance(wanted, data.Contains):
        return _plain(wanted.text) in _plain(got)
    if isinstance(wanted, data.Evaluates):
        result = stage.call(LocalCall("calculator", {"expression": str(got)}))
        return (
            result["status"] == "success" and abs(float(result["content"][0]["text"]) - wanted.value) < 1e-6
        )
    return wanted == got if isinstance(wanted, int) else _plain(wanted) == _plain(got)


def is_right(wanted: data.Expected, call: LocalCall, stage: Stage) -> bool:
    if wanted.tool != call.name:
        return False
    schema = schema_of(next(spec for spec in stage.specs if spec["name"] == call.name))
    defaults = {name: part.get("default") for name, part in schema.get("properties", {}).items()}
    unasked = [name for name in call.arguments if name not in wanted.arguments]
    asked = all(fits(value, call.arguments.get(name), stage) for name, value in wanted.arguments.items())
    return asked and all(call.arguments[name] == defaults.get(name) for name in unasked)


class Judged(msgspec.Struct):
    prompt: str
    kind: str
    played: Played
    tool: bool
    arguments: bool
    answer: bool
    finished: bool
    """All the calls in their order, no more than one beside them, and the right answer."""


def judge(prompt: data.Prompt, played: Played, stage: Stage) -> Judged:
    calls, wanted = played.calls, prompt.calls
    answer = not prompt.answer or any(text.lower() in played.answer.lower() for text in prompt.answer)
    answer = answer and bool(played.answer.strip())
    left = list(calls)
    in_order = all(any(is_right(step, left.pop(0), stage) for _ in list(left)) for step in wanted)
    return Judged(
        prompt=prompt.text,
        kind=prompt.kind,
        played=played,
        tool=bool(calls) and bool(wanted) and calls[0].name == wanted[0].tool,
        arguments=bool(calls) and bool(wanted) and is_right(wanted[0], calls[0], stage),
        answer=answer,
        finished=in_order and answer and len(calls) <= len(wanted) + bool(wanted),
    )


def rates(judged: list[Judged]) -> dict[str, str]:
    """What the table in the docs shows."""

    def share(kind: str, what: str) -> str:
        ones = [getattr(one, what) for one in judged if one.kind == kind]
        return f"{sum(ones)}/{len(ones)}"

    seconds = sorted(one.played.seconds for one in judged)
    return {
        "one-tool: right tool": share("one-tool", "tool"),
        "one-tool: and right arguments": share("one-tool", "arguments"),
        "one-tool: right answer": share("one-tool", "answer"),
        "two-step: finished": share("two-step", "finished"),
        "no-tool: left alone": f"{sum(not one.played.calls for one in judged if one.kind == 'no-tool')}"
        f"/{sum(one.kind == 'no-tool' for one in judged)}",
        "median seconds": f"{seconds[len(seconds) // 2]:.1f}" if seconds else "-",
    }


# --- Commands -----------------------------------------------------------------------------------------------


def run_design(engine: Engine, stage: Stage, name: str, half: str, kinds: list[str]) -> list[Judged]:
    judged = []
    for prompt in data.PROMPTS:
        if prompt.half == half and prompt.kind in kinds:
            one = judge(prompt, stage.play(engine, DESIGNS[name], prompt.text, SYSTEM_PROMPT), stage)
            judged.append(one)
            print(_line(one), flush=True)
    return judged


def _line(one: Judged) -> str:
    facts = (one.tool, one.arguments, one.answer, one.finished)
    marks = "".join(letter if fact else "-" for letter, fact in zip("tawf", facts, strict=True))
    calls = "; ".join(
        f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}" for call in one.played.calls
    )
    return (
        f"{marks} {one.played.seconds:5.1f}s {one.kind} | {one.prompt} | {calls} | {one.played.answer[:90]!r}"
    )


def run_echo(engine: Engine, stage: Stage) -> int:
    """How many of the messages come back verbatim, as the demo's artifact would hold them."""
    verbatim = 0
    for message in data.ECHOED:
        played = stage.play(engine, next_answer, f"Echo this message: {message}", ECHO_PROMPT, "echo")
        good = message in played.answer and [call.name for call in played.calls] == ["echo"]
        verbatim += good
        print(f"{'ok ' if good else 'NO '} {message!r} -> {played.calls} {played.answer!r}", flush=True)
    return verbatim


def run_speed(engine: Engine, tokens: int = 100) -> dict[str, float]:
    """Seconds for a streamed answer, as llama.cpp counts them for itself and as the SDK waits for them."""
    model = LocalModel(engine.file, sampling=Sampling(max_tokens=tokens), threads=thread_count())
    taken: list[float] = []
    complete = engine.complete

    def counted(*arguments: Any, **more: Any) -> Completion:
        done = complete(*arguments, **more)
        taken.append(done.seconds)
        return done

    engine.complete = counted  # type: ignore[method-assign]
    waited = [asyncio.run(_waited(model)) for _ in range(4)]
    engine.complete = complete  # type: ignore[method-assign]
    return {"llama.cpp": sum(taken[1:]), "ours": sum(waited[1:]), "memory": _memory_mb()}


async def _waited(model: LocalModel) -> float:
    started = time.monotonic()
    text: Any = [{"role": "user", "content": [{"text": "Count from one to two hundred, in words."}]}]
    async for _ in model.stream(text):
        pass
    return time.monotonic() - started


def _memory_mb() -> float:
    status = Path("/proc/self/status").read_text("utf-8")
    return int(re.search(r"VmHWM:\s+(\d+)", status).group(1)) / 1024  # type: ignore[union-attr]


def measure() -> Iterator[Row]:
    engine = engine_for(weights_file(None), thread_count())
    speed = run_speed(engine)
    ratio = speed["ours"] / speed["llama.cpp"]
    yield Row("three answers of 100 tokens", speed["ours"], "s", "llama.cpp's own time", ratio, 1.1)
    yield Row("memory at its peak", speed["memory"], "MB", "1 GB", speed["memory"] / 1000, 1)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=[data.TUNING, data.TEST], default=data.TUNING)
    parser.add_argument("--design", nargs="*", choices=sorted(DESIGNS), default=["steps"])
    parser.add_argument("--kind", nargs="*", default=["one-tool", "two-step", "no-tool"])
    parser.add_argument("--model", help="a catalogue name, or the path of a GGUF file")
    parser.add_argument("--echo", action="store_true", help="the echo demo's messages instead")
    parser.add_argument("--speed", action="store_true", help="speed and memory instead")
    asked = parser.parse_args(arguments)
    engine = engine_for(weights_file(asked.model), thread_count())
    with tempfile.TemporaryDirectory() as directory:
        stage = Stage(Path(directory).resolve())
        if asked.speed:
            print(run_speed(engine))
        elif asked.echo:
            print(f"verbatim: {run_echo(engine, stage)} of {len(data.ECHOED)}")
        else:
            for name in asked.design:
                judged = run_design(engine, stage, name, asked.half, asked.kind)
                print(name, asked.half, json.dumps(rates(judged), indent=1), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
