"""Whether a processor can run the engine is a question about a text, so that it can be asked of any processor."""

from strands_cli.providers.local.engine import missing_processor_flags

CPUINFO = """processor\t: 0
model name\t: Some Processor
flags\t\t: fpu sse2 avx f16c

processor\t: 1
flags\t\t: fpu sse2 avx avx2 fma f16c
"""


def test_a_processor_with_all_flags_lacks_nothing() -> None:
    assert missing_processor_flags("flags: fpu sse2 avx avx2 fma f16c") == []


def test_what_a_processor_lacks_is_named() -> None:
    assert missing_processor_flags("flags: fpu sse2 avx f16c") == ["avx2", "fma"]


def test_a_flag_is_a_whole_word() -> None:
    assert "avx2" in missing_processor_flags("flags: avx2x avx512 fma f16c")


def test_the_first_processor_speaks_for_all() -> None:
    assert missing_processor_flags(CPUINFO) == ["avx2", "fma"]


def test_a_text_without_flags_says_nothing() -> None:
    assert missing_processor_flags("Hardware\t: Some board\n") == []
