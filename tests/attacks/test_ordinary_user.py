"""Every attack of this directory once more, for an ordinary user where the tests run as root."""

import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.sandbox.ordinary_user import as_nobody, whole_repository


@pytest.mark.long
@pytest.mark.timeout(900)
def test_no_attack_works_for_an_ordinary_user_either() -> None:
    with tempfile.TemporaryDirectory(prefix="ordinary-", ignore_cleanup_errors=True) as directory:
        place = Path(directory)
        interpreter = whole_repository(place)
        command = as_nobody(
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "LANG=C.UTF-8",
            f"HOME={place / 'home'}",
            f"TMPDIR={place / 'home'}",
            f"PYTHONPATH={interpreter.path}",
            interpreter.executable,
            *("-m", "pytest", "-q", "-m", "not long", "-p", "no:cacheprovider", "-p", "no:randomly"),
            *("-n", "2", "--timeout=120", "tests/attacks"),
        )
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=800)
        assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-2000:]}"
        passed = re.search(r"(\d+) passed", done.stdout)
        assert passed
        assert int(passed[1]) > 100
