"""The wheel and the sdist: what is in them, and that the wheel alone works, with each extra."""

import json
import os
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from strands_cli import __version__
from tests.distributions.environments import REPOSITORY, Environment, build

PACKAGE = REPOSITORY / "src" / "strands_cli"
EXTRAS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]

ADDS: dict[str, list[str]] = {
    "openai": ["openai"],
    "anthropic": ["anthropic"],
    "ollama": ["ollama"],
    "gemini": ["google.genai"],
    "local": ["xllamacpp"],
    "otel": ["opentelemetry.exporter.otlp.proto.http"],
    "web": ["markdownify", "bs4", "lxml"],
    "keyring": ["keyring"],
    "ml": ["wordllama"],
    "cluster": ["psycopg", "temporalio"],
    "monty": ["pydantic_monty"],
}
"""The modules that each extra brings. Nothing else may."""
TOOLS = {"web": {"web_fetch"}, "ml": {"embeddings", "classifier", "cluster"}}
"""The tools that are unavailable without an extra."""


def test_the_wheel_has_every_file_of_the_package_the_licence_and_nothing_else(own_wheel: Path) -> None:
    files = [file for file in PACKAGE.rglob("*") if file.is_file() and "__pycache__" not in file.parts]
    own = {file.relative_to(PACKAGE.parent).as_posix() for file in files}
    assert own >= {"strands_cli/py.typed", "strands_cli/schema/strands-workflow.schema.json"}
    information = f"strands_cli-{__version__}.dist-info"
    about = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    with ZipFile(own_wheel) as wheel:
        assert {*wheel.namelist()} == own | {f"{information}/{name}" for name in about}
        metadata = wheel.read(f"{information}/METADATA").decode()
    assert f"\nVersion: {__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert re.findall(r"^Provides-Extra: (.*)$", metadata, re.MULTILINE) == sorted(EXTRAS)


def test_the_sdist_has_no_caches_and_builds_the_same_wheel(tmp_path: Path, own_wheel: Path) -> None:
    with tarfile.open(build(REPOSITORY, tmp_path / "sdist", "-t", "sdist")) as archive:
        names = archive.getnames()
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert [name for name in names if "__pycache__" in name or "/." in name.replace("/.gitignore", "")] == []
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "tests/test_house.py"):
        assert f"{unpacked.name}/{name}" in names
    assert build(unpacked, tmp_path / "wheel").read_bytes() == own_wheel.read_bytes()


def test_every_extra_has_its_smoke_test_and_all_is_all_but_monty() -> None:
    assert {*EXTRAS} == {*ADDS, "all"}
    together = [Requirement(text) for text in EXTRAS["all"]]
    for text in (text for extra in {*EXTRAS} - {"all", "monty"} for text in EXTRAS[extra]):
        one = Requirement(text)
        same = [other for other in together if (other.name, other.specifier) == (one.name, one.specifier)]
        assert [other for other in same if other.extras >= one.extras], f"'all' has no {text}"


def test_make_dist_builds_both(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    command = ["make", "-s", "dist", f"ARGS=-d {tmp_path}"]
    subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, capture_output=True, timeout=60)
    assert {file.name for file in tmp_path.iterdir()} == {
        f"strands_cli-{__version__}-py3-none-any.whl",
        f"strands_cli-{__version__}.tar.gz",
    }


def test_the_dockerfile_names_an_extra_and_its_context_has_what_it_copies(own_wheel: Path) -> None:
    text = (REPOSITORY / "Dockerfile").read_text("utf-8")
    assert re.findall(r"^ARG EXTRAS=(.*)$", text, re.MULTILINE)[0] in EXTRAS
    context = (REPOSITORY / ".dockerignore").read_text("utf-8").splitlines()
    kept = {file.name for line in context if line[0] == "!" for file in REPOSITORY.glob(line[1:])}
    assert {*re.findall(r"requirements\S*\.lock", text)} < kept
    with ZipFile(own_wheel) as wheel:
        outside = {Path(name).name for name in wheel.namelist() if "/licenses/" in name}
    assert kept >= outside | {"src", "pyproject.toml", "README.md"}


FLOW = """version: 0
name: smoke
runtime: {provider: scripted, model_id: script.yaml}
agents: {writer: {prompt: You write., tools: [echo]}}
tools: {python: [echo]}
pattern: {type: chain, config: {steps: [{agent: writer, input: Say hi.}]}}
outputs: {artifacts: [{path: out.txt, from: "{{ last_response }}"}]}
"""
SCRIPT = """- {call: echo, with: {message: hi}}
- "It said: {{ result }}"
"""
PRESENT = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        print(name)
    except ModuleNotFoundError:
        pass
"""


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_the_wheel_works_alone_with(extra: str, tmp_path: Path, own_wheel: Path) -> None:
    installed = Environment(tmp_path, f"{own_wheel}[{extra}]" if extra else str(own_wheel))
    assert installed.run("strands", "--version") == f"strands {__version__}\n"
    assert installed.run("strands", "tool", "call", "echo", "message=hi") == "hi\n"

    with_these = {*ADDS} - {"monty"} if extra == "all" else {extra}
    listed = json.loads(installed.run("strands", "list-tools", "--json"))
    assert listed["problems"] == []
    unavailable = {tool["id"] for tool in listed["tools"] if tool["unavailable"]}
    assert unavailable == {tool for name in {*TOOLS} - with_these for tool in TOOLS[name]}
    if "ml" not in with_these:
        said = installed.run("strands", "tool", "call", "embeddings", '{"texts": ["hi"]}', code=18)
        assert "the Python package wordllama is not installed (pip install 'wordllama" in said
    modules = [module for extra in ADDS.values() for module in extra]
    present = installed.run("python", "-c", PRESENT, *modules).split()
    assert present == [module for name in ADDS if name in with_these for module in ADDS[name]]
    if "ml" in with_these:
        said = json.loads(installed.run("strands", "tool", "call", "embeddings", '{"texts": ["hi"]}'))
        assert said["dimensions"] == 256

    (installed.project / "flow.yaml").write_text(FLOW, "utf-8")
    (installed.project / "script.yaml").write_text(SCRIPT, "utf-8")
    assert "It said: hi" in installed.run("strands", "run", "flow.yaml")
    assert (installed.project / "out.txt").read_text("utf-8") == "It said: hi"
