"""Skills: told of in the system prompt, loaded on demand, from their own directory only."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.contract import Tool
from strands_cli.tools.sources.skills import MAX_BYTES, skill_tools, skills_prompt
from strands_cli.types.sections import Skill
from tests.fakes import tool_call
from tests.projects import Project
from tests.runtime.agents import Setting, code_of, text_of
from tests.swaps import swapping

FORMS = Skill(id="forms", path="skills/forms")
MAIN = "---\nname: forms\ndescription: >\n  Fill in\n  forms.\n---\n\n# Forms\n\nAsk first. See fields.md.\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workflow's directory with one skill, and things around it that are nobody's business."""
    root = tmp_path / "flow"
    skill = root / "skills" / "forms"
    (skill / "examples").mkdir(parents=True)
    (skill / "SKILL.md").write_text(MAIN)
    (skill / "fields.md").write_text("A field has a name.\n")
    (skill / "examples" / "one.txt").write_text("Ada\n")
    (skill / "logo.png").write_bytes(b"\x89PNG\xff\xfe")
    (skill / ".hidden").write_text("x")
    (root / "secret.txt").write_text("hunter2")
    return root


def load(root: Path, skills: tuple[Skill, ...] = (FORMS,), **arguments: Any) -> dict[str, Any]:
    (tool,) = skill_tools(skills, root)
    return dict(asyncio.run(call_tool(tool, {"toolUseId": "1", "input": {"id": "forms", **arguments}})))


def test_the_prompt_lists_the_skills_and_how_one_is_loaded(root: Path) -> None:
    own = Skill(id="style", path="skills/style", description="Write\nplainly.")
    prompt = skills_prompt((FORMS, own), root)
    assert "'load_skill'" in prompt
    assert prompt.splitlines()[-2:] == ["- forms: Fill in forms.", "- style: Write plainly."]


def test_without_skills_there_is_neither_a_tool_nor_a_prompt(root: Path) -> None:
    assert (skill_tools((), root), skills_prompt((), root)) == ([], "")


@pytest.mark.parametrize(
    "text", ["", "no front matter", "---\n: [\n---\nx", "---\n- list\n---\n", "---\nnever ends"]
)
def test_a_skill_without_a_description_is_still_listed(root: Path, text: str) -> None:
    (root / "skills/forms/SKILL.md").write_text(text)
    assert skills_prompt((FORMS,), root).endswith("\n- forms")
    assert load(root)["status"] == "success"


def test_loading_a_skill_gives_its_instructions_and_the_names_of_its_other_files(root: Path) -> None:
    text = text_of(load(root))
    assert text.startswith("# Forms\n\nAsk first.")
    listed = text.partition("Further files of this skill:\n")[2].splitlines()
    assert listed == ["- examples/one.txt", "- fields.md", "- logo.png"]


@pytest.mark.parametrize(
    ("file", "text"), [("fields.md", "A field has a name.\n"), ("examples/one.txt", "Ada\n")]
)
def test_another_file_of_the_skill_is_loaded_by_name(root: Path, file: str, text: str) -> None:
    assert text_of(load(root, file=file)) == text


@pytest.mark.parametrize(
    "file",
    [
        "../../secret.txt",
        "/etc/passwd",
        "examples/../../../secret.txt",
        "..\\..\\secret.txt",
        "C:\\secret.txt",
    ],
)
def test_a_path_that_leaves_the_skill_is_denied(root: Path, file: str) -> None:
    result = load(root, file=file)
    assert code_of(result) == "denied"
    assert "hunter2" not in str(result)


@pytest.mark.parametrize("link", ["fields.md", "examples"])
def test_a_link_that_leaves_the_skill_is_denied_and_not_listed(root: Path, link: str) -> None:
    skill = root / "skills/forms"
    (skill / "away").symlink_to(root / "secret.txt" if link == "fields.md" else root)
    assert code_of(load(root, file="away" if link == "fields.md" else "away/secret.txt")) == "denied"
    assert "away" not in text_of(load(root))


def test_a_link_within_the_skill_may_be_followed(root: Path) -> None:
    (root / "skills/forms/same.md").symlink_to("fields.md")
    assert text_of(load(root, file="same.md")) == "A field has a name.\n"


