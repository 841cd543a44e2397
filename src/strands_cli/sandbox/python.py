"""`run_python`: code that a model wrote, run at the best level of confinement that this machine offers."""

from collections.abc import Mapping

from strands_cli.sandbox.conversation import CallTool, PythonError, PythonOutcome
from strands_cli.sandbox.levels import Level, python_level
from strands_cli.sandbox.profile import ALL_LAYERS, PYTHON_PROFILE, Layer, Profile

__all__ = ["PYTHON_PROFILE", "PythonError", "PythonOutcome", "PythonUnavailable", "run_python"]


class PythonUnavailable(Exception):
    """Code cannot be confined here, so it is not run."""

    def __init__(self, level: Level) -> None:
        super().__init__(f"Python code cannot be confined on this machine: {level.reason}")
        self.level = level


async def run_python(
    code: str,
    *,
    profile: Profile = PYTHON_PROFILE,
    files: Mapping[str, bytes] | None = None,
    session: str = "",
    call_tool: CallTool | None = None,
    _layers: frozenset[Layer] | None = None,
) -> PythonOutcome:
    """Runs the code in a process of its own and answers with what became of it; it never raises for the code.

    With a session, the code sees what earlier code of that session has left. `_layers` is for tests of what
    each layer does alone: it takes the self-test's place.
    """
    if _layers is None:
        level = await python_level()
        if level.name == "interpreter":
            from strands_cli.sandbox.interpreter import run_interpreted

            return await run_interpreted(code, profile, files or {}, session, call_tool)
        if level.name == "disabled":
            raise PythonUnavailable(level)
    from strands_cli.sandbox.running import run_confined, run_in_session

    layers = ALL_LAYERS if _layers is None else _layers
    if session:
        return await run_in_session(session, code, profile, layers, files=files, call_tool=call_tool)
    outcome, _ = await run_confined(code, profile, layers, files, call_tool)
    return outcome
