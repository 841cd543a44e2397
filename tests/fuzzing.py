"""Properties of files that nobody wrote, over as many of them as there is time for.

`make test` tries the same few every time. The long run takes new ones, two minutes for each property, or as long as
STRANDS_TEST_FUZZ_SECONDS says; STRANDS_TEST_FUZZ_SEED begins it where an earlier one failed.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count

from tests.mutations import Corpus, mutated

SECONDS = float(os.environ.get("STRANDS_TEST_FUZZ_SECONDS", "120"))
MAX_CPU_SECONDS = 2.0 if sys.gettrace() is None else 6.0
"""Of CPU time, so that a busy machine is not mistaken for a slow program; counting lines costs more."""

Answer = Callable[[bytes, int], str]
"""What is wrong with the answer about a file, from its bytes and its seed; nothing where it is as it should be."""


def fresh_seeds() -> Iterator[int]:
    """New ones until the time is up."""
    first = int(os.environ.get("STRANDS_TEST_FUZZ_SEED", "0")) or int.from_bytes(os.urandom(5), "big")
    end = time.monotonic() + SECONDS
    for seed in count(first):
        if seed > first and time.monotonic() > end:
            print(f"seeds {first} to {seed - 1}")
            return
        yield seed


def wrongs(corpus: Corpus, answer: Answer, seeds: Iterator[int]) -> Iterator[str]:
    """What goes wrong with the files of these seeds, each with what is needed to see it again."""
    answer(corpus.texts[0].encode(), 0)  # what is imported once is not the time of one file
    for seed in seeds:
        data = mutated(seed, corpus)
        started = time.process_time()
        try:
            problem = answer(data, seed)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what this looks for
            problem = f"{type(error).__name__}: {error}"
        seconds = time.process_time() - started
        if seconds > MAX_CPU_SECONDS:
            problem = f"{problem} took {seconds:.1f} s"
        if problem:
            yield f"STRANDS_TEST_FUZZ_SEED={seed}: {problem}\n{data[:3000]!r}"
