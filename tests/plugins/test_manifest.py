"""Reading plugin.json: what is taken, and what is said about the rest."""

import json
from pathlib import Path
from typing import Any

import pytest

from strands_cli.plugins.directories import (
    Approved,
    Lock,
    file_changes,
    lock_files,
    lock_key,
    plugin_digests,
    read_plugin_lock,
    switch_plugin,
    write_decision,
)
from strands_cli.plugins.manifest import CliTool, Manifest, Setting, ToolFiles, ToolRequires
from strands_cli.plugins.permissions import find_plugins
from strands_cli.plugins.plugin import PluginReading, read_plugin, undeclared_executables
from strands_cli.schema.validator import published_schema
from strands_cli.tools.sources.plugins import read_named_plugins, scan_plugins
from tests.plugins.makers import SH, Bench
from tests.projects import Project

ECHO = f"{SH}cat\n"
SEED = {
    "name": "my-plugin",
    "cli_tools": [
        {
            "name": "format",
            "path": "cli-tools/format.sh",
            "description": "Format code files",
            "parameters": {
                "type": "object",
                "properties": {"file": {"type": "string", "description": "File to format"}},
                "required": ["file"],
            },
        }
    ],
}


def read(bench: Bench, document: Any, *, name: str = "p") -> PluginReading:
    place = bench.project / "plugins" / name
    (place / "cli-tools").mkdir(parents=True, exist_ok=True)
    text = document if isinstance(document, str) else json.dumps(document, indent=2)
    (place / "plugin.json").write_text(text)
    file = place / "cli-tools" / "format.sh"
    file.write_text(ECHO)
    file.chmod(0o755)
    return read_plugin(place)


def with_tool(**keys: Any) -> dict[str, Any]:
    return {"name": "p", "cli_tools": [{"name": "t", "path": "cli-tools/format.sh", **keys}]}


# --- What is taken ----------------------------------------------------------------------------------------


def test_the_manifest_of_the_seed_is_a_plugin(bench: Bench) -> None:
    plugin = read(bench, SEED).plugin
    assert plugin is not None
    (info,) = plugin.infos("here")
    assert (info.id, info.version, info.timeout, info.line) == ("my-plugin__format", "0.0.0", 30.0, 4)
    assert info.input_schema == SEED["cli_tools"][0]["parameters"]  # type: ignore[index]


def test_every_key_of_the_schema_is_one_of_the_types_and_the_other_way_round() -> None:
    schema = published_schema("plugin").schema
    parts = schema["$defs"]
    tool = parts["tool"]["properties"]
    expected = {
        Manifest: schema["properties"].keys() - {"$schema"},
        CliTool: tool.keys(),
        Setting: parts["setting"]["properties"].keys(),
        ToolFiles: tool["files"]["properties"].keys(),
        ToolRequires: tool["requires"]["properties"].keys(),
    }
    for kind, names in expected.items():
        assert set(kind.__struct_fields__) == names


def test_every_key_of_the_schema_is_described() -> None:
    def undescribed(part: Any, path: str) -> list[str]:
        if not isinstance(part, dict):
            return []
        named = part.get("properties", {})
        missing = [f"{path}/{name}" for name, value in named.items() if not _description(value)]
        inner = [item for key, value in part.items() for item in undescribed(value, f"{path}/{key}")]
        return missing + inner

    def _description(value: dict[str, Any]) -> str:
        target = published_schema("plugin").schema["$defs"].get(value.get("$ref", "").rpartition("/")[2], {})
        return str(value.get("description") or target.get("description", ""))

    assert undescribed(published_schema("plugin").schema, "") == []


def test_a_manifest_may_use_every_key(bench: Bench) -> None:
    document = with_tool(
        description="d", parameters={"type": "object", "properties": {"path": {"type": "string"}}},
        output_schema={"type": "object"}, args=["--json"], mode="fresh", timeout=2, idle_timeout=1.5, retries=2,
        max_output=1000, memory="64MB", network=True, files={"read": ["~/x"], "write": ["."]}, env=["TOKEN"],
        config={"level": {"type": "integer", "default": 3, "enum": [1, 3], "env": "LEVEL", "required": False}},
        effects={"reads": ["file:{path}"]}, annotations={"idempotentHint": True}, requires_consent=True,
        platforms=["linux"], requires={"binaries": ["sh"], "env": ["HOME"], "packages": {"msgspec": ">=0.1"}},
    )  # fmt: skip
    reading = read(bench, {**document, "$schema": "x", "version": "1.2.3", "description": "d", "config": {}})
    assert reading.issues == ()
    assert reading.plugin is not None
    (tool,) = reading.plugin.manifest.cli_tools
    assert (tool.memory_bytes, tool.timeout, tool.mode) == (64 * 1024 * 1024, 2, "fresh")
    assert tool.needs == {
        "packages": {"msgspec": ">=0.1"},
        "binaries": ["sh"],
        "env": ["HOME"],
        "platforms": ["linux"],
    }


