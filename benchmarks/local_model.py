"""How fast the embedded model is, against llama.cpp's own time, and how much memory it takes.

    make bench ARGS=local_model

How well it calls tools is evaluated by `local_evals/`, with `make local-table`.
"""

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measuring import Row

from strands_cli.providers.local.engine import Completion, Engine, Sampling, engine_for, thread_count
from strands_cli.providers.local.model import LocalModel
from strands_cli.providers.local.weights import weights_file


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
