"""A function as it is declared: its parameters with their types, and which of them the platform fills."""

import inspect
import re
from collections import abc
from collections.abc import Callable, Iterator
from functools import partial
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from strands_cli.errors import Issue, ToolError
from strands_cli.toolkit.structures import UNRESOLVED, Unreadable, unresolved

Function = Callable[..., Any]

NO_DEFAULT: Any = inspect.Parameter.empty


class Parameter(NamedTuple):
    name: str
    type: Any
    default: Any = NO_DEFAULT


class Declaration:
    """ToolError, with the function's place, where it cannot be a tool."""

    def __init__(self, function: Function, context: bool | str) -> None:
        self.plain = _innermost(function)
        self.name = getattr(self.plain, "__name__", type(function).__name__)
        self._hints, self._unresolved = _hints(self.plain)
        self.takes_others = False
        """Whether there is a `**kwargs`, so that arguments without a parameter are welcome."""
        self.context_parameter: str | None = None
        self.agent_parameter: str | None = None
        self.parameters = list(self._read(function, context))
        if isinstance(context, str) and self.context_parameter != context:
            raise self.refused(
                f"it has no parameter {context!r} for its context", f"Add {context}: ToolContext."
            )

    @property
    def result_type(self) -> Any:
        """Any where it is not told, or not in a way that means something here."""
        return self._hints.get("return", Any)

    def refused(self, reason: str, remedy: str) -> ToolError:
        code = getattr(self.plain, "__code__", None)
        file, line = (code.co_filename, code.co_firstlineno) if code else ("", 0)
        issue = Issue(reason=reason, remediation=remedy, file=file, line=line)
        return ToolError(
            f"{self.name} cannot be a tool: {reason}", code="unavailable", hint=remedy, issue=issue
        )

    def refused_parameter(self, parameter: Parameter, error: Unreadable) -> ToolError:
        written = parameter.type
        annotation = written if isinstance(written, str) else inspect.formatannotation(written)
        return self.refused(f"its parameter '{parameter.name}: {annotation}' {error.reason}", error.remedy)

    def _read(self, function: Function, context: bool | str) -> Iterator[Parameter]:
        for index, parameter in enumerate(inspect.signature(function).parameters.values()):
            is_self = index == 0 and parameter.name in ("self", "cls") and not inspect.ismethod(function)
            if is_self or self._is_taken(parameter, context):
                continue
            if parameter.kind is parameter.VAR_KEYWORD:
                self.takes_others = True
                continue
            self._refuse_unnamed(parameter)
            yield _normal(Parameter(parameter.name, self._type(parameter), parameter.default))

    def _refuse_unnamed(self, parameter: inspect.Parameter) -> None:
        """Arguments come by name, so a parameter that only takes a position gets none."""
        if parameter.kind is parameter.VAR_POSITIONAL:
            reason = f"its *{parameter.name} takes arguments that have no name"
            raise self.refused(reason, f"Take a list: {parameter.name}: list[…].")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            reason = f"its parameter {parameter.name!r} is positional-only, and arguments come by name"
            raise self.refused(reason, "Take the '/' out of the signature.")

    def _type(self, parameter: inspect.Parameter) -> Any:
        error = self._unresolved.get(parameter.name)
        if error is None:
            return self._hints.get(parameter.name, Any)
        why = unresolved(error, "names")
        raise self.refused_parameter(Parameter(parameter.name, parameter.annotation), why)

    # --- what the platform fills --------------------------------------------------------------------------

    def _is_taken(self, parameter: inspect.Parameter, context: bool | str) -> bool:
        wanted = "tool_context" if context is True else context
        if parameter.name == wanted or self._is_of_class(parameter, "ToolContext"):
            if self.context_parameter is not None:
                both = f"{self.context_parameter!r} and {parameter.name!r}"
                raise self.refused(f"it has two parameters for its context, {both}", "Keep one of them.")
            self.context_parameter = parameter.name
            return True
        is_untyped = parameter.annotation is parameter.empty
        if parameter.name == "agent" and (is_untyped or self._is_of_class(parameter, "Agent")):
            self.agent_parameter = parameter.name
            return True
        return False

    def _is_of_class(self, parameter: inspect.Parameter, name: str) -> bool:
        """Whether it is annotated with a class of ours or of the SDK, which is not imported to find out."""
        if parameter.name in self._unresolved:  # imported for type checkers only, most likely
            return re.search(rf"\b{name}\b", str(parameter.annotation)) is not None
        return any(
            part.__name__ == name and part.__module__.partition(".")[0] in ("strands", "strands_cli")
            for part in _classes(self._hints.get(parameter.name))
        )


def _innermost(function: Any) -> Any:
    """The function that somebody wrote, under partials, bindings and wrappers."""
    while True:
        if isinstance(function, partial):
            function = function.func
        elif isinstance(function, staticmethod | classmethod) or inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    return function if inspect.isroutine(function) else type(function).__call__


def _hints(function: Any) -> tuple[dict[str, Any], dict[str, Exception]]:
    """The types of the parameters, and why some cannot be told."""
    try:
        return get_type_hints(function, include_extras=True), {}
    except UNRESOLVED:
        pass
    hints: dict[str, Any] = {}
    errors: dict[str, Exception] = {}
    for name, annotation in function.__annotations__.items():
        try:
            hints[name] = _hint(function, name, annotation)
        except UNRESOLVED as error:
            errors[name] = error
    return hints, errors


def _hint(function: Any, name: str, annotation: Any) -> Any:
    def alone() -> None: ...

    alone.__annotations__ = {name: annotation}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    enclosed = {variable: cell.cell_contents for variable, cell in cells if _is_filled(cell)}
    return get_type_hints(alone, function.__globals__, enclosed, include_extras=True)[name]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _classes(annotation: Any) -> Iterator[type]:
    if get_origin(annotation) is Annotated:
        annotation = annotation.__origin__
    yield from (part for part in (annotation, *_members(annotation)) if isinstance(part, type))


def is_union(annotation: Any) -> bool:
    return get_origin(annotation) in (Union, UnionType)


def _members(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if is_union(annotation) else ()


def _normal(parameter: Parameter) -> Parameter:
    """With what `= None`, `= Field(…)` and `Iterable` mean for the type written out."""
    annotation, default = parameter.type, parameter.default
    if annotation is abc.Iterable or get_origin(annotation) is abc.Iterable:
        annotation = list[get_args(annotation) or Any]  # type: ignore[misc]
    if is_pydantic_field(default):
        return Parameter(parameter.name, Annotated[annotation, default], default)
    if default is None and not _takes_none(annotation):
        annotation = _optional(annotation)
    return Parameter(parameter.name, annotation, default)


def is_pydantic_field(default: Any) -> bool:
    """Whether a default is pydantic's `Field(…)`, as models have them and some write for parameters too."""
    kind = type(default)
    return kind.__name__ == "FieldInfo" and kind.__module__.partition(".")[0] == "pydantic"


def _takes_none(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        annotation = annotation.__origin__
    return annotation in (Any, object, type(None)) or type(None) in _members(annotation)


def _optional(annotation: Any) -> Any:
    if get_origin(annotation) is not Annotated:
        return Union[annotation, None]  # noqa: UP007 - not every annotation knows the operator
    # What is said of the parameter goes on being said of the whole of it.
    return Annotated[(_optional(annotation.__origin__), *annotation.__metadata__)]
