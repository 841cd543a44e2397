"""Running code in a confined process, once or in a session, over the death of a zygote."""

import asyncio
import os
from collections.abc import Mapping

import msgspec

from strands_cli.sandbox.conversation import CallTool, Conversation, PythonOutcome
from strands_cli.sandbox.launcher import Child, NoZygote, Zygote, ZygoteLost, zygotes
from strands_cli.sandbox.profile import Layer, Profile
from strands_cli.sandbox.sessions import Sessions

_TRIES = 3
_SESSION_CPU_SECONDS = 600.0
_sessions = Sessions()


async def run_confined(
    code: str,
    profile: Profile,
    layers: frozenset[Layer],
    files: Mapping[str, bytes] | None = None,
    call_tool: CallTool | None = None,
    *,
    parks: bool = True,
) -> tuple[PythonOutcome, Zygote]:
    """The outcome of code in a process of its own, and the zygote that made the process.

    Where the zygote dies under it, the code runs again, unless it has called a tool by then. `parks` says
    whether a process for the next call is made ahead.
    """
    for attempt in range(_TRIES):
        child = await _take(code, profile, layers)
        conversation = Conversation(child, profile, call_tool)
        try:
            return await conversation.run(code, files or {}, session=False), child.zygote
        except ZygoteLost:
            if conversation.outcome.calls or attempt == _TRIES - 1:
                raise
        finally:
            child.end()
            if parks:
                child.zygote.park(profile.rlimits())
    raise ZygoteLost


async def run_in_session(
    name: str,
    code: str,
    profile: Profile,
    layers: frozenset[Layer],
    *,
    files: Mapping[str, bytes] | None = None,
    call_tool: CallTool | None = None,
) -> PythonOutcome:
    """The outcome of code that sees what earlier code of the session has left.

    A process that was killed takes its session with it; the next call begins a new one.
    """
    lasting = msgspec.structs.replace(profile, cpu_seconds=_SESSION_CPU_SECONDS)
    for _ in range(_TRIES):
        session = await _sessions.take(name, lambda: _take(code, lasting, layers))
        session.child.arm(profile.seconds)
        conversation = Conversation(session.child, profile, call_tool)
        lives = False
        try:
            outcome = await conversation.run(code, files or {}, session=True)
            lives = outcome.is_whole
            outcome.new_session = session.is_new
            return outcome
        except ZygoteLost:
            if conversation.outcome.calls:
                raise
        finally:
            (_sessions.give_back if lives else _sessions.end)(session)
    raise ZygoteLost


async def _take(code: str, profile: Profile, layers: frozenset[Layer]) -> Child:
    for _ in range(_TRIES):
        try:
            zygote = await asyncio.wrap_future(zygotes().get(layers))
        except (OSError, NoZygote) as error:
            raise ZygoteLost(f"it cannot be started: {error}") from None
        try:
            return zygote.take(profile.rlimits(), profile.seconds, zones="zoneinfo" in code)
        except ZygoteLost:
            continue
    raise ZygoteLost


def end_sessions() -> None:
    _sessions.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_sessions.forget)  # they are the parent's
