"""The examples do the same on a worker as in this process."""

import re
from shutil import copytree
from typing import Any

import pytest

from tests.cluster.clusters import Cluster
from tests.plugins.makers import need
from tests.projects import Outcome
from tests.test_examples import ANSWERS, CALLS, DIRECTORY, EXAMPLES, PROGRAMS, Obliging


def shown(outcome: Outcome) -> tuple[Any, list[str]]:
    """What a run has answered, and how each step has ended. Its times vary, and which agent makes the call."""
    ended = re.findall(r"^(.+: (?:done|failed|stopped)),", outcome.err, re.MULTILINE)
    return outcome.json["last_response"], sorted(ended)


@pytest.mark.long
@pytest.mark.timeout(280)
def test_every_example_does_the_same_on_a_worker(cluster: Cluster) -> None:
    need(*(program for programs in PROGRAMS.values() for program in programs))
    copytree(DIRECTORY, cluster.project.root / "examples")
    cluster.worker().ready()
    differing = []
    for example in EXAMPLES:
        outcomes = []
        for number, command in enumerate((["run"], ["submit", "--watch"])):
            first, found = CALLS.get(example.stem, (None, ""))
            with Obliging(first, ANSWERS.get(example.stem, {})) as model:
                file, out = f"examples/{example.name}", f"out-{number}/{example.stem}"
                options = ("--provider", "ollama", "--host", model.url, "--json", "--out", out)
                outcome = cluster.strands(command[0], file, *command[1:], *options)
            assert outcome.exit_code == 0, outcome
            assert found in "".join(model.found), model.found
            outcomes.append(shown(outcome))
        if outcomes[0] != outcomes[1]:
            differing.append(outcomes)
    assert not differing
    places = [cluster.project.root / name for name in ("out-0", "out-1")]
    local, remote = ([file.relative_to(place) for file in place.rglob("*")] for place in places)
    assert sorted(local) == sorted(remote)
    assert local