@pytest.mark.parametrize("path", ["../flow/skills/forms", "/etc", "away"])
def test_a_skill_outside_the_workflows_directory_is_denied(root: Path, path: str) -> None:
    (root / "away").symlink_to(root.parent)
    (root.parent / "SKILL.md").write_text("---\ndescription: stolen\n---\nhunter2")
    skill = Skill(id="forms", path=path)
    assert code_of(load(root, (skill,))) == "denied"
    assert "stolen" not in skills_prompt((skill,), root)


def test_a_skill_that_is_swapped_for_a_link_leads_nowhere(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    for name in ("SKILL.md", "fields.md"):
        (outside / name).write_text("hunter2")
    seen = set()
    with swapping(root / "skills", "forms", outside):
        for _ in range(300):
            result = load(root, file="fields.md")
            seen.add(result["status"])
            assert "hunter2" not in str(result)
            assert "hunter2" not in str(load(root))
    assert "success" in seen


def test_what_cannot_be_loaded_says_why_and_what_there_is(root: Path) -> None:
    os.mkfifo(root / "skills/forms/pipe")
    missing = load(root, file="field.md")
    assert (code_of(missing), "'fields.md'" in text_of(missing)) == ("not_found", True)
    assert "fields.md" in text_of(load(root, file="nothing"))
    assert "not a regular file" in text_of(load(root, file="examples"))
    assert "not a regular file" in text_of(load(root, file="pipe"))
    assert "not text" in text_of(load(root, file="logo.png"))
    assert code_of(load(root, file="a\0b")) == "not_found"
    assert code_of(load(root, id="form")) == "input_invalid"
    for path in ("skills/gone", "gone/skills/forms", "secret.txt/forms"):
        gone = Skill(id="forms", path=path)
        assert code_of(load(root, (gone,))) == "not_found"
        assert skills_prompt((gone,), root).endswith("\n- forms")


def test_a_long_file_is_cut(root: Path) -> None:
    (root / "skills/forms/long.md").write_text("é" * MAX_BYTES)
    text = text_of(load(root, file="long.md"))
    assert len(text.encode()) < MAX_BYTES + 100
    assert f"of {2 * MAX_BYTES} bytes" in text


def test_an_agent_loads_a_skill_in_the_midst_of_its_work(root: Path) -> None:
    setting = Setting(*skill_tools((FORMS,), root), system_prompt=skills_prompt((FORMS,), root))
    (result,) = setting.turn(tool_call("load_skill", id="Forms"))
    assert "Ask first." in text_of(result)
    assert "forms: Fill in forms." in str(setting.model.requests[0].system_prompt)


def test_the_tool_keeps_clear_of_an_agents_own_tools(root: Path) -> None:
    (tool,) = skill_tools((FORMS,), root, ["load_skill"])
    assert isinstance(tool, Tool)
    assert tool.id == "load_skill_2"
    assert "'load_skill_2'" in skills_prompt((FORMS,), root, ["load_skill"])


def test_a_readme_stands_in_for_a_missing_main_file(root: Path) -> None:
    skill = root / "skills/forms"
    (skill / "README.md").write_text("# Read me\n")
    assert "- README.md" in text_of(load(root))
    (skill / "SKILL.md").rename(skill / "README.md")
    text = text_of(load(root))
    assert text.startswith("# Forms\n\nAsk first.")
    assert "- fields.md" in text
    assert "README" not in text
    assert skills_prompt((FORMS,), root).endswith("- forms: Fill in forms.")


def test_a_skill_that_is_a_file_is_an_error_of_the_workflow(inside: Project) -> None:
    inside.write("skills/one.md", "# One\n")
    inside.write("skills/two/README.md", "# Two\n")
    skills = "skills: [{id: one, path: skills/one.md}, {id: two, path: skills/two}]\n"
    inside.write_workflow(
        "version: 0\nname: x\nruntime: {provider: ollama}\nagents: {a: {prompt: p}}\n"
        "pattern: {type: chain, config: {steps: [{agent: a}]}}\n" + skills
    )
    outcome = inside.strands("validate", "flow.yaml", "--json")
    assert outcome.exit_code == 18
    assert [(issue["pointer"], issue["reason"]) for issue in outcome.json["files"][0]["issues"]] == [
        ("/skills/0/path", "'skills/one.md' is a file, and a skill is a directory.")
    ]
