"""Every example of the SDK's page on Python tools, with the SDK's decorator and with ours.

The examples stand as they are on that page in `sdk_page/*.txt`. What has to be changed to run them here is in
one table, EDITS; everything else is literal.
"""

import asyncio
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import strands

import strands_cli
from tests.fakes import ScriptedModel, tool_call

PAGE = Path(__file__).parent / "sdk_page"

MODEL = "the page's agents use a real model; ours is scripted"
IMPORT = "the page leaves out an import, or a function that it takes for granted"
PYTHON = "quotes of one kind inside an f-string are new in Python 3.12"
WAIT = "no need to wait for long"
KEYWORD = "passing state as keywords is deprecated in the SDK"

EDITS: dict[str, list[tuple[str, str, str]]] = {
    "basic": [("from strands import tool", "", IMPORT)],
    "loading": [("Agent(", "agent_for('weather_forecast', city='Paris')(", MODEL)],
    "override_name": [],
    "override_schema": [],
    "dictionary_return": [],
    "async_invocation": [
        ("from strands import Agent, tool\n", "", IMPORT),
        ("asyncio.sleep(5)", "asyncio.sleep(0.01)", WAIT),
        ("Agent(", "agent_for('call_api')(", MODEL),
        ("asyncio.run(async_example())", "result = async_example()", MODEL),
    ],
    "tool_context": [
        ("from strands import tool, Agent, ToolContext\n", "", IMPORT),
        ('tool_use["toolUseId"]', "tool_use['toolUseId']", PYTHON),
        ('invocation_state["custom_data"]', "invocation_state['custom_data']", PYTHON),
        ("Agent(", "agent_for('get_self_name', 'get_tool_use_id', 'get_invocation_state')(", MODEL),
        ('custom_data="You', 'invocation_state=dict(custom_data="You', KEYWORD),
        (';)")', ';)"))', KEYWORD),
    ],
    "streaming": [
        ("from strands import tool\n", "", IMPORT),
        ("asyncio.sleep(0.1)", "asyncio.sleep(0.001)", WAIT),
    ],
    "stream_events": [
        ("Agent(", "agent_for('process_dataset', records=50)(", MODEL),
        ('print(f"Progress: {update}")', "seen.append(update)", MODEL),
        ("asyncio.run(tool_stream_example())", "result = tool_stream_example()", MODEL),
    ],
    "class_based": [
        ("from strands import Agent, tool\n", "", IMPORT),
        ("Agent(", "agent_for('query_database', sql='SELECT 1')(", MODEL),
    ],
    "module_tool": [("# 1.", "from typing import Any\n# 1.", IMPORT)],
    "load_module": [
        ("from strands import Agent\n", "", IMPORT),
        ("Agent(", "agent_for('weather_forecast', city='Rome')(", MODEL),
    ],
    "load_path": [
        ("from strands import Agent\n", "", IMPORT),
        ("Agent(", "agent_for('weather_forecast', city='Oslo')(", MODEL),
    ],
    "module_async": [
        ("TOOL_SPEC", "import asyncio\nTOOL_SPEC", IMPORT),
        ("asyncio.sleep(5)", "asyncio.sleep(0.01)", WAIT),
    ],
}


def example(name: str) -> str:
    text = (PAGE / f"{name}.txt").read_text()
    for old, new, _ in EDITS[name]:
        assert old in text, f"{name}: the edit {old!r} fits nothing"
        text = text.replace(old, new, 1 if old == "TOOL_SPEC" else -1)
    return text


