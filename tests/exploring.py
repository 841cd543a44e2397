"""How far property tests look.

`make test` tries the same few examples every time, so that it gives the same answer on every machine. `make
test-all` tries ten times as many, new ones in each run; what it finds becomes an `@example` of the test.
"""

import os

from hypothesis import HealthCheck, settings

IS_EXPLORING = bool(os.environ.get("STRANDS_TEST_EXPLORE"))


def examples(usual: int) -> int:
    return usual * 10 if IS_EXPLORING else usual


def prepare_property_tests() -> None:
    settings.register_profile(
        "strands",
        derandomize=not IS_EXPLORING,
        max_examples=examples(100),
        print_blob=True,
        # A busy machine is slow, and that is no finding.
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
    settings.load_profile("strands")