def test_an_undeclared_executable_is_known_and_no_tool(bench: Bench) -> None:
    plugin = read(bench, SEED).plugin
    assert plugin is not None
    extra = plugin.directory / "cli-tools" / "extra.sh"
    extra.write_text(ECHO)
    (plugin.directory / "cli-tools" / "README").write_text("no program")
    extra.chmod(0o755)
    assert undeclared_executables(plugin) == ["cli-tools/extra.sh"]
    assert [info.id for info in plugin.infos("")] == ["my-plugin__format"]


# --- What is said about the rest --------------------------------------------------------------------------

WRONG: list[tuple[Any, str, str]] = [
    ("", "", "Invalid JSON"),
    ('{"name": "p",}', "", "Invalid JSON"),
    ('{"name": NaN}', "", "Invalid JSON"),
    ("[" * 60 + "]" * 60, "", "nested more than 50"),
    ("[" * 100_000 + "]" * 100_000, "", "nested more than 50"),
    ("[]", "", "must be an object"),
    ({"cli_tools": []}, "/name", "is missing"),
    ({"name": "p"}, "/cli_tools", "is missing"),
    ({"name": "-p", "cli_tools": []}, "/name", "must be text that matches"),
    ({"name": "p", "cli_tool": []}, "/cli_tool", "There is no key"),
    ({"name": "p", "cli_tools": [{"name": "t"}]}, "/cli_tools/0/path", "is missing"),
    ('{"name": "p", "cli_tools": [], "name": "q"}', "/name", "is used twice"),
    (with_tool(timeout=0), "/cli_tools/0/timeout", "more than 0"),
    (with_tool(memory="1MB"), "/cli_tools/0/memory", "text that matches"),
    (with_tool(memory=5), "/cli_tools/0/memory", "at least"),
    (with_tool(timout=3), "/cli_tools/0/timout", "There is no key"),
    (with_tool(mode="daemon"), "/cli_tools/0/mode", "one of"),
    (with_tool(env=["A-B"]), "/cli_tools/0/env/0", "text that matches"),
    (with_tool(parameters={"type": "array"}), "/cli_tools/0", "not of type object"),
    (
        with_tool(parameters={"type": "object", "properties": {"a": {"type": "strin"}}}),
        "/cli_tools/0/parameters/properties/a/type",
        "not a valid JSON Schema",
    ),
    (
        with_tool(parameters={"dir": {"type": "string"}}),
        "/cli_tools/0/parameters/dir",
        '\'dir\' is a property where a keyword belongs; write "properties": {"dir": …} around it',
    ),
    (
        with_tool(parameters={"properties": {"a": {"type": "object", "b": {"description": "B"}}}}),
        "/cli_tools/0/parameters/properties/a/b",
        "is a property where a keyword belongs",
    ),
    (
        with_tool(output_schema={"anyOf": [{"type": "null"}, {"total": {"type": "integer"}}]}),
        "/cli_tools/0/output_schema/anyOf/1/total",
        "is a property where a keyword belongs",
    ),
    (
        with_tool(output_schema={"minimum": "x"}),
        "/cli_tools/0/output_schema/minimum",
        "not a valid JSON Schema",
    ),
    (with_tool(retries=1), "/cli_tools/0", "idempotentHint or readOnlyHint"),
    (
        with_tool(effects={"reads": ["file:{b}"]}, parameters={"properties": {"a": {}}}),
        "/cli_tools/0",
        "which the input schema does not have",
    ),
    (with_tool(requires={"packages": {"x": "1.0 or so"}}), "/cli_tools/0", "version range"),
    (
        with_tool(requires={"binaries": ["/opt/x/bin/tool"]}),
        "/cli_tools/0/requires/binaries/0",
        "text that matches",
    ),
    (with_tool(path="/bin/sh"), "/cli_tools/0/path", "absolute"),
    (with_tool(path="../../x"), "/cli_tools/0/path", "is outside the plugin"),
    (with_tool(path="cli-tools/none"), "/cli_tools/0/path", "There is no file"),
    (with_tool(path="cli-tools"), "/cli_tools/0/path", "is not a file"),
    (with_tool(path="plugin.json"), "/cli_tools/0/path", "not executable"),
    (
        with_tool(config={"a": {"type": "integer", "default": "x"}}),
        "/cli_tools/0/config/a/default",
        "integer",
    ),
    (with_tool(config={"a": {"enum": [1]}}), "/cli_tools/0/config/a/enum/0", "not a string"),
    (
        with_tool(config={"a": {"sensitive": True, "default": "x"}}),
        "/cli_tools/0/config/a/default",
        "not a secret",
    ),
    (with_tool(config={"a": {"env": "PATH"}}), "/cli_tools/0/config/a/env", "not for a setting"),
    (with_tool(config={"a": {"env": "X"}, "b": {"env": "X"}}), "/cli_tools/0/config/b", "uses it too"),
    (with_tool(env=["P_A"], config={"a": {}}), "/cli_tools/0/config/a", "passes P_A on"),
]


