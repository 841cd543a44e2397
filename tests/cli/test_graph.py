"""`strands graph`: Mermaid, DOT and SVG."""

import os
import random
import re
import shutil
import subprocess
import time
from itertools import combinations
from xml.etree import ElementTree

import pytest

from strands_cli.cli.plan import drawn_workflow
from strands_cli.loader import load_spec
from tests.cli.workflows import HOSTILE_GRAPH, PATTERNS, PEOPLE, workflow
from tests.projects import Project

SVG = "{http://www.w3.org/2000/svg}"
ALL = {**PATTERNS, **PEOPLE, "hostile": HOSTILE_GRAPH}

Area = tuple[float, float, float, float]

_MERMAID_LINE = re.compile(
    r"""\s*(?:
      n\d+(?:\(\["[^"]*"\]\)|\["[^"]*"\]|\[\["[^"]*"\]\]|\[/"[^"]*"/\]|\{\{"[^"]*"\}\})  # a node
    | n\d+\ -->(?:\|"[^"]*"\|)?\ n\d+                                                    # an edge
    | subgraph\ g\d+\["[^"]*"\] | end | classDef\ dynamic\ .* | class\ n[\d,n]*\ dynamic
    )""",
    re.VERBOSE,
)


def drawing(project: Project, pattern: str, wanted: str) -> str:
    return drawn_workflow(load_spec(project.write("flow.yaml", workflow(pattern))), wanted)


def random_graph(seed: int, nodes: int) -> str:
    """A graph with loops, conditions, and edges that skip layers."""
    chance = random.Random(seed)
    names = [f"node_{index}" for index in range(nodes)]
    lines = [f"      {name}: {{agent: {chance.choice(['writer', 'critic', 'helper'])}}}" for name in names]
    edges = []
    for index, name in enumerate(names[:-1]):
        for _ in range(chance.choice([1, 1, 2, 3])):
            back = chance.random() < 0.15
            other = chance.choice(names[: index + 1] if back else names[index + 1 : index + 9])
            when = (
                f", when: \"nodes.{name}.response contains 'yes'\"" if back or chance.random() < 0.4 else ""
            )
            edges.append(f"      - {{from: {name}, to: {other}{when}}}")
    head = f"  type: graph\n  config:\n    start: {names[0]}\n    nodes:\n"
    return head + "\n".join(lines) + "\n    edges:\n" + "\n".join(edges) + "\n"


def branches(number: int) -> str:
    lines = [
        f"      - {{id: branch_{index}, steps: [{{agent: helper}}, {{agent: writer}}]}}"
        for index in range(number)
    ]
    return (
        "  type: parallel\n  config:\n    branches:\n" + "\n".join(lines) + "\n    reduce: {agent: critic}\n"
    )


# --- SVG: read back, and measured ---------------------------------------------------------------------------


def areas(picture: ElementTree.Element) -> tuple[list[Area], list[Area], list[Area]]:
    """The rectangles around boxes, labels and frames."""
    boxes = [area(shape) for shape in picture.iter() if shape.get("class") == "shape"]
    rectangles = [*picture.iter(f"{SVG}rect")]
    return (
        boxes,
        [area(one) for one in rectangles if one.get("class") == "label"],
        [area(one) for one in rectangles if one.get("class") == "frame"],
    )


def area(shape: ElementTree.Element) -> Area:
    if shape.tag == f"{SVG}polygon":
        points = [tuple(map(float, point.split(","))) for point in shape.get("points", "").split()]
        across, down = [point[0] for point in points], [point[1] for point in points]
        return min(across), min(down), max(across), max(down)
    x, y, width, height = (float(shape.get(name, "0")) for name in ("x", "y", "width", "height"))
    return x, y, x + width, y + height


def overlap(one: Area, other: Area) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def within(inner: Area, outer: Area) -> bool:
    return outer[0] <= inner[0] and outer[1] <= inner[1] and inner[2] <= outer[2] and inner[3] <= outer[3]


def points_of(line: ElementTree.Element) -> list[tuple[float, float]]:
    """Points along a line of the picture, close to each other."""
    found: list[tuple[float, float]] = []
    for kind, text in re.findall(r"([MLC]) ([^MLC]*)", line.get("d", "")):
        numbers = [float(number) for number in text.split()]
        ends = [*zip(numbers[::2], numbers[1::2], strict=True)]
        if kind == "M":
            found += ends
            continue
        corners = [found[-1], *ends] if kind == "C" else [found[-1], found[-1], ends[0], ends[0]]
        for step in range(1, 41):
            t = step / 40
            shares = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
            found.append(
                (
                    sum(share * corner[0] for share, corner in zip(shares, corners, strict=True)),
                    sum(share * corner[1] for share, corner in zip(shares, corners, strict=True)),
                )
            )
    return found


def assert_readable(text: str) -> None:
    picture = ElementTree.fromstring(text)
    boxes, labels, frames = areas(picture)
    for one, other in combinations(boxes + labels, 2):
        assert not overlap(one, other), (one, other)
    for one, other in combinations(frames, 2):
        assert not overlap(one, other)
    for frame in frames:
        for inner in boxes + labels:
            assert within(inner, frame) or not overlap(inner, frame)
    page = (0.0, 0.0, *map(float, picture.get("viewBox", "").split()[2:]))
    assert all(within(one, page) for one in boxes + labels + frames)  # type: ignore[arg-type]
    for line in picture.iter(f"{SVG}path"):
        if line.get("class") == "line":
            assert_passes_by(line, boxes)


