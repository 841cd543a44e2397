"""What `strands_cli` offers to programs."""

import ast
import subprocess
import sys
from pathlib import Path

import strands_cli

SOURCE = Path(strands_cli.__file__)


def test_every_public_name_is_there() -> None:
    for name in strands_cli.__all__:
        assert getattr(strands_cli, name) is not None
    assert set(strands_cli.__all__) <= set(dir(strands_cli))


def test_type_checkers_see_the_same_names() -> None:
    blocks = [node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If)]
    seen = {
        alias.name for node in ast.walk(blocks[0]) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen | {"__version__"} == set(strands_cli.__all__)


def test_importing_the_package_imports_nothing_else() -> None:
    program = (
        "import sys, strands_cli; print([name for name in sys.modules if name.startswith('strands_cli.')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