@pytest.mark.parametrize(("document", "pointer", "reason"), WRONG)
def test_what_is_wrong_is_told_with_its_place(bench: Bench, document: Any, pointer: str, reason: str) -> None:
    reading = read(bench, document)
    assert reading.plugin is None
    issue = next((issue for issue in reading.issues if issue.pointer == pointer), None)
    assert issue is not None, reading.issues
    assert reason in issue.reason
    assert issue.remediation
    assert issue.file == str(bench.project / "plugins" / "p" / "plugin.json")
    assert issue.line >= 1


def test_a_name_that_no_provider_takes_is_refused(bench: Bench) -> None:
    reading = read(bench, with_tool(name="t" * 61) | {"name": "plugin"})
    assert [issue.pointer for issue in reading.issues] == ["/cli_tools/0/name"]
    assert "69 characters; the limit is 64" in reading.issues[0].reason


def test_all_problems_of_a_file_are_told_at_once(bench: Bench) -> None:
    document = with_tool(path="none", retries=1, config={"a": {"type": "integer", "default": "x"}})
    pointers = [issue.pointer for issue in read(bench, document).issues]
    assert pointers == ["/cli_tools/0/path", "/cli_tools/0/config/a/default", "/cli_tools/0"]


def test_a_place_in_the_file_is_that_of_the_key(bench: Bench) -> None:
    text = '{\n  "name": "p",\n  "cli_tools": [\n    {"name": "t",\n     "path": "none"}\n  ]\n}\n'
    (issue,) = read(bench, text).issues
    assert (issue.line, issue.column, issue.pointer) == (5, 6, "/cli_tools/0/path")


def test_a_script_that_the_kernel_would_not_execute_is_told(bench: Bench) -> None:
    place = bench.plugin(
        {"source": "echo hi\n", "name": "a"}, {"source": "#!/bin/sh\r\necho\r\n", "name": "b"}
    )
    reasons = [issue.reason for issue in read_plugin(place).issues]
    assert "nor a script with a #! line" in reasons[0]
    assert "end in CRLF" in reasons[1]


def test_a_missing_x_bit_is_told_with_the_command(bench: Bench) -> None:
    place = bench.plugin({"source": ECHO})
    (place / "cli-tools" / "t").chmod(0o644)
    (issue,) = read_plugin(place).issues
    assert issue.remediation == f"Run: chmod +x {place}/cli-tools/t"


def test_a_link_out_of_the_plugin_is_refused_and_one_inside_is_not(bench: Bench) -> None:
    place = bench.plugin({"path": "cli-tools/out", "name": "out"}, {"path": "cli-tools/in", "name": "in"})
    (bench.outside / "program").write_text(ECHO)
    (place / "cli-tools" / "out").symlink_to(bench.outside / "program")
    (place / "real").write_text(ECHO)
    (place / "real").chmod(0o755)
    (place / "cli-tools" / "in").symlink_to("../real")
    assert [issue.pointer for issue in read_plugin(place).issues] == ["/cli_tools/0/path"]


# --- Discovery --------------------------------------------------------------------------------------------