def assert_passes_by(line: ElementTree.Element, boxes: list[Area]) -> None:
    for x, y in points_of(line):
        inside = [box for box in boxes if box[0] + 1 < x < box[2] - 1 and box[1] + 1 < y < box[3] - 1]
        assert not inside, (line.get("d"), inside)


@pytest.mark.parametrize("name", ALL)
def test_nothing_in_a_picture_lies_on_anything_else(inside: Project, name: str) -> None:
    assert_readable(drawing(inside, ALL[name], "svg"))


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 8))]
)
def test_a_graph_of_many_nodes_is_drawn_without_overlaps_and_soon(inside: Project, seed: int) -> None:
    started = time.monotonic()
    text = drawing(inside, random_graph(seed, 10 + 12 * seed), "svg")
    assert time.monotonic() - started < 20
    assert_readable(text)


@pytest.mark.parametrize("number", [1, 13, 50])
def test_many_branches_stand_in_rows(inside: Project, number: int) -> None:
    text = drawing(inside, branches(number), "svg")
    assert_readable(text)
    assert float(re.search(r'width="(\d+)"', text)[1]) < 6000  # type: ignore[index]


def test_a_picture_has_a_title_a_description_and_every_box(inside: Project) -> None:
    picture = ElementTree.fromstring(drawing(inside, PATTERNS["parallel"], "svg"))
    assert picture.findtext(f"{SVG}title") == "demo"
    assert picture.findtext(f"{SVG}desc") == "Shows a pattern"
    keys = [group.get("data-step") for group in picture.iter(f"{SVG}g")]
    assert keys[0] == "start"
    assert {"branches/0/steps/0", "branches/2/steps/1", "reduce", "end"} <= {*keys}
    assert "prefers-color-scheme: dark" in (picture.findtext(f"{SVG}style") or "")


def test_a_picture_has_its_colours_without_a_style_sheet(inside: Project) -> None:
    picture = ElementTree.fromstring(drawing(inside, PATTERNS["graph"], "svg"))
    for one in picture.iter():
        if one.tag in (f"{SVG}rect", f"{SVG}polygon", f"{SVG}path", f"{SVG}text"):
            assert re.fullmatch("#[0-9a-f]{6}|none", one.get("fill", "")), one.attrib


def test_hostile_texts_stay_text_in_a_picture(inside: Project) -> None:
    text = drawing(inside, HOSTILE_GRAPH.replace("漢字", r"\0\x08\uFFFE 漢字"), "svg")
    picture = ElementTree.fromstring(text)
    assert not [*picture.iter(f"{SVG}script")]
    assert "<script" not in text
    assert text.count("</svg>") == 1
    assert "</svg><script>alert(1)</script>" in "".join(picture.itertext())


# --- Mermaid and DOT ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_mermaid_text_has_only_nodes_edges_and_subgraphs(inside: Project, name: str) -> None:
    lines = drawing(inside, ALL[name], "mermaid").splitlines()
    assert lines[:4] == ["---", 'title: "demo"', "---", "flowchart TD"]
    for line in lines[4:]:
        assert _MERMAID_LINE.fullmatch(line), line
    declared = {match for line in lines for match in re.findall(r"^\s*(n\d+)[\[({]", line)}
    used = {match for line in lines if "-->" in line for match in re.findall(r"(n\d+)(?: -->|$)", line)}
    assert used <= declared
    assert sum(line.strip().startswith("subgraph") for line in lines) == lines.count("  end")


def test_hostile_texts_stay_text_in_mermaid(inside: Project) -> None:
    text = drawing(inside, HOSTILE_GRAPH, "mermaid")
    for word in ("<script", "%%", "`", "]]>", "{{ x", "&lt;", "#35; #38"):
        assert word not in text.replace('{{"', "")
    assert "漢字 🦉" in text


@pytest.mark.parametrize("name", ALL)
def test_graphviz_takes_the_dot_text(inside: Project, name: str) -> None:
    text = drawing(inside, ALL[name], "dot")
    assert text.startswith('digraph "demo" {\n')
    if shutil.which("dot") is None:
        if os.environ.get("STRANDS_TEST_REQUIRE") == "all":
            pytest.fail("graphviz's dot is not installed")
        pytest.skip("graphviz's dot is not installed")
    done = subprocess.run(["dot", "-Tplain"], input=text, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr
    assert "syntax error" not in done.stderr


# --- The command --------------------------------------------------------------------------------------------


def test_the_format_follows_from_the_file_that_is_written(project: Project) -> None:
    project.write("flow.yaml", workflow(PATTERNS["chain"]))
    assert "flowchart TD\n" in project.strands("graph", "flow.yaml").out
    assert project.strands("graph", "flow.yaml", "--format", "dot").out.startswith("digraph")
    for name, begins in (("a.svg", "<?xml"), ("a.dot", "digraph"), ("a.mmd", "---")):
        outcome = project.strands("graph", "flow.yaml", "--out", name)
        assert (outcome.exit_code, outcome.out, outcome.err) == (0, "", f"Wrote {name}\n")
        assert (project.root / name).read_text("utf-8").startswith(begins)
    unclear = project.strands("graph", "flow.yaml", "--out", "a.png")
    assert (unclear.exit_code, "Use .svg" in unclear.err) == (2, True)
    assert not (project.root / "a.png").exists()
    refused = project.strands("graph", "flow.yaml", "--out", "nowhere/a.svg")
    assert (refused.exit_code, "nowhere/a.svg cannot be written" in refused.err) == (2, True)
