"""Secrets: where their values come from, and that they come out nowhere."""

import base64
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strands_cli.errors import SpecError
from strands_cli.events import ModelText, ToolFinished, ToolStarted
from strands_cli.loader import load_spec
from strands_cli.loader.run_values import MAX_SECRET_BYTES, read_secrets
from strands_cli.loader.spec import Spec
from strands_cli.secrets import DEEPEST, MASK, NOTHING_SECRET, Redactor

SECRET = 'p@ss/w+rd "7" é'
KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nEFAASCBKcwggSjAgEAAoIBAQ\n-----END KEY-----"


# --- What is hidden ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        quote(SECRET, safe="").replace("%2F", "%2f").replace("%2B", "%2b").replace("%C3%A9", "%c3%a9"),
        json.dumps(SECRET)[1:-1],
        json.dumps(SECRET, ensure_ascii=False)[1:-1],
        repr(SECRET)[1:-1],
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("="),
    ],
)
def test_a_secret_is_hidden_in_the_forms_that_programs_give_to_text(form: str) -> None:
    assert Redactor([SECRET]).text(f"before {form} after") == f"before {MASK} after"


@pytest.mark.parametrize("user", ["", "a", "ab", "abc", "aladdin"])
def test_a_password_is_hidden_in_basic_authorization(user: str) -> None:
    header = base64.b64encode(f"{user}:open sesame:x".encode()).decode()
    shown = Redactor(["open sesame"]).text(f"Authorization: Basic {header}")
    assert MASK in shown
    rest = shown.removeprefix("Authorization: Basic ").split(MASK)
    assert sum(map(len, rest)) <= len(header) - 12


def test_each_line_of_a_key_is_hidden_however_it_is_indented() -> None:
    indented = "\n".join(f"    {line}" for line in KEY.splitlines())
    assert Redactor([KEY]).text(indented).split() == [MASK] * 4
    assert Redactor([KEY]).text(f"key: {KEY}!") == f"key: {MASK}!"


def test_the_longest_secret_counts_and_overlapping_ones_leave_no_rest() -> None:
    redactor = Redactor(["token-1", "token-1-extended", "extended-9"])
    assert redactor.text("token-1, token-1-extended") == f"{MASK}, {MASK}"
    assert redactor.text("<token-1-extended-9>") == f"<{MASK}>"
    assert Redactor(["aaaa"]).text("aaaaaaaaa b aaa") == f"{MASK} b aaa"


def test_values_that_occur_by_chance_are_left_alone() -> None:
    redactor = Redactor(["", "a", "abc", "  x  "])
    assert redactor.is_empty
    assert redactor.text("a abc   x  ") == "a abc   x  "


def test_a_secret_with_blanks_around_it_is_hidden_without_them_too() -> None:
    assert Redactor([" s3cret \n"]).text("Bearer s3cret.") == f"Bearer {MASK}."


def test_values_are_redacted_all_the_way_down() -> None:
    redactor = Redactor(["s3cret"])
    event = ToolStarted("http", "1.0.0", "t1", {"headers": {"X": "s3cret"}, "n": [1, None, ("s3cret",)]})
    shown = redactor.value(event)
    assert shown == ToolStarted("http", "1.0.0", "t1", {"headers": {"X": MASK}, "n": [1, None, (MASK,)]})
    assert redactor.value({"s3cret": {"s3cret"}}) == {MASK: {MASK}}
    assert redactor.value(b"\xff s3cret") == b"\xff ***"
    assert redactor.value([b"\x89PNG\x00\xfe"]) == [b"\x89PNG\x00\xfe"]
    assert "s3cret" not in msgspec.json.encode(redactor.value([event, {"a": "s3cret"}])).decode()


def test_what_has_nothing_to_hide_stays_the_same_object() -> None:
    event = ToolFinished("t", "1", "id", 0.1, 10, content=[{"text": "fine"}])
    text = "nothing here"
    assert Redactor(["s3cret"]).value(event) is event
    assert Redactor(["s3cret"]).text(text) is text
    assert NOTHING_SECRET.value(event) is event
    assert NOTHING_SECRET.is_empty


@pytest.mark.parametrize("levels", [DEEPEST, 400, 20_000])
def test_a_value_of_any_depth_is_redacted(levels: int) -> None:
    lists: object = "s3cret"
    objects: object = "s3cret"
    for _ in range(levels):
        lists, objects = [lists], {"k": objects}
    shown = Redactor(["s3cret"]).value(ToolFinished("t", "1", "id", 0.1, 10, content=[lists, objects]))
    told = msgspec.json.encode(shown).decode()
    assert "s3cret" not in told
    assert told.startswith('{"tool_id":"t"')


def test_many_threads_share_one_redactor() -> None:
    redactor = Redactor(["s3cret", KEY])
    with ThreadPoolExecutor(8) as pool:
        shown = list(pool.map(redactor.text, [f"{i} s3cret {KEY}" for i in range(500)]))
    assert shown == [f"{i} {MASK} {MASK}" for i in range(500)]


def test_a_long_text_without_a_secret_costs_little() -> None:
    redactor = Redactor([f"secret-number-{i}-{'x' * 40}" for i in range(20)])
    text = "The quick brown fox jumps over the lazy dog. " * 20_000
    begun = time.perf_counter()
    assert redactor.text(text) == text
    assert time.perf_counter() - begun < 5


# --- In pieces --------------------------------------------------------------------------------------------


def streamed(redactor: Redactor, pieces: list[str]) -> list[str]:
    stream = redactor.stream()
    return [*(stream.feed(piece) for piece in pieces), stream.end()]


