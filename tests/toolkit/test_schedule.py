"""Many calls of one turn: conflicting ones keep their order and never overlap, all others run at once."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strands_cli import CallContext, ToolContext, ToolFailed, tool
from strands_cli.errors import ToolError
from strands_cli.events import Event, ToolStarted
from strands_cli.toolkit.context import InterruptRequested
from strands_cli.toolkit.contract import Effects, Tool, parse_effects
from strands_cli.toolkit.effects import resources_of
from strands_cli.toolkit.results import ToolResult, error_of
from strands_cli.toolkit.schedule import Turn, call_tools
from strands_cli.toolkit.workspace import Workspace
from tests.exploring import examples

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "paths": {"type": "array", "items": {"type": "string"}},
        "options": {"type": "object", "properties": {"path": {"type": "string"}}},
        "edits": {"type": "array", "items": {"$ref": "#/$defs/edit"}},
        "number": {"type": "integer"},
    },
    "$defs": {"edit": {"type": "object", "properties": {"target": {"type": "string"}}}},
}


def make(name: str, body: Callable[..., Any], effects: object = None, **options: Any) -> Tool:
    spec = {"name": name, "description": name, "inputSchema": {"json": SCHEMA}}
    if effects is not None:
        options["effects"] = parse_effects(effects, SCHEMA)
    made: Tool = tool(spec=spec, **options)(body)
    return made


class Diary:
    """Notes when bodies begin and end. Two calls overlap if one began before the other's end was noted."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, object]] = []

    def tool(self, name: str, effects: object = None, seconds: float = 0.005, **options: Any) -> Tool:
        async def body(**arguments: Any) -> str:
            key = arguments.get("number", name)
            self.entries.append(("begin", key))
            try:
                await asyncio.sleep(seconds)
            finally:
                self.entries.append(("end", key))
            return str(key)

        return make(name, body, effects, **options)

    def precedes(self, earlier: object, later: object) -> bool:
        """Whether the earlier call had ended when the later one began."""
        return self.entries.index(("end", earlier)) < self.entries.index(("begin", later))

    def begun(self) -> list[object]:
        return [key for what, key in self.entries if what == "begin"]


def run(*calls: tuple[Tool, dict[str, Any]], context: CallContext | None = None) -> list[ToolResult]:
    uses = [(made, {"toolUseId": f"t{i}", "input": sent}) for i, (made, sent) in enumerate(calls)]
    return asyncio.run(call_tools(uses, context or CallContext()))  # type: ignore[arg-type]


def texts(results: list[ToolResult]) -> list[str]:
    return [result["content"][0]["text"] for result in results]


def code_of(result: ToolResult) -> str | None:
    error = error_of(result)
    return error["code"] if error else None


def in_directory(directory: Path) -> CallContext:
    return CallContext(workspace=Workspace((directory,), directory))


READS = {"reads": ["file:{path}"]}
WRITES = {"writes": ["file:{path}"]}


# --- What a tool declares ---------------------------------------------------------------------------------


REFUSED_EFFECTS: list[tuple[object, str]] = [
    ({"read": []}, "Did you mean 'reads'?"),
    ({"writes": "file:{path}"}, "a list of templates"),
    ({"writes": ["file:{path}", 5]}, "a list of templates"),
    ({"writes": [""]}, "a list of templates"),
    ({"reads": ["file:{pth}"]}, "Did you mean 'path'?"),
    ({"reads": ["file:{options.pth}"]}, "Did you mean 'path'?"),
    ({"reads": ["file:{edits.targt}"]}, "Did you mean 'target'?"),
    ({"reads": ["file:{}"]}, "The properties are path"),
    ({"reads": ["file:{path"]}, ""),
    ("exclusiv", "exclusive"),
    (True, "exclusive"),
    (["file:{path}"], "exclusive"),
]


@pytest.mark.parametrize(("declared", "hint"), REFUSED_EFFECTS)
def test_effects_that_cannot_work_are_refused_when_the_tool_is_made(declared: object, hint: str) -> None:
    with pytest.raises(ToolError) as refused:
        parse_effects(declared, SCHEMA)
    assert refused.value.code == "unavailable"
    assert hint in refused.value.hint


def test_effects_are_read_from_templates_over_properties_however_the_schema_is_composed() -> None:
    composed = {
        "allOf": [{"$ref": "#/$defs/a"}],
        "$defs": {"a": {"properties": {"path": {"type": "string"}}}},
    }
    assert parse_effects(READS, {"json": composed}) == Effects(reads=("file:{path}",))
    assert parse_effects({"writes": ["{anything}"]}, {"type": "object"}).writes == ("{anything}",)
    assert parse_effects({"writes": ["{x}"]}, {**SCHEMA, "additionalProperties": True}).writes == ("{x}",)
    assert parse_effects("exclusive", SCHEMA) == parse_effects(Effects(exclusive=True), SCHEMA)
    with pytest.raises(ToolError):
        parse_effects({"reads": ["file:{other}"]}, composed)


