"""Our own corpus of attacks on `python_exec`, by category."""

from dataclasses import replace

from tests.sandbox.attacks import (
    answers,
    files,
    host,
    interpreter,
    kernel,
    neighbours,
    network,
    processes,
    resources,
)
from tests.sandbox.attacks.records import Attack

_MODULES = (interpreter, files, host, network, processes, resources, kernel, answers, neighbours)

CORPUS: tuple[Attack, ...] = tuple(
    replace(attack, category=category)
    for module in _MODULES
    for category, attacks in module.ATTACKS.items()
    for attack in attacks
)
