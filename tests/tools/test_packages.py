"""Tools of installed packages: real directories with metadata, as installers leave them."""

import subprocess
import sys
import time
from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_cli.tools._discovery import Discovered
from strands_cli.tools._discovery.scan import NO_CACHE, Cache
from strands_cli.tools.sources.packages import locate_module, scan_packages

GREET = """
open({trace!r}, "w").close()
TOOL_SPEC = {{"name": "greet", "description": "Greets", "inputSchema": {{"type": "object"}}}}
def greet(tool, **kwargs): ...
"""


class Site:
    """A `site-packages` directory."""

    def __init__(self, root: Path) -> None:
        self.root = root / "site-packages"
        self.cache = Cache(root / "cache")
        self.trace = root / "trace"
        self.root.mkdir(parents=True)

    def write(self, name: str, text: str) -> Path:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("TRACE", repr(str(self.trace))), "utf-8")
        return file

    def greet(self, name: str, more: str = "") -> Path:
        return self.write(name, GREET.format(trace=str(self.trace)) + more)

    def install(self, name: str, version: str, entry_points: str, suffix: str = ".dist-info") -> Path:
        directory = f"{name.replace('-', '_')}-{version}{suffix}"
        metadata = "METADATA" if suffix == ".dist-info" else "PKG-INFO"
        self.write(
            f"{directory}/{metadata}", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText\n"
        )
        return self.write(f"{directory}/entry_points.txt", entry_points)

    def scan(self, cache: Cache = NO_CACHE) -> Discovered:
        return scan_packages(path=[str(self.root)], cache=cache)

    def settle(self) -> None:
        time.sleep(0.03)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def described(found: Discovered) -> list[tuple[str, str, str]]:
    """The entry points, whose modules need not be there to be listed."""
    return [(info.id, f"{info.module_path}:{info.callable_name}", info.origin) for info in found.infos]


def test_entry_points_are_read_as_installers_write_them(site: Site) -> None:
    text = (
        "[console_scripts]\nacme = acme.cli:main\n\n# comment\n[strands_cli.tools]\n; another\n"
        "greet=acme.greet\nwave = acme.more:wave [extra]\n\n[other]\nx = y\n"
    )
    site.install("Acme-Tools", "1.2.0", text)
    site.install("unrelated", "1", "[console_scripts]\na = b:c\n")
    site.write("bare-1.0.dist-info/METADATA", "Name: bare\n")
    assert described(site.scan()) == [
        ("greet", "acme.greet:greet", "Acme-Tools 1.2.0"),
        ("wave", "acme.more:wave", "Acme-Tools 1.2.0"),
    ]


def test_an_egg_info_counts_and_metadata_may_be_missing(site: Site) -> None:
    site.install("old", "0.1", "[strands_cli.tools]\na = b\n", suffix=".egg-info")
    site.write("bare_name-3.4.dist-info/entry_points.txt", "[strands_cli.tools]\nc = d\n")
    site.write("file.egg-info", "Name: nothing\n")
    assert described(site.scan()) == [("a", "b:a", "old 0.1"), ("c", "d:c", "bare_name 3.4")]


def test_the_first_of_two_installations_counts(site: Site, tmp_path: Path) -> None:
    later = Site(tmp_path / "later")
    site.install("acme-tools", "2.0", "[strands_cli.tools]\na = new\n")
    later.install("Acme_Tools", "1.0", "[strands_cli.tools]\na = old\n")
    found = scan_packages([str(site.root), str(later.root), str(tmp_path / "nowhere"), str(site.root)])
    assert described(found) == [("a", "new:a", "acme-tools 2.0")]


def test_a_module_is_found_without_importing_the_packages_around_it(site: Site, tmp_path: Path) -> None:
    files = ["a/__init__.py", "a/b/__init__.py", "a/b/c.py", "top.py", "space/one.py", "empty/notes.txt"]
    for name in files:
        site.write(name, "raise SystemExit")
    other = Site(tmp_path / "other")
    other.write("space/two.py", "raise SystemExit")
    other.write("a/only_here.py", "raise SystemExit")
    path = [str(site.root), str(other.root)]
    assert locate_module("a", path) == site.root / "a/__init__.py"
    assert locate_module("a.b", path) == site.root / "a/b/__init__.py"
    assert locate_module("a.b.c", path) == site.root / "a/b/c.py"
    assert locate_module("top", path) == site.root / "top.py"
    assert locate_module("space.two", path) == other.root / "space/two.py"
    for missing in ("a.only_here", "a.b.c.d", "empty", "nowhere", "", ".", "a.", "a..b", "../a"):
        assert locate_module(missing, path) is None