def test_a_secret_that_arrives_letter_by_letter_is_hidden() -> None:
    shown = streamed(Redactor(["s3cret"]), list("a s3cret, s3x"))
    assert "".join(shown) == f"a {MASK}, s3x"


def test_text_is_shown_as_soon_as_it_cannot_be_the_beginning_of_a_secret() -> None:
    stream = Redactor(["s3cret"]).stream()
    assert stream.feed("hello ") == "hello "
    assert stream.feed("s3c") == ""
    assert stream.feed("ond") == "s3cond"
    assert stream.end() == ""


def test_a_stream_without_secrets_passes_pieces_on() -> None:
    assert streamed(NOTHING_SECRET, ["a", "bc"]) == ["a", "bc", ""]


LETTERS = st.text("abc", max_size=40)


@given(secrets=st.lists(st.text("abc", min_size=4, max_size=8), max_size=4), text=LETTERS, data=st.data())
@example(secrets=["abab"], text="xabab", data=None)
@example(secrets=["aaaa"], text="aaaaaaa", data=None)
def test_pieces_come_out_as_the_whole_would(
    secrets: list[str], text: str, data: st.DataObject | None
) -> None:
    redactor = Redactor(secrets)
    pieces = list(text)
    if data is not None:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert "".join(streamed(redactor, pieces)) == redactor.text(text)


@given(st.lists(st.text(min_size=4, max_size=12), min_size=1, max_size=4), st.data())
def test_no_secret_is_ever_left_in_a_text(secrets: list[str], data: st.DataObject) -> None:
    secrets = [secret for secret in secrets if "*" not in secret and len(secret.strip()) >= 4]
    text = (
        "".join(data.draw(st.lists(st.sampled_from(secrets) | st.text(max_size=5), max_size=8)))
        if secrets
        else ""
    )
    shown = Redactor(secrets).text(text)
    assert not any(secret in shown for secret in secrets)


def test_an_event_of_text_keeps_its_step() -> None:
    assert Redactor(["s3cret"]).value(ModelText("steps/0", "s3cret")) == ModelText("steps/0", MASK)


# --- Where values come from -------------------------------------------------------------------------------


def flow(directory: Path, secrets: str) -> Spec:
    file = directory / "flow.yaml"
    file.write_text(
        f"""\
version: 0
name: demo
runtime: {{provider: ollama}}
env:
  secrets: {secrets}
agents: {{a: {{prompt: Hello}}}}
pattern: {{type: chain, config: {{steps: [{{agent: a, input: hi}}]}}}}
"""
    )
    return load_spec(file)


def test_secrets_come_from_variables_and_from_files_beside_the_workflow(tmp_path: Path) -> None:
    (tmp_path / "token.txt").write_bytes(b"from-file\r\n")
    spec = flow(
        tmp_path,
        "[{name: A}, {name: B, source: env, key: OTHER_NAME}, {name: C, source: file, path: token.txt}]",
    )
    values = read_secrets(spec, {"A": "from-a", "OTHER_NAME": "from-b "})
    assert values == {"A": "from-a", "B": "from-b ", "C": "from-file"}


def test_a_secret_may_lie_where_the_system_puts_it(tmp_path: Path) -> None:
    elsewhere = tmp_path / "run" / "secrets" / "token"
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text("t0ken")
    (tmp_path / "flow").mkdir()
    spec = flow(tmp_path / "flow", f"[{{name: T, source: file, path: {elsewhere}}}]")
    assert read_secrets(spec, {}) == {"T": "t0ken"}


def test_all_that_is_missing_is_told_at_once_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large").write_bytes(b"x" * (MAX_SECRET_BYTES + 1))
    (tmp_path / "folder").mkdir()
    names = ("empty", "binary", "large", "folder", "absent", "x" * 300)
    files = ", ".join(f"{{name: F{i}, source: file, path: {name}}}" for i, name in enumerate(names))
    spec = flow(tmp_path, f"[{{name: UNSET}}, {{name: E, key: EMPTY}}, {{name: BYTES}}, {files}]")
    with pytest.raises(SpecError) as caught:
        read_secrets(spec, {"EMPTY": "", "BYTES": os.fsdecode(b"\xff")})
    issues = caught.value.issues
    assert [issue.pointer.removeprefix("/env/secrets/") for issue in issues] == [
        "0/name",
        "1/key",
        "2/name",
        *(f"{i}/path" for i in range(3, 9)),
    ]
    assert [issue.line for issue in issues] == [5] * 9
    assert all(issue.remediation for issue in issues)
    assert [issue.reason for issue in issues[:5]] == [
        "The environment variable UNSET is not set.",
        "The environment variable EMPTY is empty.",
        "The environment variable BYTES is not UTF-8 text.",
        "The file 'empty' is empty.",
        "The file 'binary' is not UTF-8 text.",
    ]
    assert "and 8 more secrets cannot be read" in caught.value.message
    assert caught.value.exit_code == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "locked").write_text("s3cret")
    (tmp_path / "locked").chmod(0)
    with pytest.raises(SpecError, match="cannot be read: Permission denied"):
        read_secrets(flow(tmp_path, "[{name: L, source: file, path: locked}]"), {})


def test_a_path_that_no_file_system_takes_is_told(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="1 more secret cannot be read"):
        read_secrets(
            flow(tmp_path, r'[{name: L, source: file, path: "a\0b"}, {name: M, source: file, path: m}]'), {}
        )