class Stage:
    """A namespace for the examples, and agents whose model calls the tools that an example is about."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.model = ScriptedModel()
        self.names: dict[str, Any] = {
            "tool": library.tool,
            "ToolContext": library.ToolContext,
            "agent_for": self.agent_for,
            "some_other_function": lambda source_id: {"source": source_id},
            "asyncio": asyncio,
            "seen": [],
        }

    def run(self, *examples: str) -> dict[str, Any]:
        for name in examples:
            exec(compile(example(name), f"{name}.txt", "exec", dont_inherit=True), self.names)
        return self.names

    def agent_for(self, *tools: str, **arguments: Any) -> Any:
        for name in tools:
            self.model.enqueue(tool_call(name, **arguments)).enqueue("done")

        def make(**options: Any) -> strands.Agent:
            return strands.Agent(model=self.model, callback_handler=None, **options)

        return make

    @property
    def results(self) -> list[dict[str, Any]]:
        return [result for request in self.model.requests for result in request.results]

    @property
    def texts(self) -> list[str]:
        return [
            str(result["content"][0].get("text", result["content"][0].get("json"))) for result in self.results
        ]


@pytest.fixture(params=[strands, strands_cli], ids=["the SDK's", "ours"])
def stage(request: pytest.FixtureRequest) -> Stage:
    return Stage(request.param)


def test_every_example_of_the_page_is_here_and_every_edit_has_its_reason() -> None:
    assert {file.stem for file in PAGE.glob("*.txt")} == set(EDITS)
    assert all(reason for edits in EDITS.values() for _, _, reason in edits)


def test_the_basic_example(stage: Stage) -> None:
    names = stage.run("basic", "loading")
    assert names["weather_forecast"]("Rome", days=1) == "Weather forecast for Rome for the next 1 days..."
    names["agent"]("What is the weather in Paris?")
    assert stage.texts == ["Weather forecast for Paris for the next 3 days..."]
    described = stage.model.requests[0].tool_specs[0]
    assert described["description"].startswith("Get weather forecast for a city.")
    properties = described["inputSchema"]["json"]["properties"]
    assert properties["city"]["description"] == "The name of the city"
    assert properties["days"]["default"] == 3
    assert described["inputSchema"]["json"]["required"] == ["city"]


def test_overriding_name_description_and_schema(stage: Stage) -> None:
    names = stage.run("override_name", "override_schema")
    agent = stage.agent_for("get_weather", "calculate_area")(
        tools=[names["weather_forecast"], names["calculate_area"]]
    )
    specs = {item["name"]: item for item in agent.tool_registry.get_all_tool_specs()}
    assert specs["get_weather"]["description"] == "Retrieves weather forecast for a specified location"
    assert specs["calculate_area"]["inputSchema"]["json"]["properties"]["shape"]["enum"] == [
        "circle",
        "rectangle",
    ]
    assert names["calculate_area"](shape="rectangle", width=2.0, height=3.0) == 6.0


def test_the_dictionary_return_type(stage: Stage) -> None:
    names = stage.run("dictionary_return")
    stage.agent_for("fetch_data", source_id="s1")(tools=[names["fetch_data"]])("go")
    assert stage.results[0]["status"] == "success"
    assert stage.results[0]["content"] == [{"json": {"source": "s1"}}]
    stage.names["some_other_function"] = lambda _: 1 / 0
    stage.agent_for("fetch_data", source_id="s1")(tools=[names["fetch_data"]])("go")
    assert stage.results[-1]["status"] == "error"
    assert stage.results[-1]["content"][0] == {"text": "Error:division by zero"}


def test_async_invocation(stage: Stage) -> None:
    asyncio.run(stage.run("async_invocation")["result"])
    assert stage.texts == ["API result"]


def test_the_tool_context(stage: Stage) -> None:
    stage.run("tool_context")
    assert stage.texts[0] == "The agent name is Best agent"
    assert stage.texts[1] == f"Tool use is {stage.results[1]['toolUseId']}"
    assert stage.texts[2] == "Invocation state: You're the best agent ;)"


def test_streaming(stage: Stage) -> None:
    names = stage.run("streaming", "stream_events")
    asyncio.run(names["result"])
    assert [update.split(" in ")[0] for update in names["seen"]][:5] == [
        f"Processed {number}/50 records" for number in (0, 10, 20, 30, 40)
    ]
    assert stage.texts[0].startswith("Completed 50 records")


def test_class_based_tools(stage: Stage) -> None:
    names = stage.run("class_based")
    names["agent"]("go")
    assert "Query results for: SELECT 1" in stage.texts[0]
    assert "example_db" in stage.texts[0]
    assert names["db_tools"].insert_record(table="t", data={"a": 1}) == "Inserted data into t: {'a': 1}"


def test_modules_as_tools_by_module_and_by_path(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "weather_forecast", raising=False)
    (tmp_path / "weather_forecast.py").write_text(example("module_tool"))
    for name in ("load_module", "load_path"):
        stage.run(name)["agent"]("go")
    monkeypatch.delitem(sys.modules, "weather_forecast", raising=False)
    assert stage.texts == [f"Weather forecast for {city} for the next 3 days..." for city in ("Rome", "Oslo")]


def test_our_agents_take_modules_and_paths_under_the_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strands_cli.runtime.tools import agent_tools

    monkeypatch.chdir(tmp_path)
    (tmp_path / "weather_forecast.py").write_text(example("module_tool"))
    module = types.ModuleType("call_api")
    exec(compile(example("module_async"), "call_api.py", "exec"), vars(module))
    stage = Stage(strands_cli)
    stage.model.enqueue(tool_call("weather_forecast", city=5), tool_call("call_api")).enqueue("done")
    agent = strands.Agent(
        model=stage.model, callback_handler=None, tools=agent_tools(["./weather_forecast.py", module])
    )
    agent("go")
    assert [result["status"] for result in stage.results] == ["error", "success"]
    assert "/city must be a string" in stage.texts[0]
    assert stage.texts[1] == "API result"
