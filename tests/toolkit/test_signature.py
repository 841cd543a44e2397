"""Schemas and typed arguments from annotations and docstrings."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import InitVar, dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from functools import partial, wraps
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr, create_model, field_validator
from pydantic.dataclasses import dataclass as pydantic_dataclass
from typing_extensions import Doc, TypeAliasType

from strands_cli.errors import ToolError, ToolFailed
from strands_cli.schema.validator import Validator
from strands_cli.toolkit.arguments import fit_arguments, shape_of
from strands_cli.toolkit.context import ToolContext
from strands_cli.toolkit.contract import closed_schema
from strands_cli.toolkit.decorator import tool
from strands_cli.toolkit.signature import Signature, read_signature
from strands_cli.toolkit.values import normalise_result, plain_answer
from tests.exploring import examples

# --- Types to declare -------------------------------------------------------------------------------------


class Color(Enum):
    RED = "red"
    GREEN = "green"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Ratio(Enum):
    HALF = 0.5
    ALL = 1.5


class Planet(Enum):
    EARTH = (5.9e24, 6.3e6)


@dataclass
class Point:
    """A place on the plane.

    Attributes:
        x: How far to the right
    """

    x: int
    y: Annotated[float, "How far up"] = 0.0
    visits: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x must not be negative")


@dataclass
class Line:
    start: Point
    more: list[Point] = field(default_factory=list)
    color: Color = Color.RED


@dataclass
class Circle:
    radius: Annotated[float, msgspec.Meta(gt=0)]


@dataclass(frozen=True)
class Fixed:
    items: list[int]


@dataclass
class Tree:
    value: int
    children: "list[Tree]" = field(default_factory=list)


@dataclass
class Shifted:
    x: int
    by: InitVar[int] = 0

    def __post_init__(self, by: int) -> None:
        self.x += by


T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    item: T
    others: list[T] = field(default_factory=list)


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Labelled(TypedDict, Generic[T]):
    label: str
    content: T


class Booking(TypedDict, total=False):
    day: Required[date]
    note: str


class Pair(NamedTuple):
    count: int
    label: str = "none"


class Person(msgspec.Struct, rename="camel"):
    first_name: str
    age: Annotated[int, msgspec.Meta(ge=0)] = 18


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    tricks: list[str]


class Row(msgspec.Struct, array_like=True):
    name: str
    amount: int = 1


class User(BaseModel):
    name: str = Field(alias="userName", description="How to call them")
    age: int = 18
    born: datetime | None = None

    @field_validator("age")
    @classmethod
    def _is_plausible(cls, age: int) -> int:
        if age > 150:
            raise ValueError("nobody is that old")
        return age


class Team(BaseModel):
    lead: User
    members: list[User] = []


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int


class Careless(BaseModel):
    model_config = ConfigDict(extra="ignore")
    x: int


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date
    sizes: tuple[int, ...] = ()


class Login(BaseModel):
    user: str
    password: SecretStr = SecretStr("hunter2")


@pydantic_dataclass
class Checked:
    even: Annotated[int, Field(multiple_of=2)]


@dataclass
class Mixed:
    user: User
    where: Point | None = None


UserId = NewType("UserId", int)
Names = TypeAliasType("Names", list[str])
Json = TypeAliasType("Json", int | str | list["Json"] | dict[str, "Json"])  # type: ignore[misc]

# --- Reading one parameter --------------------------------------------------------------------------------

MISSING: Any = object()


def signature_of(annotation: Any, default: Any = MISSING) -> Signature:
    return read_signature(body_with(annotation, default))


def body_with(annotation: Any, default: Any = MISSING) -> Callable[..., Any]:
    def body(value):  # type: ignore[no-untyped-def]
        return value

    if annotation is not MISSING:
        body.__annotations__ = {"value": annotation}
    if default is not MISSING:
        body.__defaults__ = (default,)
    return body


def property_of(signature: Signature, name: str = "value") -> dict[str, Any]:
    return signature.input_schema["properties"][name]


def arguments_of(signature: Signature, sent: dict[str, Any]) -> dict[str, Any]:
    """What the platform hands to the body: validated, completed, converted."""
    accepted = Validator(closed_schema(signature.input_schema))
    shape = shape_of(signature.input_schema)
    arguments = fit_arguments(sent, accepted)
    arguments = shape.complete(arguments) if shape else arguments
    return signature.convert(arguments) if signature.convert else arguments


def received(annotation: Any, sent: Any = MISSING, default: Any = MISSING) -> Any:
    body = body_with(annotation, default)
    return body(**arguments_of(read_signature(body), {} if sent is MISSING else {"value": sent}))


def refusal(annotation: Any, sent: Any) -> ToolFailed:
    with pytest.raises(ToolFailed) as caught:
        received(annotation, sent)
    assert caught.value.code == "input_invalid"
    assert "pydantic" not in caught.value.message
    return caught.value


# --- What the body receives -------------------------------------------------------------------------------

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)

ACCEPTED: list[tuple[Any, Any, Any]] = [
    (str, "a", "a"),
    (int, 5, 5),
    (int, 5.0, 5),
    (float, 5, 5),
    (float, 5.5, 5.5),
    (bool, True, True),
    (None, None, None),
    (Any, {"a": [1]}, {"a": [1]}),
    (object, "a", "a"),
    (MISSING, [1], [1]),
    (list, [1, "a"], [1, "a"]),
    (list[int], [1, 2.0], [1, 2]),
    (list[str], ["a"], ["a"]),
    (Sequence[str], ["a"], ["a"]),
    (Iterable[int], [1.0], [1]),
    (Iterable, [1], [1]),
    (dict, {"a": 1}, {"a": 1}),
    (dict[str, int], {"a": 1.0}, {"a": 1}),
    (dict[str, Any], {"a": None}, {"a": None}),
    (dict[int, str], {"-5": "a"}, {-5: "a"}),
    (dict[Color, int], {"red": 1}, {Color.RED: 1}),
    (dict[Literal["a", "b"], str], {"a": "x"}, {"a": "x"}),
    (Mapping[str, float], {"a": 1.5}, {"a": 1.5}),
    (tuple, [1, "a"], (1, "a")),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2], (1, 2)),
    (set, [1, 2], {1, 2}),
    (set[str], ["a"], {"a"}),
    (frozenset[int], [1], frozenset({1})),
    (AbstractSet[str], ["a"], {"a"}),
    (Literal["a", "b"], "b", "b"),
    (Literal["a", "b"], "B", "b"),
    (Literal[1, None, "x"], None, None),
    (Literal[True], True, True),
    (Color, "green", Color.GREEN),
    (Color, "GREEN", Color.GREEN),
    (Level, 2, Level.HIGH),
    (Ratio, 0.5, Ratio.HALF),
    (int | None, None, None),
    (int | None, 5.0, 5),
    (Optional[str], "a", "a"),  # noqa: UP045 - it is a form of its own
    (Union[int, str], "5", "5"),  # noqa: UP007
    (int | float | str, 1.5, 1.5),
    (UserId, 7.0, 7),
    (Names, ["a"], ["a"]),
    (Json, [1, {"a": ["b"]}], [1, {"a": ["b"]}]),
    (T, 1, 1),
    (datetime, "2026-01-31T12:00:00Z", NOON),
    (datetime, "2026-01-31T12:00:00", NOON.replace(tzinfo=None)),
    (date, "2026-01-31", date(2026, 1, 31)),
    (time, "12:30:00", time(12, 30)),
    (timedelta, "PT1H30M", timedelta(hours=1.5)),
    (timedelta, "-PT0.5S", timedelta(seconds=-0.5)),
    (UUID, "00000000-0000-0000-0000-000000000005", UUID(int=5)),
    (Decimal, "1.10", Decimal("1.10")),
    (Decimal, 1.5, Decimal("1.5")),
    (Path, "a/b", Path("a/b")),
    (Path | None, "a", Path("a")),
    (list[Path], ["a"], [Path("a")]),
    (bytes, "aGk=", b"hi"),
    (Annotated[int, msgspec.Meta(ge=1)], 1, 1),
    (Annotated[int, Field(ge=1)], 1, 1),
    (Point, {"x": 1}, Point(1)),
    (Point, {"x": 1.0, "y": 2}, Point(1, 2.0)),
    (Point | None, None, None),
    (Line, {"start": {"x": 1}}, Line(Point(1))),
    (
        Line,
        {"start": {"x": 1}, "more": [{"x": 2}], "color": "green"},
        Line(Point(1), [Point(2)], Color.GREEN),
    ),
    (list[Point], [{"x": 1}, {"x": 2}], [Point(1), Point(2)]),
    (dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
    (Tree, {"value": 1, "children": [{"value": 2}]}, Tree(1, [Tree(2)])),
    (Box[int], {"item": 1.0, "others": [2]}, Box(1, [2])),
    (Box[Person], {"item": {"firstName": "Ada"}}, Box(Person("Ada"))),
    (Labelled[date], {"label": "x", "content": "2026-01-31"}, {"label": "x", "content": date(2026, 1, 31)}),
    (Box[Box[date]], {"item": {"item": "2026-01-31"}}, Box(Box(date(2026, 1, 31)))),
    (Shifted, {"x": 1, "by": 2}, Shifted(3)),
    (Point | Circle, {"radius": 1}, Circle(1.0)),
    (Point | Circle, {"x": 1}, Point(1)),
    (Point | dict[str, Any], {"z": 1}, {"z": 1}),
    (Point | dict[str, Any], {"x": 1}, Point(1)),
    (Movie, {"title": "Alien"}, {"title": "Alien"}),
    (Movie, {"title": "Alien", "year": 1979.0}, {"title": "Alien", "year": 1979}),
    (Booking, {"day": "2026-01-31"}, {"day": date(2026, 1, 31)}),
    (Pair, [1], Pair(1)),
    (Pair, [1, "one"], Pair(1, "one")),
    (Person, {"firstName": "Ada"}, Person("Ada")),
    (Cat | Dog, {"type": "Dog", "tricks": ["roll"]}, Dog(["roll"])),
    (Row, ["a"], Row("a")),
    (User, {"userName": "Ada"}, User(userName="Ada")),
    (User, {"userName": "Ada", "born": "2026-01-31T12:00:00Z"}, User(userName="Ada", born=NOON)),
    (Team, {"lead": {"userName": "Ada"}}, Team(lead=User(userName="Ada"))),
    (list[User], [{"userName": "Ada"}], [User(userName="Ada")]),
    (User | Point, {"x": 1}, Point(1)),
    (Open, {"x": 1, "y": 2}, Open(x=1, y=2)),
    (Careless, {"x": 1, "y": 2}, Careless(x=1)),
    (Strict, {"day": "2026-01-31", "sizes": [1]}, Strict(day=date(2026, 1, 31), sizes=(1,))),
    (RootModel[list[int]], [1, 2], RootModel[list[int]]([1, 2])),
    (Checked, {"even": 2}, Checked(2)),
    (Mixed, {"user": {"userName": "Ada"}, "where": {"x": 1}}, Mixed(User(userName="Ada"), Point(1))),
]


@pytest.mark.parametrize(("annotation", "sent", "expected"), ACCEPTED)
def test_the_body_receives_what_it_declared(annotation: Any, sent: Any, expected: Any) -> None:
    value = received(annotation, sent)
    assert value == expected
    assert type(value) is type(expected)


REFUSED: list[tuple[Any, Any, str]] = [
    (str, 5, "/value"),
    (int, True, "/value"),
    (int, 5.5, "/value"),
    (int, "five", "/value"),
    (float, True, "/value"),
    (bool, 1, "/value"),
    (None, 0, "/value"),
    (list[int], [1, True], "/value/1"),
    (list[list[int]], [[1], ["a"]], "/value/1/0"),
    (dict[str, int], {"a": "x"}, "/value/a"),
    (dict[int, str], {"x": "a"}, "/value"),
    (tuple[int, str], [1], "/value"),
    (tuple[int, str], [1, 2], "/value/1"),
    (tuple[int, str], [1, "a", 2], "/value"),
    (set, [1, [2]], "/value/1"),
    (set[str], ["a", "a"], "/value"),
    (Literal["a", "b"], "c", "/value"),
    (Literal[1, 2], True, "/value"),
    (Color, "blue", "/value"),
    (Color, "RED ", "/value"),
    (Level, 3, "/value"),
    (int | None, "x", "/value"),
    (UserId, True, "/value"),
    (Json, 1.5, "/value"),
    (datetime, "tomorrow", "/value"),
    (datetime, "2026-13-01T00:00:00Z", "/value"),
    (date, "2026-02-30", "/value"),
    (time, "25:00:00", "/value"),
    (timedelta, "P1Y", "/value"),
    (UUID, "x", "/value"),
    (Decimal, "nonsense", "/value"),
    (Path, 5, "/value"),
    (bytes, "!!", "/value"),
    (Annotated[int, msgspec.Meta(ge=1)], 0, "/value"),
    (Annotated[str, msgspec.Meta(min_length=2)], "a", "/value"),
    (Annotated[list[int], msgspec.Meta(max_length=1)], [1, 2], "/value"),
    (Annotated[int, Field(ge=1)], 0, "/value"),
    (Annotated[int, Field(ge=1)] | None, 0, "/value"),
    (list[Annotated[int, Field(ge=1)]], [1, 0], "/value/1"),
    (Point, {}, "/value/x"),
    (Point, {"x": 1, "z": 2}, "/value/z"),
    (Point, {"x": 1, "visits": 2}, "/value/visits"),
    (Point, {"x": -1}, "/value"),
    (Line, {"start": {"x": True}}, "/value/start/x"),
    (Line, {"start": {"x": 1}, "more": [{"x": 1}, {"x": -1}]}, "/value/more/1"),
    (Tree, {"value": 1, "children": [{"value": 2, "childs": []}]}, "/value/children/0/childs"),
    (Box[int], {"item": "x"}, "/value/item"),
    (Point | Circle, {"x": -1}, "/value"),
    (Point | Circle, 5, "/value"),
    (Point | Circle, {"radius": 0}, "/value/radius"),
    (Movie, {"year": 1979}, "/value/title"),
    (Movie, {"title": "Alien", "yaer": 1979}, "/value/yaer"),
    (Booking, {"note": "x"}, "/value/day"),
    (Pair, ["a"], "/value/0"),
    (Pair, {"count": 1}, "/value"),
    (Person, {"first_name": "Ada", "firstName": "Ada"}, "/value/first_name"),
    (Person, {"firstName": "Ada", "age": -1}, "/value/age"),
    (User, {"userName": "Ada", "age": 200}, "/value/age"),
    (User, {"userName": "Ada", "born": "2026-13-01T00:00:00Z"}, "/value/born"),
    (User, {"name": "Ada", "userName": "Ada"}, "/value/name"),
    (Team, {"lead": {"userName": "Ada"}, "members": [{"userName": "B", "age": 151}]}, "/value/members/0/age"),
    (dict[str, User], {"a/b": {"userName": "Ada", "age": 200}}, "/value/a~1b/age"),
    (Open, {"x": "a"}, "/value/x"),
    (Checked, {"even": 3}, "/value/even"),
    (Mixed, {"user": {"userName": "Ada"}, "when": 1}, "/value/when"),
    (Mixed, {"user": {"userName": "Ada"}, "where": {"x": -1}}, "/value/where"),
]


@pytest.mark.parametrize(("annotation", "sent", "pointer"), REFUSED)
def test_what_does_not_fit_is_refused_with_its_place(annotation: Any, sent: Any, pointer: str) -> None:
    failed = refusal(annotation, sent)
    assert failed.details[0]["pointer"] == pointer
    assert failed.details[0].keys() == {"pointer", "expected", "got", "hint"}


TOLD: list[tuple[Any, Any, str]] = [
    (Point, {"x": -1}, "x must not be negative"),
    (User, {"userName": "Ada", "age": 200}, "nobody is that old"),
    (Point | Circle, {"x": -1}, "x must not be negative"),
]


@pytest.mark.parametrize(("annotation", "sent", "words"), TOLD)
def test_a_type_s_own_objection_is_told_in_its_own_words(annotation: Any, sent: Any, words: str) -> None:
    failed = refusal(annotation, sent)
    assert failed.message.startswith(f"Invalid input: /value{'/age' if annotation is User else ''}: {words}")
    assert [detail["expected"] for detail in failed.details] == [words]


def test_all_that_pydantic_objects_to_is_told_at_once() -> None:
    def invite(host: User, guest: User) -> None: ...

    old = {"userName": "A", "age": 200}
    with pytest.raises(ToolFailed) as caught:
        arguments_of(read_signature(invite), {"host": old, "guest": old})
    assert [detail["pointer"] for detail in caught.value.details] == ["/host/age", "/guest/age"]


PLAIN = [str, int, float, bool, None, Any, list, list[str], dict, dict[str, Any], Literal["a"], str | None]
PLAIN += [
    Annotated[int, "a number"],
    Sequence[str],
    dict[str, list[bool]],
    Annotated[str, msgspec.Meta(pattern="a")],
]


@pytest.mark.parametrize("annotation", PLAIN)
def test_plain_json_is_not_converted(annotation: Any) -> None:
    assert signature_of(annotation).convert is None


# --- Schemas ----------------------------------------------------------------------------------------------


def weather_forecast(city: str, days: int = 3) -> str:
    """Get weather forecast for a city.

    Args:
        city: The name of the city
        days: Number of days for the forecast
    """
    return f"Weather forecast for {city} for the next {days} days..."


def test_a_small_function_says_all_a_tool_needs() -> None:
    read = read_signature(weather_forecast)
    assert read.description == "Get weather forecast for a city."
    assert read.input_schema == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "The name of the city"},
            "days": {"type": "integer", "description": "Number of days for the forecast", "default": 3},
        },
        "required": ["city"],
    }
    assert read.output_schema == {"type": "string"}
    assert (read.convert, read.context_parameter, read.agent_parameter) == (None, None, None)


def test_a_dataclass_is_a_closed_object_with_its_docstring() -> None:
    schema = signature_of(Line).input_schema
    assert schema["properties"]["value"] == {"$ref": "#/$defs/Line"}
    assert schema["$defs"]["Point"] == {
        "type": "object",
        "description": "A place on the plane.",
        "properties": {
            "x": {"type": "integer", "description": "How far to the right"},
            "y": {"type": "number", "description": "How far up", "default": 0.0},
        },
        "required": ["x"],
        "additionalProperties": False,
    }
    assert schema["$defs"]["Line"]["properties"]["color"]["default"] == "red"


def test_two_types_of_one_name_are_told_apart() -> None:
    inner = make_dataclass("Point", [("z", str)])

    def both(one: Point, other: inner, third: create_model("Point", q=(int, ...))) -> None: ...  # type: ignore[valid-type]

    read = read_signature(both)
    assert set(read.input_schema["$defs"]) == {"Point", "Point_2", "pydantic.Point"}
    made = arguments_of(read, {"one": {"x": 1}, "other": {"z": "a"}, "third": {"q": 1}})
    assert (made["one"], made["other"].z, made["third"].q) == (Point(1), "a", 1)


@pytest.mark.parametrize(
    ("annotation", "description"),
    [
        (Annotated[str, "Annotated says"], "Annotated says"),
        (Annotated[int, msgspec.Meta(description="Meta says")], "Meta says"),
        (Annotated[int, Field(description="Field says")], "Field says"),
        (Annotated[str, Doc("Doc says")], "Doc says"),
        (Annotated[str | None, "Annotated says"], "Annotated says"),
        (str, "The docstring says"),
        (Annotated[User, "Annotated says"], "Annotated says"),
        (Annotated[int, "Annotated says", Field(ge=1)], "Annotated says"),
        (Annotated[Point | Circle, "Annotated says"], "Annotated says"),
        (User, "The docstring says"),
        (Point, "The docstring says"),
    ],
)
def test_what_is_annotated_wins_over_the_docstring(annotation: Any, description: str) -> None:
    body = body_with(annotation)
    body.__doc__ = "Do it.\n\nArgs:\n    value: The docstring says"
    assert property_of(read_signature(body))["description"] == description


def test_a_definition_stays_unmarked_by_what_is_said_of_a_parameter() -> None:
    def both(one: Annotated[Point, "The first"], other: Point) -> None: ...

    read = read_signature(both)
    assert property_of(read, "one") == {"$ref": "#/$defs/Point", "description": "The first"}
    assert property_of(read, "other") == {"$ref": "#/$defs/Point"}
    assert read.input_schema["$defs"]["Point"]["description"] == "A place on the plane."


STYLES = {
    "google": "Move it.\n\nMore words.\n\nArgs:\n    far (int): How far,\n        in metres\n    fast: How fast",
    "numpy": "Move it.\n\nParameters\n----------\nfar : int\n    How far, in metres\nfast : int\n    How fast\n",
    "sphinx": "Move it.\n\n:param int far: How far, in\n    metres\n:param fast: How fast\n:returns: nothing",
}


@pytest.mark.parametrize("style", STYLES)
def test_docstrings_of_every_style_describe_parameters(style: str) -> None:
    def move(far: int, fast: int) -> None: ...

    move.__doc__ = STYLES[style]
    read = read_signature(move)
    assert read.description == "Move it."
    assert property_of(read, "far")["description"] == "How far, in metres"
    assert property_of(read, "fast")["description"] == "How fast"


@pytest.mark.parametrize(
    ("text", "description"),
    [
        (None, ""),
        ("One\n    line.", "One line."),
        ("Args:\n    value: x", ""),
        ("Do it.\nArgs:\n    value: x", "Do it."),
        ("Do it.\n\nReturns:\n    Nothing.", "Do it."),
        ("  \n", ""),
    ],
)
def test_the_first_paragraph_is_the_description(text: str | None, description: str) -> None:
    body = body_with(str)
    body.__doc__ = text
    assert read_signature(body).description == description


def test_the_section_of_parameters_decides_the_style() -> None:
    body = body_with(str)
    body.__doc__ = "Do it.\n\nArgs:\n    value: What.\n\n:note: one\n:other: two\n:third: three\n"
    assert property_of(read_signature(body))["description"].startswith("What.")


def test_a_docstring_that_only_looks_like_one_is_prose() -> None:
    body = body_with(str)
    body.__doc__ = "Do it.\n\nArgs:\n"
    assert property_of(read_signature(body)) == {"type": "string"}


# --- Defaults ---------------------------------------------------------------------------------------------

DEFAULTS: list[tuple[Any, Any, Any]] = [
    (int, 3, 3),
    (float, 1, 1),
    (float, None, None),
    (list[str], [], []),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (set[str], {"a"}, ["a"]),
    (Color, Color.GREEN, "green"),
    (date, date(2026, 1, 31), "2026-01-31"),
    (Decimal, Decimal("1.5"), "1.5"),
    (Path, Path("a"), "a"),
    (Point, Point(1), {"x": 1, "y": 0.0}),
    (Pair, Pair(1), [1, "none"]),
    (User, User(userName="Ada"), {"userName": "Ada"}),
    (Point | Circle, Circle(2.0), {"radius": 2.0}),
    (Any, {"a": 1}, {"a": 1}),
]


@pytest.mark.parametrize(("annotation", "default", "told"), DEFAULTS)
def test_a_default_is_told_in_json_and_received_as_declared(annotation: Any, default: Any, told: Any) -> None:
    read = signature_of(annotation, default)
    assert property_of(read)["default"] == told
    assert read.input_schema["required"] == []
    value = received(annotation, default=default)
    assert (value, type(value)) == (default, type(default))


UNTOLD: list[tuple[Any, Any]] = [
    (str, object()),
    (str, 5),
    (int, True),
    (float, float("inf")),
    (date, "someday"),
    (Point, Circle(1.0)),
    (Login, Login(user="Ada")),
    (Any, Point(1)),
    (Any, (1, 2)),
    (list[str], ()),
]


@pytest.mark.parametrize(("annotation", "default"), UNTOLD[:6] + UNTOLD[7:])
def test_a_default_that_json_would_change_is_the_function_s_own(annotation: Any, default: Any) -> None:
    read = signature_of(annotation, default)
    assert "default" not in property_of(read)
    assert read.input_schema["required"] == []
    assert received(annotation, default=default) == default


def test_a_secret_in_a_default_is_not_told() -> None:
    default = Login(user="Ada", password=SecretStr("swordfish"))
    read = signature_of(Login, default)
    assert "default" not in property_of(read)
    assert received(Login, default=default).password.get_secret_value() == "swordfish"


@pytest.mark.parametrize("default", [[1], {1, 2}, {"a": (1,)}, Point(1), Person("Ada"), Fixed([1])])
def test_calls_do_not_share_a_default(default: Any) -> None:
    first, second = received(Any, default=default), received(Any, default=default)
    assert first == second == default
    assert first is not second
    assert first is not default


@pytest.mark.parametrize("annotation", [float, str, Point, User, Annotated[float, "How far"]])
def test_a_default_of_none_makes_a_parameter_nullable(annotation: Any) -> None:
    assert received(annotation, None, default=None) is None
    assert received(annotation, default=None) is None
    refused = refusal(annotation, None)  # without the default it is not
    assert refused.details[0]["pointer"] == "/value"


def test_a_field_of_pydantic_may_stand_as_a_default() -> None:
    assert received(int, default=Field(3, ge=1)) == 3
    assert received(list[int], default=Field(default_factory=lambda: [1])) == [1]
    assert signature_of(int, Field(ge=1)).input_schema["required"] == ["value"]
    assert property_of(signature_of(int, Field(3, ge=1, description="Many"))) == {
        "type": "integer",
        "minimum": 1,
        "description": "Many",
        "default": 3,
    }


def test_a_field_s_default_of_another_type_is_left_to_its_class() -> None:
    careless = make_dataclass("Careless", [("name", str, None), ("size", int, "big"), ("where", Point, None)])
    assert received(careless, {}) == careless()


def test_a_model_still_tells_which_of_its_fields_were_sent() -> None:
    assert received(User, {"userName": "Ada"}).model_dump(exclude_unset=True) == {"name": "Ada"}


# --- Parameters that are not in the schema ----------------------------------------------------------------


def names_in(signature: Signature) -> list[str]:
    return list(signature.input_schema["properties"])


def test_the_context_is_known_by_its_annotation() -> None:
    def plain(text: str, ctx: ToolContext) -> None: ...
    def optional(text: str, ctx: ToolContext | None = None) -> None: ...
    def quoted(text: str, ctx: "ToolContext") -> None: ...
    def unknown_here(text: str, ctx: "nowhere.ToolContext") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for function in (plain, optional, quoted, unknown_here):
        read = read_signature(function)
        assert (read.context_parameter, names_in(read)) == ("ctx", ["text"])


def test_the_sdk_s_context_and_agent_are_known_too() -> None:
    from strands import Agent
    from strands.types.tools import ToolContext as SdkContext

    def ask(text: str, ctx: SdkContext, agent: Agent) -> None: ...

    read = read_signature(ask)
    assert (read.context_parameter, read.agent_parameter, names_in(read)) == ("ctx", "agent", ["text"])


def test_the_context_is_known_by_its_name_where_one_is_asked_for() -> None:
    def ask(text: str, tool_context, mine=None) -> None: ...  # type: ignore[no-untyped-def]

    assert read_signature(ask).context_parameter is None
    assert names_in(read_signature(ask, context=True)) == ["text", "mine"]
    assert read_signature(ask, context=True).context_parameter == "tool_context"
    assert read_signature(ask, context="mine").context_parameter == "mine"
    with pytest.raises(ToolError, match="no parameter 'other' for its context"):
        read_signature(ask, context="other")


def test_a_function_has_one_context() -> None:
    def ask(one: ToolContext, other: ToolContext) -> None: ...

    with pytest.raises(ToolError, match="two parameters for its context, 'one' and 'other'"):
        read_signature(ask)


def test_an_agent_with_a_type_of_its_own_is_an_ordinary_parameter() -> None:
    def hire(agent: str) -> None: ...
    def ask(agent, text: str) -> None: ...  # type: ignore[no-untyped-def]

    assert names_in(read_signature(hire)) == ["agent"]
    assert (read_signature(ask).agent_parameter, names_in(read_signature(ask))) == ("agent", ["text"])


class Database:
    def query(self, sql: str, rows: int = 10) -> dict[str, Any]:
        """Run a SQL query.

        Args:
            sql: The SQL query to execute
        """
        return {"sql": sql, "rows": rows}

    @classmethod
    def connect(cls, url: str) -> None: ...

    @staticmethod
    def quote(text: str) -> str:
        return text


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (Database.query, ["sql", "rows"]),
        (Database().query, ["sql", "rows"]),
        (Database.connect, ["url"]),
        (Database.__dict__["connect"].__func__, ["url"]),
        (Database.quote, ["text"]),
        (partial(Database().query, rows=5), ["sql", "rows"]),
        (wraps(weather_forecast)(lambda *_args, **_kwargs: ""), ["city", "days"]),
    ],
)
def test_methods_partials_and_wrappers_show_what_a_caller_fills(function: Any, names: list[str]) -> None:
    assert names_in(read_signature(function)) == names


def test_keyword_only_parameters_and_others_are_taken() -> None:
    def save(*, path: str, **others: Any) -> dict[str, Any]:
        return {"path": path, **others}

    read = read_signature(save)
    assert read.input_schema["additionalProperties"] is True
    assert save(**arguments_of(read, {"path": "a", "mode": "w"})) == {"path": "a", "mode": "w"}


def test_arguments_without_a_parameter_are_kept_beside_converted_ones() -> None:
    def save(day: date, **others: Any) -> None: ...

    assert arguments_of(read_signature(save), {"day": "2026-01-31", "x": 1}) == {
        "day": date(2026, 1, 31),
        "x": 1,
    }


# --- The functions of the SDK's page ----------------------------------------------------------------------


def calculate_area(shape: str, radius: float = None, width: float = None, height: float = None) -> float:  # type: ignore[assignment]  # noqa: RUF013
    """Calculate area of a shape."""
    return 3.14159 * radius**2 if shape == "circle" else width * height


def fetch_data(source_id: str) -> dict:  # type: ignore[type-arg]
    """Fetch data from a specified source.

    Args:
        source_id: Identifier for the data source
    """
    return {"status": "success", "content": [{"json": source_id}]}


async def call_api() -> str:
    """Call API asynchronously."""
    return "API result"


def get_self_name(tool_context: ToolContext) -> str:
    return f"The agent name is {tool_context.agent.name}"


async def search_web(query: str, max_results: int = 10) -> str:
    """Search the web for information.

    Args:
        query: The search query
        max_results: Maximum number of results (default: 10)

    Returns:
        Search results as text
    """
    return "search results"


NULLABLE = {"anyOf": [{"type": "number"}, {"type": "null"}], "default": None}
TEXT = {"type": "string"}
SDK_PAGE: list[tuple[Callable[..., Any], str, dict[str, Any], dict[str, Any] | None]] = [
    (
        calculate_area,
        "Calculate area of a shape.",
        {"shape": TEXT, "radius": NULLABLE, "width": NULLABLE, "height": NULLABLE},
        {"type": "number"},
    ),
    (
        fetch_data,
        "Fetch data from a specified source.",
        {"source_id": {**TEXT, "description": "Identifier for the data source"}},
        None,
    ),
    (call_api, "Call API asynchronously.", {}, TEXT),
    (get_self_name, "", {}, TEXT),
    (
        search_web,
        "Search the web for information.",
        {
            "query": {**TEXT, "description": "The search query"},
            "max_results": {
                "type": "integer",
                "description": "Maximum number of results (default: 10)",
                "default": 10,
            },
        },
        TEXT,
    ),
]


@pytest.mark.parametrize(("function", "description", "properties", "output"), SDK_PAGE)
def test_the_functions_of_the_sdk_s_page_are_read(
    function: Callable[..., Any], description: str, properties: dict[str, Any], output: dict[str, Any] | None
) -> None:
    read = read_signature(function, context=True)
    assert (read.description, read.input_schema["properties"]) == (description, properties)
    assert read.output_schema == output


# --- What cannot be a tool --------------------------------------------------------------------------------


def takes_many(*paths: str) -> None: ...
def takes_places(path: str, /) -> None: ...


class Opaque: ...


UNREADABLE: list[tuple[Any, str, str]] = [
    (Opaque, "has no JSON Schema", "dataclasses"),
    (list[Opaque], "has no JSON Schema", "dataclasses"),
    (Callable[[int], int], "has no JSON Schema", "dataclasses"),
    (type[int], "JSON does not have", "Literal"),
    (Iterator[int], "while the body runs", "list"),
    (Planet, "JSON does not have", "strings or numbers"),
    (Literal[Color.RED], "members of an enum", "Literal of its values"),
    ([int], "which is not a type", "list"),
    ("Nowhere", "names 'Nowhere', which is not defined", "top level"),
    ("list[Nowhere]", "names 'Nowhere', which is not defined", "top level"),
    ("int +", "names something that is not a type", "top level"),
    (make_dataclass("Lost", [("x", "Nowhere")]), "uses Lost, which names 'Nowhere'", "top level"),
    (Movie | User, "typing_extensions", "Import TypedDict from typing_extensions"),
]


@pytest.mark.parametrize(("annotation", "reason", "remedy"), UNREADABLE)
def test_a_type_that_cannot_be_read_is_refused_with_a_remedy(
    annotation: Any, reason: str, remedy: str
) -> None:
    if annotation == Movie | User and sys.version_info >= (3, 12):
        pytest.skip("from 3.12 on, pydantic reads the TypedDict of typing")
    with pytest.raises(ToolError) as caught:
        signature_of(annotation)
    error = caught.value
    assert error.code == "unavailable"
    assert error.message.startswith("body cannot be a tool: its parameter 'value: ")
    assert reason in error.message
    assert "errors.pydantic.dev" not in error.message
    assert remedy in error.hint
    with pytest.raises(ToolError) as placed:
        tool(body_with(annotation))
    issue = placed.value.issue
    assert issue is not None
    assert Path(issue.file).name == "test_signature.py"
    assert issue.line == body_with(int).__code__.co_firstlineno


def test_of_several_parameters_the_culprit_is_named() -> None:
    def mixed(first: Person, good: User, bad: Opaque) -> None: ...

    with pytest.raises(ToolError, match="its parameter 'bad: "):
        read_signature(mixed)


@pytest.mark.parametrize(
    ("function", "reason"), [(takes_many, r"its \*paths takes"), (takes_places, "'path' is positional-only")]
)
def test_arguments_come_by_name(function: Callable[..., Any], reason: str) -> None:
    with pytest.raises(ToolError, match=reason):
        read_signature(function)


POSTPONED = """
from __future__ import annotations
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, NotRequired, Required, TypedDict
if TYPE_CHECKING:
    from strands import Agent, ToolContext
    from somewhere import Something