def test_a_bad_plugin_is_reported_and_the_others_load(bench: Bench) -> None:
    bench.plugin({"source": ECHO}, name="good")
    bench.plugin({"path": "none"}, name="bad")
    reading = scan_plugins(bench.settings)
    assert [info.id for info in reading.infos] == ["good__t"]
    assert [Path(issue.file).parent.name for issue in reading.issues] == ["bad"]


def test_the_projects_plugins_come_before_the_users(bench: Bench) -> None:
    bench.plugin({"source": ECHO}, name="ours")
    mine = bench.root / "config" / "strands-cli" / "plugins"
    mine.mkdir(parents=True)
    bench.plugin({"source": ECHO}, name="mine").rename(mine / "mine")
    (mine / "no-plugin").mkdir()
    (mine / ".hidden").mkdir()
    found = scan_plugins(bench.settings).infos
    assert [(info.id, info.origin) for info in found] == [
        ("ours__t", "plugins/ours"),
        ("mine__t", str(mine / "mine")),
    ]


def test_a_plugin_that_is_switched_off_has_no_tools_but_is_found(bench: Bench) -> None:
    place = bench.plugin({"source": ECHO})
    switch_plugin(place.resolve(), is_enabled=False)
    assert scan_plugins(bench.settings).infos == ()
    (found,) = find_plugins(bench.settings)
    assert (found.name, found.owner, found.is_enabled) == ("p", "project", False)


def test_a_damaged_state_switches_nothing_on(bench: Bench) -> None:
    bench.plugin({"source": ECHO})
    file = bench.root / "config" / "strands-cli" / "plugins.json"
    file.parent.mkdir(parents=True)
    file.write_text("{")
    reading = scan_plugins(bench.settings)
    assert reading.infos == ()
    assert "plugins.json cannot be read" in reading.issues[0].reason


def approve(bench: Bench, place: Path) -> Path:
    lock = lock_files(bench.project)[0]
    key = lock_key(place, lock)
    assert key == "plugins/p"
    write_decision(lock, Lock(plugins={key: Approved(files=plugin_digests(place), source="somewhere")}))
    return lock


def test_a_plugin_that_changed_since_its_approval_is_a_problem_of_the_listing(bench: Bench) -> None:
    place = bench.plugin({"source": ECHO})
    lock = approve(bench, place)
    assert scan_plugins(bench.settings).issues == ()
    (place / "cli-tools" / "t").write_text(f"{SH}echo changed\n")
    (place / "lib.sh").write_text("x")
    (issue,) = scan_plugins(bench.settings).issues
    assert "p has changed since it was approved (new: lib.sh; changed: cli-tools/t)" in issue.reason
    assert "strands plugin update p" in issue.remediation
    approved = read_plugin_lock(lock).plugins["plugins/p"]
    assert file_changes(approved.files, plugin_digests(place)).changed == ("cli-tools/t",)


def test_a_link_in_place_of_an_approved_plugin_is_a_change(bench: Bench) -> None:
    place = bench.plugin({"source": ECHO})
    approve(bench, place)
    place.rename(bench.outside / "p")
    (bench.outside / "p" / "more").write_text("x")
    place.symlink_to(bench.outside / "p")
    (issue,) = scan_plugins(bench.settings).issues
    assert "new: more" in issue.reason


def test_a_lock_that_cannot_be_read_is_a_problem(bench: Bench) -> None:
    place = bench.plugin({"source": ECHO})
    approve(bench, place).write_text(json.dumps({"version": 9, "plugins": {}}))
    (issue,) = scan_plugins(bench.settings).issues
    assert "has the version 9" in issue.reason


def test_a_workflow_names_plugins_by_name_or_by_directory(bench: Bench) -> None:
    bench.plugin({"source": ECHO}, name="named")
    elsewhere = bench.outside / "flow" / "mine"
    elsewhere.parent.mkdir()
    bench.plugin({"source": ECHO}, name="mine").rename(elsewhere)

    def wanted(name: str) -> list[str]:
        return [info.id for info in read_named_plugins([name], elsewhere.parent, bench.settings)[0].infos]

    assert wanted("named") == ["named__t"]
    assert wanted("./mine") == wanted("mine") == wanted(str(elsewhere)) == ["mine__t"]
    (issue,) = read_named_plugins(["nowhere"], elsewhere.parent, bench.settings)[0].issues
    assert "There is no plugin 'nowhere'" in issue.reason
    switch_plugin(bench.project / "plugins" / "named", is_enabled=False)
    (issue,) = read_named_plugins(["named"], elsewhere.parent, bench.settings)[0].issues
    assert "is disabled" in issue.reason