def text_resources(template: str, arguments: dict[str, Any]) -> set[str]:
    return {resource[0] for resource in resources_of(Effects(writes=(template,)), arguments).writes}


def test_a_template_stands_for_each_item_of_a_list_and_for_nothing_where_a_value_is_missing() -> None:
    assert text_resources("row:{number}", {"number": 5}) == {"row:5"}
    assert text_resources("{options.path}", {"options": {"path": "a"}}) == {"a"}
    assert text_resources("x/{paths}", {"paths": ["a", "b"]}) == {"x/a", "x/b"}
    assert text_resources("{edits.target}", {"edits": [{"target": "a"}, {}, {"target": "b"}]}) == {"a", "b"}
    assert text_resources("{path}-{paths}", {"path": "p", "paths": ["a", "b"]}) == {"p-a", "p-b"}
    assert text_resources("{path}", {}) == set()
    assert text_resources("{path}", {"path": None}) == set()
    assert text_resources("{options.path}", {"options": "text"}) == set()
    assert text_resources("database", {}) == {"database"}


def touched(path: str, directory: Path) -> frozenset[tuple[str, ...]]:
    return resources_of(
        Effects(reads=("file:{path}",)), {"path": path}, in_directory(directory).workspace
    ).reads


def test_files_are_compared_as_the_file_system_has_them(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to("real.txt")
    os.link(tmp_path / "real.txt", tmp_path / "hard.txt")
    assert touched("real.txt", tmp_path) == touched("./a/../link.txt", tmp_path)
    assert touched("real.txt", tmp_path) == touched(str(tmp_path / "real.txt"), tmp_path)
    assert touched("real.txt", tmp_path) & touched("hard.txt", tmp_path)
    assert not touched("real.txt", tmp_path) & touched("other.txt", tmp_path)
    assert touched("../../outside", tmp_path)
    assert touched("no\0path", tmp_path)


def test_a_path_that_leads_in_a_circle_is_still_a_resource(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    assert touched("circle", tmp_path) == touched("circle", tmp_path) != frozenset()


# --- Conflicts --------------------------------------------------------------------------------------------


def test_writes_to_one_file_follow_one_another_in_request_order() -> None:
    diary = Diary()
    write = diary.tool("write", WRITES)
    results = run(*((write, {"path": "x", "number": number}) for number in range(5)))
    assert texts(results) == ["0", "1", "2", "3", "4"]
    assert all(diary.precedes(number, number + 1) for number in range(4))


def test_independent_calls_run_at_the_same_time() -> None:
    meeting = asyncio.Barrier(3)

    async def meet(**_: Any) -> str:
        await meeting.wait()
        return "met"

    undeclared, reads = make("free", meet, timeout=5), make("reads", meet, READS, timeout=5)
    calls = [(undeclared, {}), (reads, {"path": "x"}), (reads, {"path": "x"})]
    assert texts(run(*calls)) == ["met"] * 3


def test_a_read_waits_for_the_write_before_it_and_a_write_for_the_reads_before_it() -> None:
    diary = Diary()
    read, write = diary.tool("read", READS), diary.tool("write", WRITES)
    run(*((made, {"path": "x", "number": i}) for i, made in enumerate([write, read, read, write])))
    assert diary.begun()[0] == 0
    assert diary.precedes(0, 1)
    assert diary.precedes(0, 2)
    assert not diary.precedes(1, 2)
    assert diary.precedes(1, 3)
    assert diary.precedes(2, 3)


@pytest.mark.parametrize("paths", [("d", "d/a/b"), ("d/a/b", "d"), ("d/../d/a", "./d/a")])
def test_a_directory_conflicts_with_what_lies_below_it(tmp_path: Path, paths: tuple[str, str]) -> None:
    (tmp_path / "d").mkdir()
    diary = Diary()
    read, write = diary.tool("read", READS), diary.tool("write", WRITES)
    first, second = ({"path": path, "number": number} for number, path in enumerate(paths))
    run((write, first), (read, second), context=in_directory(tmp_path))
    assert diary.precedes(0, 1)


def test_a_name_that_only_begins_like_a_directory_is_not_below_it(tmp_path: Path) -> None:
    diary = Diary()
    write = diary.tool("write", WRITES)
    run(
        (write, {"path": "d", "number": 0}),
        (write, {"path": "d2", "number": 1}),
        context=in_directory(tmp_path),
    )
    assert not diary.precedes(0, 1)


def test_two_names_of_one_file_conflict(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to("real.txt")
    os.link(tmp_path / "real.txt", tmp_path / "hard.txt")
    diary = Diary()
    write = diary.tool("write", WRITES)
    names = ["real.txt", "link.txt", "hard.txt"]
    run(
        *((write, {"path": name, "number": i}) for i, name in enumerate(names)),
        context=in_directory(tmp_path),
    )
    assert diary.precedes(0, 1)
    assert diary.precedes(1, 2)


def test_an_exclusive_call_runs_alone() -> None:
    diary = Diary()
    free, alone = diary.tool("free"), diary.tool("alone", "exclusive")
    read = diary.tool("read", READS)
    run(
        *((made, {"path": "x", "number": i}) for i, made in enumerate([free, read, alone, free, alone, read]))
    )
    for number in (0, 1):
        assert diary.precedes(number, 2)
    assert diary.precedes(2, 3)
    assert diary.precedes(3, 4)
    assert diary.precedes(4, 5)


def test_a_call_that_does_not_validate_neither_waits_nor_is_waited_for() -> None:
    diary = Diary()
    free, alone = diary.tool("free", seconds=0.05), diary.tool("alone", "exclusive")
    results = run((free, {"number": 0}), (alone, {"path": 5}), (free, {"number": 1}))
    assert [code_of(result) for result in results] == [None, "input_invalid", None]
    assert not diary.precedes(0, 1)


PATHS = ["d", "d/a", "d/a/deep", "d/b", "e"]
CALL = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["touch", "touch", "touch", "free", "alone"]),
        "reads": st.lists(st.sampled_from(PATHS), max_size=2),
        "writes": st.lists(st.sampled_from(PATHS), max_size=2),
        "milliseconds": st.integers(0, 4),
        "end": st.sampled_from(["value", "value", "failure", "crash", "timeout"]),
    }
)
CODES = {"value": None, "failure": "failed", "crash": "crashed", "timeout": "timeout"}


