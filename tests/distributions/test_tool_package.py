"""`strands tool package`: a project's tools as a package that pip installs."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from strands_cli import __version__
from tests.distributions.environments import Environment
from tests.projects import Project

GREET = '''"""Greet people."""

import pricing.tax
from strands_cli import tool
from tools._marks import MARK

from ._words import HELLO


@tool(version="1.2.0", requires={"jinja2": ">=3", "packages": {"pyyaml": "*"}})
def greet(name: str) -> str:
    """Greet somebody.

    from tools that greet
    """
    import httpx
    import yaml
    return f"{HELLO}, {name}{MARK} {pricing.tax.RATE}"


@tool(version="1.0.0", name="greet", deprecated=True)
def greet_1(name: str) -> str:
    """Greet somebody, as before."""
    return "Hi"
'''
LEVEL = '''from pathlib import Path
from strands_cli import tool
from .._words import HELLO


@tool
def stock_level(article: str) -> str:
    """Tell how much there is."""
    return Path(__file__).with_name("levels.txt").read_text()


@tool
def stock_place(article: str) -> str:
    """Tell where it is."""
    return "shelf 4"
'''
FAMILY = '''"""The warehouse."""
from strands_cli.tools.registry import ToolSpec

TOOL_SPECS = [
    ToolSpec(id="stock_level", module_path="tools.stock.level", version="2.0.0"),
    ToolSpec(id="stock_place", module_path="tools.stock.level", version="0.3.0"),
]
'''


@pytest.fixture
def shop(project: Project) -> Project:
    files = {
        "tools/greet.py": GREET,
        "tools/_words.py": 'HELLO = "Hello"\n',
        "tools/_marks.py": 'MARK = "!"\n',
        "tools/_unused.py": "",
        "tools/stock/__init__.py": FAMILY,
        "tools/stock/level.py": LEVEL,
        "tools/stock/levels.txt": "42",
        "pricing/__init__.py": "",
        "pricing/tax.py": "from .rates import RATE\n",
        "pricing/rates.py": "RATE = 19\n",
        "tests/test_greet.py": "from tools.greet import greet\n",
        "LICENSE": "Free.\n",
    }
    for name, text in files.items():
        project.write(name, text)
    return project


def metadata(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((directory / "pyproject.toml").read_text("utf-8"))["project"]
    return found


def files_in(directory: Path) -> set[str]:
    return {file.relative_to(directory).as_posix() for file in directory.rglob("*") if file.is_file()}


def test_all_tools_are_packaged_with_all_that_they_import(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    done = shop.here(capsys, "tool", "package", "--name", "Acme-Tools", "--author", "Ada <ada@acme.example>")
    assert done.exit_code == 0, done.err
    made = shop.root / "dist-tools" / "acme-tools"
    modules = {"__init__.py", "greet.py", "_words.py", "_marks.py"}
    family = {"stock/__init__.py", "stock/level.py", "stock/levels.txt"}
    assert files_in(made) == {
        *("pyproject.toml", "README.md", "LICENSE", "tests/test_greet.py"),
        *(f"src/acme_tools/{name}" for name in modules | family),
        *(f"src/pricing/{name}" for name in ("__init__.py", "tax.py", "rates.py")),
    }
    about = metadata(made)
    assert (about["name"], about["version"], about["description"]) == (
        "acme-tools",
        "2.0.0",
        "Tools for strands-cli: greet, stock_level, stock_place",
    )
    assert about["authors"] == [{"name": "Ada", "email": "ada@acme.example"}]
    series = ".".join(__version__.split(".")[:2])
    assert about["dependencies"] == [f"strands-cli>={series}", "httpx>=0.28", "jinja2>=3", "pyyaml"]
    assert about["entry-points"] == {
        "strands_cli.tools": {"greet": "acme_tools.greet", "stock": "acme_tools.stock"}
    }
    text = (made / "src/acme_tools/greet.py").read_text("utf-8")
    assert "from acme_tools._marks import MARK" in text
    assert "    from tools that greet\n" in text
    assert (made / "tests/test_greet.py").read_text("utf-8") == "from acme_tools.greet import greet\n"
    assert "greet.py imports httpx without requires={'httpx': '>=0.28'}; it becomes a dependency." in done.err
    assert [path.name for path in (shop.root / "dist-tools").iterdir()] == ["acme-tools"]


def test_one_tool_of_a_family_gets_an_entry_point_of_its_own(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    out = shop.root / "made"
    done = shop.here(capsys, "tool", "package", "stock_place", "greet@1.0.0", "--out", str(out), "--json")
    assert done.json["tools"] == ["greet@1.0.0", "stock_place@0.3.0"]
    assert metadata(out)["entry-points"]["strands_cli.tools"] == {
        "stock_place": f"{done.json['name'].replace('-', '_')}.stock.level:stock_place",
        "greet": f"{done.json['name'].replace('-', '_')}.greet:greet_1",
    }


def test_one_family_gives_the_package_its_name(shop: Project, capsys: pytest.CaptureFixture[str]) -> None:
    done = shop.here(capsys, "tool", "package", "stock", "--json")
    assert (done.json["name"], done.json["version"], done.json["built"]) == ("stock-tools", "2.0.0", [])
    assert "src/pricing/tax.py" not in done.json["files"]
    assert "src/stock_tools/_words.py" in done.json["files"]


def test_options_come_before_what_the_tools_say(shop: Project, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--version", "3.0rc1", "--description", 'A "small"\nshop', "--out", "made")
    assert shop.here(capsys, "tool", "package", "stock", *given).exit_code == 0
    about = metadata(shop.root / "made")
    assert (about["version"], about["description"]) == ("3.0rc1", 'A "small" shop')


@pytest.mark.parametrize(
    ("arguments", "reason", "code"),
    [
        (["grete"], "There is no tool and no family 'grete' in this project.\n  Did you mean 'greet'?", 2),
        (["echo"], "echo is not a tool of this project: it comes from strands-cli.", 2),
        (["--name", "json"], "The name 'json' is taken by a module of Python.", 2),
        (["--name", "click"], "The name 'click' is taken by the installed package click.", 2),
        (["--name", "strands_cli"], "The name 'strands_cli' is taken by strands-cli.", 2),
        (["--name", "pricing"], "The name 'pricing' is taken by the module pricing of this project.", 2),
        (["--name", "1st"], "'1st' cannot be the name of a package.", 2),
        (["--version", "one"], "'one' is not a version of a Python package.", 2),
        (["--author", "<"], "'<' is not an author.", 2),
        (["--out", "tools"], "tools already exists.", 12),
        (["--out", "LICENSE/made"], "LICENSE/made cannot be written: ", 12),
    ],
)
def test_what_cannot_be_packaged_is_refused_and_nothing_is_written(
    shop: Project, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str, code: int
) -> None:
    before = files_in(shop.root)
    done = shop.here(capsys, "tool", "package", *arguments)
    assert (done.exit_code, done.out) == (code, "")
    assert done.err.startswith(f"error: {reason}")
    assert files_in(shop.root) == before
    assert not (shop.root / "dist-tools").exists()


def test_a_project_without_tools_has_nothing_to_package(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    done = project.here(capsys, "tool", "package")
    assert done.exit_code == 2
    assert "There is nothing to package" in done.err


WRONG = [
    ("import tools._words", "'import tools._words' means another package once installed."),
    ("from ._nothing import x", "The module ._nothing is not found."),
    ("from tools.nothing import x", "The module tools.nothing is not found."),
    ("from .. import pricing", "The import leaves tools/."),
    ("import no_such_module", "The module no_such_module is not found."),
]


def test_imports_that_would_not_work_are_told_with_their_lines(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = "".join(f"{line}\n" for line, _ in WRONG)
    optional = "try:\n    import no_such_thing\nexcept ImportError:\n    pass\n"
    shop.write("tools/_words.py", f"{lines}{optional}HELLO = 1\n")
    done = shop.here(capsys, "tool", "package", "greet", "--json")
    assert done.exit_code == 3
    issues = [(issue["line"], issue["reason"]) for issue in done.json["error"]["issues"]]
    assert issues == [(number, reason) for number, (_, reason) in enumerate(WRONG, 1)]
    assert {Path(issue["file"]).name for issue in done.json["error"]["issues"]} == {"_words.py"}


def test_a_link_out_of_the_project_and_a_name_that_no_import_has_are_refused(
    shop: Project, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    secret = tmp_path.parent / "secret.txt"
    secret.write_text("secret")
    levels = shop.root / "tools/stock/levels.txt"
    levels.unlink()
    levels.symlink_to(secret)
    done = shop.here(capsys, "tool", "package", "stock")
    assert done.exit_code == 3
    assert "The file is outside the project." in done.err
    levels.unlink()
    (shop.root / "LICENSE").unlink()
    (shop.root / "LICENSE").symlink_to(secret)
    licence = shop.here(capsys, "tool", "package", "stock")
    assert licence.exit_code == 3
    assert "Replace it with a file of the project, or remove it." in licence.err
    (shop.root / "LICENSE").unlink()
    shop.write("tools/stock/_my-words.py", "")
    done = shop.here(capsys, "tool", "package", "stock")
    assert (done.exit_code, "_my-words.py cannot be imported" in done.err) == (3, True)


def test_only_data_that_a_module_names_or_the_author_asks_for_is_shipped(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.write("tools/stock/_pages.py", 'PAGES = __file__ + "pages/*.html"\nALL = "*"\n')
    shop.write("tools/stock/test_level.py", "import pytest\n")
    named = {"stock/levels.txt", "stock/pages/a.html", "stock/py.typed"}
    unnamed = [f"tools/stock/{name}" for name in ("customers.csv", "prod.env", "test_level.py")]
    for name in ("tools/stock/customers.csv", "tools/stock/prod.env", *(f"tools/{one}" for one in named)):
        shop.write(name, "")
    first = shop.here(capsys, "tool", "package", "stock", "--out", "first")
    assert first.exit_code == 0, first.err
    listed = "".join(f"  {name}\n" for name in unnamed)
    assert f"Left out, since no module names them (--include adds them):\n{listed}" in first.err
    data = {f for f in files_in(shop.root / "first/src/stock_tools") if not f.endswith(".py")}
    assert data == named
    second = shop.here(
        capsys,
        *("tool", "package", "stock", "--include", "tools/stock/*.csv", "--include", "tools/stock/prod.env"),
        *("--out", "second", "--json"),
    )
    assert second.json["left_out"] == ["tools/stock/test_level.py"]
    assert {"src/stock_tools/stock/customers.csv", "src/stock_tools/stock/prod.env"} <= {
        *second.json["files"]
    }
    assert "pytest" not in str(second.json["dependencies"])


def test_a_tool_in_a_single_file_has_the_data_beside_it(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.write("tools/_words.py", 'HELLO = open("hello.txt")\n')
    for name in ("hello.txt", "other.txt", "stock/customers.csv"):
        shop.write(f"tools/{name}", "")
    done = shop.here(capsys, "tool", "package", "greet", "--json")
    assert "src/greet_tools/hello.txt" in done.json["files"]
    assert done.json["left_out"] == ["tools/other.txt"]


def test_data_is_found_by_the_end_of_a_path_and_by_a_name_with_brackets(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'HERE = "."\nONE = f"{HERE}/one.csv"\nALL = HERE + "/pages/*.html"\nODD = "two [1].csv"\n'
    shop.write("tools/stock/_places.py", text)
    for name in ("one.csv", "pages/a.html", "two [1].csv", "three [2].csv"):
        shop.write(f"tools/stock/{name}", "")
    asked = ("--include", "tools/stock/three [2].csv")
    done = shop.here(capsys, "tool", "package", "stock", "--json", *asked)
    assert done.exit_code == 0, done.err
    assert not done.json["left_out"]


@pytest.mark.parametrize(
    "pattern",
    ["tools/stock/regions", "tools/stock/regions/", "tools/**/*.csv", "tools/stock/**", "north.csv"],
)
def test_data_is_included_by_its_directory_and_by_patterns(
    shop: Project, capsys: pytest.CaptureFixture[str], pattern: str
) -> None:
    shop.write("tools/stock/regions/north.csv", "")
    shop.write("tools/stock/regions/local.env", "")
    done = shop.here(capsys, "tool", "package", "stock", "--include", pattern, "--json")
    assert done.exit_code == 0, done.err
    assert "src/stock_tools/stock/regions/north.csv" in done.json["files"]
    assert "tools/stock/regions/local.env" in done.json["left_out"]


@pytest.mark.parametrize("name", ["api_key.json", "apikey.txt", "openai-api-keys.txt"])
def test_an_api_key_is_a_secret_whatever_pattern_fits_it(
    shop: Project, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    shop.write(f"tools/stock/{name}", "s3cret")
    shop.write("tools/stock/_access.py", 'DATA = "*.json", "*.txt"\n')
    done = shop.here(capsys, "tool", "package", "stock")
    assert done.exit_code == 3
    assert f"tools/stock/{name} looks like a secret" in done.err


def test_a_secret_that_a_tool_reads_is_refused_where_it_is_named(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.write("tools/stock/api.key", "s3cret")
    shop.write("tools/stock/_access.py", '\nKEY = "api.key"\n')
    done = shop.here(capsys, "tool", "package", "stock")
    assert done.exit_code == 3
    assert "tools/stock/_access.py:2  error\n  tools/stock/api.key looks like a secret" in done.err
    by_pattern = shop.here(capsys, "tool", "package", "stock", "--include", "*.key")
    assert by_pattern.exit_code == 2
    assert by_pattern.err.startswith("error: No data file of these tools fits --include '*.key'.")
    asked = shop.here(capsys, "tool", "package", "stock", "--include", "tools/stock/api.key")
    assert asked.exit_code == 0, asked.err
    assert "src/stock_tools/stock/api.key" in files_in(shop.root / "dist-tools/stock-tools")


def test_what_is_printed_and_written_about_a_package_survives_its_readers(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.write(
        "tools/pick.py", 'from strands_cli import tool\n\n@tool\ndef pick() -> str:\n    """Say a|b."""\n'
    )
    done = shop.here(capsys, "tool", "package", "pick", "--out", "my packages")
    assert done.err.endswith("Install it: pip install 'my packages'\n")
    assert r"| `pick` | 0.0.0 | Say a\|b. |" in (shop.root / "my packages/README.md").read_text()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_an_installed_package_of_tools_works(shop: Project, own_wheel: Path, tmp_path: Path) -> None:
    done = shop.strands("tool", "package", "--name", "acme-tools", "--build", "--json")
    assert done.exit_code == 0, done.err
    directory = shop.root / done.json["directory"]
    wheel, sdist = (directory / name for name in done.json["built"])
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    installed = Environment(elsewhere, str(own_wheel), str(wheel))
    listed = json.loads(installed.run("strands", "list-tools", "--json"))
    assert listed["problems"] == []
    ours = {
        (tool["id"], tool["version"], tool["origin"])
        for tool in listed["tools"]
        if tool["source"] == "package"
    }
    assert ours == {
        (name, version, "acme-tools 2.0.0")
        for name, version in [
            ("greet", "1.2.0"),
            ("greet", "1.0.0"),
            ("stock_level", "2.0.0"),
            ("stock_place", "0.3.0"),
        ]
    }
    assert installed.run("strands", "tool", "call", "greet", "name=Ada") == "Hello, Ada! 19\n"
    assert installed.run("strands", "tool", "call", "stock_level", "article=tea") == "42\n"
    assert installed.run("strands", "tool", "check").endswith("0 issues.\n")
    installed.install("--reinstall-package", "acme-tools", "--no-deps", str(sdist))
    assert installed.run("strands", "tool", "call", "stock_place", "article=tea") == "shelf 4\n"

    tools = installed.project / "tools"
    tools.mkdir()
    (tools / "wave.py").write_text(
        'from strands_cli import tool\n\n\n@tool\ndef wave() -> str:\n    """Wave."""\n'
    )
    said = installed.run("strands", "tool", "package", "--build", code=18)
    assert "--build needs the package hatchling, which is not installed." in said
    assert not (installed.project / "dist-tools").exists()