def test_the_commands_know_plugins_as_any_tool(project: Project) -> None:
    place = project.root / "plugins" / "p"
    project.write("plugins/p/plugin.json", json.dumps(SEED | {"name": "p"}))
    project.write("plugins/p/cli-tools/format.sh", ECHO).chmod(0o644)
    refused = project.strands("tool", "call", "p__format", "{}")
    assert "Failed to load tool 'p__format': cli-tools/format.sh is not executable." in refused.err
    (place / "cli-tools" / "format.sh").chmod(0o755)
    for _ in range(2):  # the second time from the cache
        listed = {tool["id"]: tool for tool in project.strands("list-tools", "--json").json["tools"]}
        assert listed["p__format"]["source"] == "plugin"
    assert "File to format" in project.strands("tool", "show", "p__format").out
    assert project.strands("tool", "check").exit_code == 0
    (place / "plugin.json").write_text(json.dumps(SEED | {"name": "q"}))
    ids = [tool["id"] for tool in project.strands("list-tools", "--json").json["tools"]]
    assert "q__format" in ids
    assert "p__format" not in ids


def test_listing_executes_nothing(project: Project) -> None:
    project.write("plugins/p/plugin.json", json.dumps(with_tool()))
    project.write("plugins/p/cli-tools/format.sh", f"{SH}touch {project.root}/ran\n").chmod(0o755)
    for command in (["list-tools"], ["tool", "show", "p__t"], ["tool", "check"]):
        assert project.strands(*command).exit_code == 0
    assert not (project.root / "ran").exists()


def test_mistakes_of_form_hide_no_others(bench: Bench) -> None:
    bad_schema = {"type": "object", "properties": {"a": {"type": "integre"}}}
    tools = [
        {"name": "not a name", "path": "../out"},
        {"name": "x", "path": "cli-tools/x", "timeout": "5", "env": ["A", 1], "parameters": bad_schema},
        {"name": "x", "path": "cli-tools/x"},
        7,
    ]
    place = bench.plugin({"name": "x", "source": SH})
    (place / "plugin.json").write_text(json.dumps({"name": "p", "version": "1", "cli_tools": tools}))
    issues = {issue.pointer: issue.remediation for issue in read_plugin(place).issues}
    assert set(issues) == {
        "/version",
        "/cli_tools/0/name",
        "/cli_tools/0/path",
        "/cli_tools/1/timeout",
        "/cli_tools/1/env/1",
        "/cli_tools/1/parameters/properties/a/type",
        "/cli_tools/2/name",
        "/cli_tools/3",
    }
    assert issues["/version"].endswith('such as 1.2.3. For example: "1.0.0".')
    assert issues["/cli_tools/1/timeout"] == "The time limit of a call, in seconds."


def test_a_tool_whose_setting_has_no_value_is_listed_as_unavailable(project: Project) -> None:
    project.write("plugins/p/run", SH).chmod(0o755)
    tool = {"name": "t", "path": "run", "config": {"region": {}, "zone": {"default": "a"}}}
    project.write("plugins/p/plugin.json", json.dumps({"name": "p", "cli_tools": [tool]}))
    assert "[unavailable: the environment variable P_REGION is not set]" in project.strands("list-tools").out
    assert "unavailable" not in project.strands("list-tools", P_REGION="x").out.partition("p__t")[2]


def test_a_manifest_with_thousands_of_problems_is_answered_soon_with_the_first_of_them(
    tmp_path: Path,
) -> None:
    hints = {f"idempotentHint{number}": True for number in range(9000)}
    tool = {"name": "format", "path": "format.sh", "annotations": hints}
    manifest = {"name": "p", "version": "1.0.0", "cli_tools": [tool]}
    (tmp_path / "plugin.json").write_text(json.dumps(manifest), "utf-8")
    reading = read_plugin(tmp_path)
    assert reading.plugin is None
    assert [issue.pointer for issue in reading.issues[:2]] == [
        "/cli_tools/0/annotations/idempotentHint0",
        "/cli_tools/0/annotations/idempotentHint1",
    ]
    assert len(reading.issues) < 1000