def conflict(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """What conflicts mean, said plainly: the test's own reading of it."""
    if "alone" in (one["kind"], other["kind"]):
        return True
    if "free" in (one["kind"], other["kind"]):
        return False

    def meets(some: list[str], others: list[str]) -> bool:
        return any(f"{b}/".startswith(f"{a}/") or f"{a}/".startswith(f"{b}/") for a in some for b in others)

    return meets(one["writes"], other["writes"] + other["reads"]) or meets(one["reads"], other["writes"])


@settings(max_examples=examples(120))
@given(st.lists(CALL, min_size=1, max_size=9))
def test_any_mix_is_answered_in_request_order_and_conflicting_calls_never_overlap(
    calls: list[dict[str, Any]],
) -> None:
    diary = Diary()
    properties = {"reads": {"type": "array"}, "writes": {"type": "array"}, "number": {"type": "integer"}}
    schema = {"type": "object", "properties": properties}
    effects = {"reads": ["file:{reads}"], "writes": ["file:{writes}"]}
    declared = {"touch": parse_effects(effects, schema), "alone": Effects(exclusive=True), "free": None}

    async def body(number: int = 0, **_: Any) -> str:
        diary.entries.append(("begin", number))
        try:
            await asyncio.sleep(calls[number]["milliseconds"] / 2000)
            if calls[number]["end"] == "failure":
                raise ToolFailed("no")
            if calls[number]["end"] == "crash":
                raise SystemExit(3)
            if calls[number]["end"] == "timeout":
                await asyncio.sleep(30)
            return str(number)
        finally:
            diary.entries.append(("end", number))

    def made(call: dict[str, Any]) -> Tool:
        spec = {"name": call["kind"], "description": "", "inputSchema": schema}
        limit = 0.004 if call["end"] == "timeout" else 10.0
        return tool(spec=spec, timeout=limit, effects=declared[call["kind"]])(body)  # type: ignore[call-overload, no-any-return]

    sent = [
        (made(call), {"reads": call["reads"], "writes": call["writes"], "number": number})
        for number, call in enumerate(calls)
    ]
    results = run(*sent)
    assert [result["toolUseId"] for result in results] == [f"t{number}" for number in range(len(calls))]
    for number, (call, result) in enumerate(zip(calls, results, strict=True)):
        assert code_of(result) == CODES[call["end"]]
        assert call["end"] != "value" or texts([result]) == [str(number)]
    for earlier, later in combinations(range(len(calls)), 2):
        if conflict(calls[earlier], calls[later]):
            assert diary.precedes(earlier, later)


def test_a_turn_of_many_calls_is_arranged_at_once() -> None:
    write = make(
        "write", lambda **_: "done", {"writes": ["file:{path}"], "reads": ["file:."]}, blocking=False
    )
    started = time.perf_counter()
    results = run(*((write, {"path": f"d{number % 7}/f{number % 50}"}) for number in range(400)))
    assert texts(results) == ["done"] * 400
    assert time.perf_counter() - started < 5


def test_a_turn_of_many_files_is_arranged_at_once() -> None:
    write = make("write", lambda **_: "done", {"writes": ["key:{paths}"]})
    calls = [
        (str(number), write, {"paths": [f"{number}-{file}" for file in range(200)]}) for number in range(50)
    ]
    started = time.process_time()
    Turn(calls)
    assert time.process_time() - started < 1


# --- Ends -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [ToolFailed("no"), ValueError("x"), KeyboardInterrupt(), SystemExit(1)])
def test_a_body_that_fails_lets_the_next_one_start(end: BaseException) -> None:
    diary = Diary()

    async def broken(**_: Any) -> str:
        raise end

    results = run(
        (make("broken", broken, WRITES), {"path": "x"}), (diary.tool("write", WRITES), {"path": "x"})
    )
    assert code_of(results[0]) in ("failed", "crashed")
    assert texts(results[1:]) == ["write"]


def test_a_thread_that_hangs_lets_the_next_one_start_at_its_deadline() -> None:
    def hang(**_: Any) -> None:
        time.sleep(3)

    diary = Diary()
    hanging = make("hang", hang, WRITES, timeout=0.1)
    results = run((hanging, {"path": "x"}), (diary.tool("write", WRITES), {"path": "x"}))
    assert [code_of(result) for result in results] == ["timeout", None]


def test_a_time_limit_counts_from_when_the_call_may_start() -> None:
    diary = Diary()
    slow = diary.tool("slow", WRITES, seconds=0.4)
    quick = diary.tool("quick", WRITES, seconds=0.01, timeout=0.2)
    assert texts(run((slow, {"path": "x"}), (quick, {"path": "x"}))) == ["slow", "quick"]


def test_no_call_is_reported_as_started_while_it_waits() -> None:
    seen: list[Event] = []
    diary = Diary()
    write = diary.tool("write", WRITES, seconds=0.02)
    calls = [(write, {"path": "x", "number": number}) for number in range(3)]
    run(*calls, context=CallContext(emit=seen.append))
    starts = [index for index, event in enumerate(seen) if isinstance(event, ToolStarted)]
    assert starts == [0, 2, 4]


def test_no_more_calls_run_at_once_than_are_allowed() -> None:
    diary = Diary()
    free = diary.tool("free")
    calls = [(free, {"toolUseId": str(number), "input": {"number": number}}) for number in range(6)]
    asyncio.run(call_tools(calls, max_parallel=2))  # type: ignore[arg-type]
    running = most = 0
    for what, _ in diary.entries:
        running += 1 if what == "begin" else -1
        most = max(most, running)
    assert most == 2


def test_each_call_of_a_turn_has_its_own_key() -> None:
    keys: list[str] = []

    def note(context: ToolContext) -> None:
        keys.append(context.key)

    spec = {"name": "note", "description": "", "inputSchema": {"type": "object", "properties": {}}}
    noting = tool(spec=spec, blocking=False)(note)
    run((noting, {}), (noting, {}), context=CallContext(key="step"))
    assert len(set(keys)) == 2
    assert all(key.startswith("step/") for key in keys)


def test_cancelling_a_turn_cancels_all_its_calls_and_leaves_nothing_behind() -> None:
    diary = Diary()
    slow, free = diary.tool("slow", WRITES, seconds=30), diary.tool("free", seconds=30)

    async def scenario() -> None:
        calls = [
            (slow, {"path": "x", "number": 0}),
            (slow, {"path": "x", "number": 1}),
            (free, {"number": 2}),
        ]
        uses = [(made, {"toolUseId": "", "input": sent}) for made, sent in calls]
        turn = asyncio.create_task(call_tools(uses))  # type: ignore[arg-type]
        await asyncio.sleep(0.02)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())
    assert sorted(map(str, diary.begun())) == ["0", "2"]
    assert len(diary.entries) == 4