@dataclass
class Stay:
    since: date
    guest: Guest | None = None

class Guest(TypedDict):
    name: str
    stays: NotRequired[list[Stay]]

class Filter(TypedDict, total=False):
    day: Required[date]
    note: str

def book(stay: Stay, guest: Guest, filter: Filter, agent: Agent, ctx: ToolContext) -> Something: ...
def make():
    @dataclass
    class Local:
        x: int
    def inner(local: Local) -> Local: return Local(1)
    return inner
"""


def test_annotations_that_are_strings_are_resolved() -> None:
    module: dict[str, Any] = {"__name__": "postponed"}
    sys.modules["postponed"] = type(sys)("postponed")
    sys.modules["postponed"].__dict__.update(module)
    try:
        exec(compile(POSTPONED, "postponed.py", "exec"), sys.modules["postponed"].__dict__)
        namespace = vars(sys.modules["postponed"])
        read = read_signature(namespace["book"])
        assert (read.context_parameter, read.agent_parameter, read.output_schema) == ("ctx", "agent", None)
        stay = {"since": "2026-01-31", "guest": {"name": "Ada"}}
        sent = {"stay": stay, "guest": {"name": "A", "stays": [stay]}, "filter": {"day": "2026-01-31"}}
        made = arguments_of(read, sent)
        expected = namespace["Stay"](date(2026, 1, 31), {"name": "Ada"})
        assert made["stay"] == expected
        assert made["guest"] == {"name": "A", "stays": [expected]}
        assert made["filter"] == {"day": date(2026, 1, 31)}
        assert names_in(read_signature(namespace["make"]())) == ["local"]
    finally:
        del sys.modules["postponed"]


# --- Results ----------------------------------------------------------------------------------------------


class Report(BaseModel):
    name: str = Field(alias="reportName")
    due: timedelta = timedelta(hours=1)
    raw: bytes = b"hi"
    hidden: int = Field(3, exclude=True)


class Renamed(BaseModel):
    model_config = ConfigDict(serialize_by_alias=True)
    name: str = Field(alias="reportName")
    inner: Report


class Employee(User):
    salary: int = 1


@dataclass
class Spot(Point):
    name: str = "here"


ADA = User(userName="Ada")
REPORT = Report(reportName="r")
RETURNED: list[tuple[Any, list[Any]]] = [
    (str, ["a"]),
    (int, [1]),
    (float, [1, 1.5]),
    (bool, [True]),
    (str | None, ["a", None]),
    (Literal["a", 1], ["a", 1]),
    (Color, [Color.RED]),
    (Level, [Level.LOW]),
    (Ratio, [Ratio.HALF]),
    (StrEnum("Mood", ["GOOD"]), ["good"]),
    (Literal[Color.RED], [Color.RED]),
    (Point, [Point(1), Spot(1)]),
    (Point | None, [None, Point(1)]),
    (Point | Circle, [Point(1), Circle(1)]),
    (Line, [Line(Point(1), [Spot(2)])]),
    (Tree, [Tree(1, [Tree(2)])]),
    (Box[int], [Box(1, [2])]),
    (Movie, [{"title": "Alien"}, {"title": "Alien", "more": 1}]),
    (Pair, [Pair(1)]),
    (Person, [Person("Ada")]),
    (Cat | Dog, [Cat(9), Dog([])]),
    (Row, [Row("a")]),
    (list[int], [[], [1]]),
    (list[Any], [[1, "a"]]),
    (list[dict], [[{"a": 1}]]),
    (list[bytes], [[b"a"]]),
    (dict[str, int], [{"a": 1}]),
    (dict[int, date], [{1: date.min}]),
    (dict[Color, str], [{Color.RED: "a"}]),
    (set[int], [{1, 2}]),
    (tuple[int, str], [(1, "a")]),
    (datetime, [NOON, NOON.replace(tzinfo=None), datetime.min, datetime.max]),
    (date, [date.min]),
    (time, [time(1, 2, 3, 4), time(1, tzinfo=UTC)]),
    (timedelta, [timedelta(0), timedelta(-1, 5, 7), timedelta(days=2)]),
    (UUID, [UUID(int=5)]),
    (Decimal, [Decimal("1.5"), Decimal("1E+5"), Decimal("NaN")]),
    (Path, [Path("a")]),
    (Path | str, ["a", Path("a")]),
    (Awaitable[str], ["a"]),
    (Annotated[str, "a name"], ["a"]),
    (Annotated[int, Field(ge=1)], [1]),
    (User, [ADA, User(userName="Ada", born=NOON), Employee(userName="Eve")]),
    (list[User], [[ADA]]),
    (dict[str, User], [{"a": ADA}]),
    (Team, [Team(lead=ADA, members=[ADA])]),
    (Report, [REPORT]),
    (Renamed, [Renamed(reportName="a", inner=REPORT)]),
    (Mixed, [Mixed(ADA, Point(1))]),
    (Open, [Open(x=1, y=2)]),
    (RootModel[list[int]], [RootModel[list[int]]([1])]),
]


def returning(annotation: Any) -> dict[str, Any] | None:
    def body() -> None: ...

    body.__annotations__ = {"return": annotation}
    return read_signature(body).output_schema


@pytest.mark.parametrize(("annotation", "values"), RETURNED)
def test_a_value_of_the_declared_type_fits_the_output_schema(annotation: Any, values: list[Any]) -> None:
    schema = returning(annotation)
    assert schema is not None
    for value in values:
        assert Validator(schema).problems(plain_answer(value, normalise_result("1", value))) == []


WRONG: list[tuple[Any, Any]] = [
    (str, 1),
    (int, "1"),
    (list[int], ["a"]),
    (Point, {"y": 1}),
    (Movie, {"year": 1979}),
    (Color, "blue"),
    (User, {"age": 1}),
    (dict[str, int], {"a": "x"}),
    (str | None, 5),
]


@pytest.mark.parametrize(("annotation", "value"), WRONG)
def test_a_value_of_another_type_does_not(annotation: Any, value: Any) -> None:
    schema = returning(annotation)
    assert schema is not None
    assert not Validator(schema).accepts(value)


class ToolResultLike(TypedDict):
    status: str
    content: list[dict[str, Any]]


NOTHING_CHECKABLE = [
    None,
    Any,
    object,
    dict,
    list,
    dict[str, Any],
    dict[str, object],
    Mapping[str, Any],
    bytes,
]
NOTHING_CHECKABLE += [
    ToolResultLike,
    ToolResultLike | None,
    str | dict,
    Iterator[int],
    AsyncIterator[str],
    Opaque,
]
NOTHING_CHECKABLE += ["Nowhere", Callable[[], int], Planet, Awaitable[None], list[Opaque]]


@pytest.mark.parametrize("annotation", NOTHING_CHECKABLE)
def test_an_annotation_that_promises_nothing_gives_no_output_schema(annotation: Any) -> None:
    assert returning(annotation) is None


def test_the_sdk_s_result_and_generators_give_none_either() -> None:
    from strands.types.tools import ToolResult

    async def process_dataset(records: int) -> str:  # type: ignore[misc]
        """Process records with progress updates."""
        yield f"Completed {records}"

    def unannotated(): ...  # type: ignore[no-untyped-def]

    assert returning(ToolResult) is None
    assert read_signature(process_dataset).output_schema is None
    assert read_signature(unannotated).output_schema is None


# --- Through and through ----------------------------------------------------------------------------------

FIELD_TYPES: list[Any] = [
    str,
    int,
    float,
    bool,
    int | None,
    list[int],
    set[str],
    dict[str, int],
    tuple[int, str],
    Literal["a", "b"],
    Color,
    date,
    datetime,
    time,
    timedelta,
    UUID,
    Decimal,
    Path,
]
TEXTS = ["", "a", "b", "red", "1.50", "2026-01-31", "2026-01-31T12:00:00", "2026-01-31T12:00:00Z", "12:00:00"]
TEXTS += ["PT1H", str(UUID(int=5))]
OTHERS = [0, 1, -1, 1.0, 1.5, True, None, [], [1], [1, "a"], ["a", "a"], {}, {"a": 1}, {"a": "b"}]
VALUES = st.sampled_from([*TEXTS, *OTHERS])
FIELDS = st.dictionaries(
    st.sampled_from(["alpha", "beta", "gamma"]),
    st.tuples(st.sampled_from(FIELD_TYPES), st.booleans()),
    min_size=1,
)


def triple_of(fields: dict[str, tuple[Any, bool]]) -> list[Any]:
    """A dataclass, a TypedDict and a pydantic model with the same fields, some of them required."""
    ordered = sorted(fields.items(), key=lambda item: not item[1][1])
    parts = [(name, kind) if required else (name, kind, None) for name, (kind, required) in ordered]
    keys = {name: kind if required else NotRequired[kind] for name, (kind, required) in fields.items()}
    model = create_model(
        "Model", **{n: (k, ... if required else None) for n, (k, required) in fields.items()}
    )  # type: ignore[call-overload]
    return [make_dataclass("Data", parts), TypedDict("Keys", keys), model]  # type: ignore[operator]


def parts_of(value: Any, names: list[str]) -> list[Any]:
    return [value[name] if isinstance(value, dict) else getattr(value, name) for name in names]


@settings(max_examples=examples(80))
@given(
    FIELDS,
    st.lists(st.dictionaries(st.sampled_from(["alpha", "beta", "gamma", "delta"]), VALUES), max_size=6),
)
def test_dataclass_typed_dict_and_model_of_the_same_fields_take_the_same_json(
    fields: dict[str, tuple[Any, bool]], sent: list[dict[str, Any]]
) -> None:
    read = [signature_of(annotation) for annotation in triple_of(fields)]
    accepted = [Validator(closed_schema(one.input_schema)) for one in read]
    for value in sent:
        answers = [one.accepts({"value": value}) for one in accepted]
        assert len(set(answers)) == 1, (fields, value, answers)
        if answers[0]:
            made = [parts_of(arguments_of(one, {"value": value})["value"], list(value)) for one in read]
            assert made[0] == made[1] == made[2]


@settings(max_examples=examples(80))
@given(
    st.sampled_from([case[0] for case in ACCEPTED]),
    st.recursive(VALUES, lambda inner: st.lists(inner, max_size=3)),
)
def test_a_value_is_received_or_refused_and_nothing_else(annotation: Any, sent: Any) -> None:
    failed = None
    try:
        received(annotation, sent)
    except ToolFailed as error:
        failed = error
    assert failed is None or (failed.code == "input_invalid" and failed.details)


LIGHT = """
import sys
from dataclasses import dataclass
from datetime import date
from typing import Generic, TypeVar
from strands_cli.toolkit.signature import read_signature
T = TypeVar("T")
@dataclass
class Box(Generic[T]):
    item: T
@dataclass
class Stay:
    since: date
    nights: int = 1
def book(stay: Stay, box: Box[int] | None = None, tags: list[str] | None = None, *, limit: int = 5) -> Stay:
    "Book it."
read = read_signature(book)
made = read.convert({"stay": {"since": "2026-01-31"}})
assert made["stay"] == Stay(date(2026, 1, 31)), made
print([name for name in ("pydantic", "strands", "docstring_parser", "asyncio") if name in sys.modules])
"""


def test_a_tool_without_pydantic_imports_neither_it_nor_the_sdk() -> None:
    child = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "[]"


@pytest.mark.parametrize("annotation", [case[0] for case in ACCEPTED if case[0] is not MISSING])
def test_every_schema_is_json_and_valid(annotation: Any) -> None:
    schema = signature_of(annotation).input_schema
    assert json.loads(json.dumps(schema)) == schema
    Validator(schema)


def test_dataclasses_are_made_anew_for_each_call() -> None:
    first, second = received(Point, {"x": 1}), received(Point, {"x": 1})
    assert dataclasses.asdict(first) == dataclasses.asdict(second)
    assert first is not second
