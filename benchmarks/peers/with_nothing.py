"""The floor: the least that gives the same, written by hand."""

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import Any, get_type_hints

import jsonschema_rs
from worker import NAP_SECONDS, NAPS, serve

KINDS = {int: "integer", bool: "boolean"}


def make(function: Callable[..., Any]) -> tuple[Callable[..., Any], Any]:
    """Reads the signature, writes the schema and compiles it; pydantic writes that of a model."""
    hints = get_type_hints(function)
    inspect.signature(function)
    inspect.getdoc(function)
    hints.pop("return")
    parts = {name: _schema(hint) for name, hint in hints.items()}
    schema = {"type": "object", "properties": parts, "required": list(parts), "additionalProperties": False}
    return function, jsonschema_rs.validator_for(schema)


def _schema(hint: Any) -> Any:
    if hint in KINDS:
        return {"type": KINDS[hint]}
    schema = hint.model_json_schema()
    definitions = schema.pop("$defs")
    for item in definitions.values():
        schema["properties"]["items"]["items"] = item
    return schema


async def call(tool: tuple[Callable[..., Any], Any], arguments: dict[str, int]) -> Any:
    """Validates; a function gets a thread, and a coroutine a task and a timer."""
    function, validator = tool
    validator.is_valid(arguments)
    if not inspect.iscoroutinefunction(function):
        return await asyncio.to_thread(function, **arguments)
    loop = asyncio.get_running_loop()
    task = loop.create_task(function(**arguments))
    timer = loop.call_later(30, task.cancel)
    try:
        return await task
    finally:
        timer.cancel()


async def naps(is_async: bool) -> None:
    if is_async:
        await asyncio.gather(*(asyncio.sleep(NAP_SECONDS) for _ in range(NAPS)))
        return
    threads = [threading.Thread(target=time.sleep, args=(NAP_SECONDS,)) for _ in range(NAPS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


serve(make=make, call=call, naps=naps)
