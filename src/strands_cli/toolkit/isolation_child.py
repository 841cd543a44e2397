"""`isolate: process`, the child's side: reads one request, runs one body, writes frames, ends."""

import json
import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import format_exception
from types import ModuleType
from typing import Any

import msgspec

from strands_cli.errors import ToolError, ToolFailed
from strands_cli.events import Event, ToolProgress
from strands_cli.sandbox import process_tree
from strands_cli.toolkit.context import CallContext, ToolContext
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.isolation import MARK, FunctionPlace, IsolatedCall, frame_of
from strands_cli.toolkit.results import error_of, failure_result
from strands_cli.toolkit.values import (
    await_body,
    crash_failure,
    is_tool_result,
    normalise_result,
    plain_json,
    run_body_inline,
    value_of_outcome,
)
from strands_cli.toolkit.workspace import Workspace


def main() -> None:
    process_tree.end_with_host(int(sys.argv[1]), f"{MARK}={os.environ[MARK]}")
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the body prints must not mix with the frames
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]

    def send(message: dict[str, Any]) -> None:
        channel.write(frame_of(message))
        channel.flush()

    def listen(event: Event) -> None:
        if isinstance(event, ToolProgress):
            try:
                data = plain_json(event.data)
            except ToolFailed:  # what has no JSON form becomes text
                data = str(event.data)
            send({"progress": json.dumps(data)})

    request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=IsolatedCall)
    sys.path[:] = [*request.sys_path, *(entry for entry in sys.path if entry not in request.sys_path)]
    roots, allowed = (tuple(map(Path, paths)) for paths in (request.workspace, request.allowed))
    workspace = Workspace(roots, Path(request.base), allowed)
    outer = CallContext(
        emit=listen, workspace=workspace, invocation_state=request.invocation_state, key=request.key
    )
    answer = _run_isolated_call(request, outer)
    with suppress(AttributeError, OSError, ValueError):  # whatever the body has made of it
        sys.stdout.flush()  # the host ends this process as soon as it has the answer
    send(answer)


def _run_isolated_call(request: IsolatedCall, outer: CallContext) -> dict[str, Any]:
    try:
        tool = _find_tool(request.place)
        call = json.loads(request.call)
        value = value_of_outcome(run_body_inline(tool, call["input"], ToolContext(tool, call, outer)), tool)
        if tool.is_async:
            import asyncio

            value = value_of_outcome(asyncio.run(await_body(value)), tool)
        if isinstance(value, dict) and is_tool_result(value):
            value = normalise_result(str(value.get("toolUseId", "")), value)
        elif not isinstance(value, bytes):
            value = plain_json(value)
        try:
            return {"json": json.dumps(value)}
        except TypeError:  # it has bytes in it
            return {"value": value}
    except ToolFailed as failed:
        return _failure_frame(failed, failed.__cause__ if failed.code == "crashed" else None)
    except ToolError as error:
        return {"failed": json.dumps({"message": error.message, "code": error.code, "hint": error.hint})}
    except BaseException as error:  # noqa: BLE001 - importing its module and encoding its value run its code too
        return _failure_frame(crash_failure(error), error)


def _failure_frame(failed: ToolFailed, crash: BaseException | None) -> dict[str, Any]:
    frame = {"failed": json.dumps(error_of(failure_result("", failed)))}
    return frame | ({"traceback": "".join(format_exception(crash))} if crash is not None else {})


def _find_tool(place: FunctionPlace) -> Tool:
    attribute = getattr(_import_function_module(place), place.name)
    if isinstance(attribute, Tool):
        return attribute
    from strands_cli.toolkit.decorator import tool_from_function

    module = sys.modules[attribute.__module__]
    return tool_from_function(attribute, module.TOOL_SPEC)


def _import_function_module(place: FunctionPlace) -> ModuleType:
    if place.package and place.package not in sys.modules and place.package.startswith("_strands_tools_"):
        package = ModuleType(place.package)
        package.__path__ = place.package_path
        sys.modules[place.package] = package
    if place.module != "__main__":
        return import_module(place.module)
    # The host's script, under another name so that what it does as a program is not done again.
    spec = spec_from_file_location("__strands_host__", place.file)
    if spec is None or spec.loader is None:
        raise ToolError(f"{place.file} cannot be imported", code="unavailable")
    module = module_from_spec(spec)
    sys.modules["__strands_host__"] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