# --- The turn itself --------------------------------------------------------------------------------------


Scenario = Callable[[Turn, list[str]], Coroutine[Any, Any, None]]


def in_turn(scenario: Scenario, *effects: object) -> list[str]:
    """Runs a scenario with a turn of calls a, b, c … to the file x; what they note."""
    tools = [
        make(letter, lambda **_: None, declared) for letter, declared in zip("abcdef", effects, strict=False)
    ]
    notes: list[str] = []

    async def go() -> None:
        turn = Turn([(made.id, made, {"path": "x"}) for made in tools])
        await asyncio.wait_for(scenario(turn, notes), 5)

    asyncio.run(go())
    return notes


async def enter(turn: Turn, call_id: str, notes: list[str], until: asyncio.Event | None = None) -> None:
    try:
        async with turn.slot(call_id):
            notes.append(f"{call_id}+")
            if until is not None:
                await until.wait()
            notes.append(f"{call_id}-")
    except ToolFailed as failed:
        notes.append(f"{call_id} {failed.code}")


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_call_cancelled_while_it_waits_does_not_let_the_next_overtake_the_one_before() -> None:
    async def scenario(turn: Turn, notes: list[str]) -> None:
        end = asyncio.Event()
        first = asyncio.create_task(enter(turn, "a", notes, end))
        second = asyncio.create_task(enter(turn, "b", notes))
        third = asyncio.create_task(enter(turn, "c", notes))
        await settle()
        second.cancel()
        await settle()
        assert notes == ["a+"]
        end.set()
        await asyncio.gather(first, third)
        assert second.cancelled()

    assert in_turn(scenario, WRITES, WRITES, WRITES) == ["a+", "a-", "c+", "c-"]