def test_a_module_in_an_archive_is_not_a_file_that_could_be_read(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("inner.py", "raise SystemExit")
    assert locate_module("inner", [str(tmp_path / "lib.zip")]) is None


def test_the_own_package_is_found_on_the_path_of_this_process() -> None:
    file = locate_module("strands_cli.tools.echo")
    assert file is not None
    assert file.parts[-3:] == ("strands_cli", "tools", "echo.py")


def test_a_packages_tool_is_listed_with_its_origin_and_nothing_is_run(site: Site) -> None:
    site.write("acme/__init__.py", "open(TRACE, 'w')")
    site.greet("acme/greet.py")
    site.install("acme-tools", "1.2.0", "[strands_cli.tools]\ngreet = acme.greet\n")
    reading = site.scan()
    (info,) = reading.infos
    assert reading.issues == ()
    assert (info.id, info.family, info.source, info.origin) == (
        "greet",
        "greet",
        "package",
        "acme-tools 1.2.0",
    )
    assert (info.module_path, info.file) == ("acme.greet", str(site.root / "acme/greet.py"))
    assert not site.trace.exists()
    assert "acme" not in sys.modules


def test_an_entry_may_name_a_family(site: Site) -> None:
    site.write("acme/__init__.py", "")
    site.write("acme/shared.py", "SCHEMA = {'type': 'object'}")
    site.write("acme/tools/__init__.py", "")
    text = "from strands_cli import tool\nfrom ..shared import SCHEMA\n"
    site.write(
        "acme/tools/one.py", f"{text}@tool(spec={{'name': 'one', 'inputSchema': SCHEMA}})\ndef one(): ...\n"
    )
    site.greet("acme/tools/greet.py")
    site.install("acme", "1", "[strands_cli.tools]\npeople = acme.tools\n")
    reading = site.scan()
    assert reading.issues == ()
    assert [(info.id, info.family, info.module_path) for info in reading.infos] == [
        ("greet", "people", "acme.tools.greet"),
        ("one", "people", "acme.tools.one"),
    ]
    assert reading.infos[1].input_schema == {"type": "object"}


@pytest.mark.parametrize("value", ["acme.greet:greet", "acme:greet", "acme:TOOL_SPECS", "single:greet"])
def test_an_entry_may_name_one_attribute(site: Site, value: str) -> None:
    spec = "ToolSpec(id='greet', module_path='acme.greet')"
    registry = "from strands_cli.tools.registry import ToolSpec"
    site.write("acme/__init__.py", f"{registry}\nfrom .greet import greet\nTOOL_SPECS = [{spec}]\n")
    more = "from strands import tool\n@tool\ndef other(): ...\n"
    site.greet("acme/greet.py", more)
    site.greet("single.py", more)
    site.write("acme/huge.py", "raise SystemExit")
    site.install("acme", "1", f"[strands_cli.tools]\ngreet = {value}\n")
    reading = site.scan()
    assert [(info.id, info.callable_name) for info in reading.infos] == [("greet", "greet")]
    assert reading.infos[0].module_path in ("acme.greet", "single")
    assert reading.issues == ()


def test_an_attribute_may_be_reexported_without_a_list_of_specs(site: Site) -> None:
    site.write("acme/__init__.py", "from .impl.deep import run as greet\n")
    site.write("acme/impl/__init__.py", "")
    site.write("acme/impl/deep.py", "from strands import tool\n@tool(name='greet')\ndef run(): ...\n")
    site.install("acme", "1", "[strands_cli.tools]\ngreet = acme:greet\n")
    (info,) = site.scan().infos
    assert (info.id, info.full_import_path) == ("greet", "acme.impl.deep.run")


def test_what_an_entry_names_and_is_not_there_is_told(site: Site) -> None:
    site.greet("acme.py")
    site.write("broken.py", "(")
    entries = "gone = nowhere.at.all:f\ngreet = acme:gret\nodd name = nowhere\nx = broken\n"
    file = site.install("acme", "1.0", f"[strands_cli.tools]\n{entries}")
    reading = site.scan()
    (gone,) = reading.infos
    assert (gone.id, gone.module_path, gone.callable_name) == ("gone", "nowhere.at.all", "f")
    assert gone.unread == "the module nowhere.at.all of acme 1.0 is not a file on the import path"
    issues = {issue.reason.split("'")[1]: issue for issue in reading.issues if "entry point" in issue.reason}
    assert {name: issue.severity for name, issue in issues.items()} == {
        "gone": "warning",
        "greet": "error",
        "odd name": "warning",
    }
    assert {issue.file for issue in issues.values()} == {str(file)}
    assert "The closest is 'greet'" in issues["greet"].remediation
    assert any("Syntax error" in issue.reason for issue in reading.issues)


# --- The cache --------------------------------------------------------------------------------------------


def install_many(site: Site, count: int = 150) -> None:
    for number in range(count):
        site.install(f"package{number}", "1", "[console_scripts]\na = b:c\n")
    site.greet("acme/greet.py")
    site.write("acme/__init__.py", "")
    site.install("acme", "1", "[strands_cli.tools]\ngreet = acme.greet\n")
    site.settle()


def test_a_second_run_answers_the_same_and_quickly(site: Site) -> None:
    install_many(site)
    first = site.scan(site.cache)
    assert site.scan(site.cache) == first == site.scan()
    started = time.process_time()
    site.scan(site.cache)
    assert time.process_time() - started < 0.05


HIT = """
import sys
before = set(sys.modules)
from pathlib import Path
opened = []
sys.addaudithook(lambda event, arguments: event == "open" and opened.append(str(arguments[0])))
from strands_cli.tools._discovery.scan import Cache
from strands_cli.tools.sources.packages import scan_packages
reading = scan_packages(path=[sys.argv[1]], cache=Cache(Path(sys.argv[2])))
read = [name for name in opened if name.startswith(sys.argv[1])]
heavy = {"importlib.metadata", "strands_cli.tools._discovery.declarations", "configparser", "email"}
print([info.id for info in reading.infos], len(read), sorted(heavy & set(sys.modules) - before))
"""


def test_a_second_run_opens_no_file_of_a_package(site: Site, tmp_path: Path) -> None:
    install_many(site)
    command = [sys.executable, "-c", HIT, str(site.root), str(tmp_path / "cache")]
    outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert outputs[1] == "['greet'] 0 []\n"
    assert outputs[0] != outputs[1]


def test_installing_upgrading_removing_and_editing_are_noticed(site: Site) -> None:
    install_many(site, 3)
    assert [info.id for info in site.scan(site.cache).infos] == ["greet"]
    site.write("wave.py", "from strands import tool\n@tool\ndef wave(): ...\n")
    entries = site.install("waving", "1", "[strands_cli.tools]\nwave = wave\n", suffix=".egg-info")
    site.settle()
    assert [info.id for info in site.scan(site.cache).infos] == ["greet", "wave"]
    entries.write_text("[strands_cli.tools]\nwaving = wave\n")
    assert [(info.id, info.family) for info in site.scan(site.cache).infos] == [
        ("greet", "greet"),
        ("wave", "waving"),
    ]
    site.write("wave.py", "from strands import tool\n@tool\ndef wave_more(): ...\n")
    assert [info.id for info in site.scan(site.cache).infos] == ["greet", "wave_more"]
    (site.root / "acme-1.dist-info").rename(site.root / "acme-2.dist-info")
    (site.root / "acme-2.dist-info" / "METADATA").unlink()
    assert [info.origin for info in site.scan(site.cache).infos] == ["acme 2", "waving 1"]
    entries.unlink()
    assert [info.id for info in site.scan(site.cache).infos] == ["greet"]


@given(st.text(st.sampled_from("[]=:;#.\n strand_clioABgreet\u00e9\x00")) | st.text(max_size=60))
def test_no_entry_points_file_makes_the_scan_fail(tmp_path: Path, text: str) -> None:
    root = tmp_path / "site"
    info = root / "acme-1.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    content = f"[strands_cli.tools]\n{text}\n"
    (info / "entry_points.txt").write_bytes(content.encode("utf-8", "surrogatepass"))
    reading = scan_packages(path=[str(root)])
    assert all(issue.file and issue.reason for issue in reading.issues)