def test_a_call_is_released_by_hand_as_often_as_one_likes() -> None:
    async def scenario(turn: Turn, notes: list[str]) -> None:
        waiting = asyncio.create_task(enter(turn, "b", notes))
        await settle()
        assert notes == []
        turn.release("a")
        turn.release("a")
        turn.release("nobody")
        await waiting
        await enter(turn, "a", notes)

    assert in_turn(scenario, WRITES, WRITES) == ["b+", "b-", "a+", "a-"]


def test_whatever_depends_on_an_interrupted_call_is_blocked_at_once_and_nothing_else() -> None:
    async def scenario(turn: Turn, notes: list[str]) -> None:
        end = asyncio.Event()
        free = asyncio.create_task(enter(turn, "d", notes, end))
        waiting = [asyncio.create_task(enter(turn, letter, notes)) for letter in "bce"]
        await settle()
        turn.block("a")
        await asyncio.gather(*waiting)  # although e waits for d, too, which still runs
        end.set()
        await free
        await enter(turn, "f", notes)

    through = {"reads": ["file:{path}"], "writes": ["database"]}
    notes = in_turn(scenario, WRITES, through, {"reads": ["database"]}, None, "exclusive", None)
    assert notes[0] == "d+"
    assert sorted(notes[1:4]) == ["b blocked", "c blocked", "e blocked"]
    assert notes[4:] == ["d-", "f blocked"]


def test_an_unknown_call_waits_for_nobody() -> None:
    async def scenario(turn: Turn, notes: list[str]) -> None:
        await enter(turn, "other", notes)

    assert in_turn(scenario, WRITES) == ["other+", "other-"]


def test_calls_with_the_same_id_are_distinct_and_follow_one_another() -> None:
    notes: list[str] = []
    made = make("same", lambda **_: None)

    async def scenario() -> None:
        turn = Turn([("id", made, {}), ("id", None, None), ("id", made, {})])
        ends = [asyncio.Event() for _ in range(3)]
        tasks = [asyncio.create_task(enter(turn, "id", notes, end)) for end in ends]
        for end in ends:
            await settle()
            notes.append("|")
            end.set()
        await asyncio.gather(*tasks)
        await enter(turn, "id", notes)

    asyncio.run(scenario())
    assert notes == ["id+", "|", "id-", "id+", "|", "id-", "id+", "|", "id-", "id+", "id-"]


def test_a_question_to_a_human_blocks_the_dependents_and_is_raised_when_the_others_are_done() -> None:
    diary = Diary()

    async def asks(context: ToolContext, **_: Any) -> str:
        return str(await context.interrupt("approve"))

    def ask(name: str, reason: object) -> None:
        raise InterruptRequested(name, reason)

    free, write = diary.tool("free", seconds=0.05), diary.tool("write", WRITES)
    calls = [(make("asks", asks, WRITES), {"path": "x"}), (write, {"path": "x"}), (free, {})]
    with pytest.raises(InterruptRequested):
        run(*calls, context=CallContext(interrupt=ask))
    assert diary.entries == [("begin", "free"), ("end", "free")]
