"""`embeddings`, `classifier` and `cluster`, with the real weights."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from strands_cli.toolkit.call import call_tool
from strands_cli.toolkit.contract import Tool
from strands_cli.toolkit.results import error_of
from strands_cli.tools.ml_tools.classifier import classifier
from strands_cli.tools.ml_tools.cluster import cluster
from strands_cli.tools.ml_tools.embeddings import embeddings

PAYMENT = ["I was charged twice this month", "My invoice is wrong", "Refund my payment please"]
DELIVERY = ["Where is my parcel?", "The delivery is late", "My package never arrived"]
CRASH = ["The app crashes at start", "It freezes and crashes", "The program crashes when I save"]


def answer(tool: Tool, **arguments: Any) -> Any:
    result = asyncio.run(call_tool(tool, {"toolUseId": "x", "input": arguments}))
    return error_of(result) or result["content"][0]["json"]


def similarity(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("dimensions", [64, 256])
def test_texts_of_similar_meaning_have_similar_vectors_of_length_one(dimensions: int) -> None:
    texts = ["The cat sleeps", "A kitten is sleeping", "Interest rates rise"]
    found = answer(embeddings, texts=texts, dimensions=dimensions)
    cat, kitten, rates = found["embeddings"]
    assert (found["dimensions"], len(cat)) == (dimensions, dimensions)
    assert similarity(cat, cat) == pytest.approx(1, abs=1e-4)
    assert similarity(cat, kitten) > 0.4 > similarity(cat, rates)


def test_a_text_has_the_same_vector_in_any_company() -> None:
    (alone,) = answer(embeddings, texts=["hello"])["embeddings"]
    in_company = answer(embeddings, texts=["a much longer text " * 500, "hello", *PAYMENT])["embeddings"][1]
    assert in_company == pytest.approx(alone, abs=1e-5)


def test_labels_are_compared_by_their_words() -> None:
    texts = [PAYMENT[0], CRASH[0], "How do I change my password?"]
    found = answer(classifier, texts=texts, labels=["billing and payment", "software bug", "account access"])
    assert [one["label"] for one in found] == ["billing and payment", "software bug", "account access"]
    for one in found:
        scores = list(one["similarities"].values())
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)


def test_labels_that_say_nothing_are_compared_by_their_examples() -> None:
    texts = [PAYMENT[2], DELIVERY[2], CRASH[2]]
    examples = {"T1": PAYMENT[:2], "T2": DELIVERY[:2], "T3": CRASH[:2]}
    found = answer(classifier, texts=texts, examples=examples, labels=["T1", "weather forecast"])
    assert [one["label"] for one in found] == ["T1", "T2", "T3"]
    assert set(found[0]["similarities"]) == {"T1", "T2", "T3", "weather forecast"}


def test_a_text_that_fits_no_label_gets_none() -> None:
    found = answer(classifier, texts=["qwertz", PAYMENT[2]], labels=["payment", "parcel"], min_similarity=0.3)
    assert [one["label"] for one in found] == [None, "payment"]


@pytest.mark.parametrize(
    "given", [{}, {"labels": ["one"]}, {"labels": ["one", "one"]}, {"examples": {"a": ["b"]}}]
)
def test_one_label_is_no_choice(given: dict[str, Any]) -> None:
    found = answer(classifier, texts=["x"], **given)
    assert found["code"] == "input_invalid"
    assert found["message"].startswith("At least two labels are needed, got ")


def members(found: Any) -> list[list[int]]:
    return [one["members"] for one in found["clusters"]]


def test_the_number_of_groups_is_chosen_by_how_well_they_are_separated() -> None:
    found = answer(cluster, texts=[*PAYMENT, *DELIVERY, *CRASH])
    assert (found["k"], members(found)) == (3, [[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    assert found["silhouette"] > 0.1
    assert [
        one["typical"] in texts
        for one, texts in zip(found["clusters"], (PAYMENT, DELIVERY, CRASH), strict=True)
    ]
    worse = [answer(cluster, texts=[*PAYMENT, *DELIVERY, *CRASH], k=k)["silhouette"] for k in (2, 4, 5)]
    assert max(worse) < found["silhouette"]


def test_the_groups_do_not_depend_on_the_order_of_the_texts() -> None:
    texts = [*PAYMENT, *DELIVERY, *CRASH]
    again = answer(cluster, texts=texts[::-1])
    assert sorted(sorted(8 - index for index in group) for group in members(again)) == [
        [0, 1, 2],
        [3, 4, 5],
        [6, 7, 8],
    ]


def test_the_number_of_groups_may_be_given() -> None:
    texts = [*PAYMENT, *DELIVERY]
    assert [answer(cluster, texts=texts, k=k)["k"] for k in range(1, 7)] == [1, 2, 3, 4, 5, 6]
    assert answer(cluster, texts=texts, k=1)["silhouette"] is None
    assert members(answer(cluster, texts=texts, k=2)) == [[0, 1, 2], [3, 4, 5]]


def test_equal_texts_are_always_in_one_group() -> None:
    assert answer(cluster, texts=["same", "same", "same"])["k"] == 1
    assert members(answer(cluster, texts=["tea", "law", "tea", "law", "tea"])) == [[0, 2, 4], [1, 3]]
    found = answer(cluster, texts=["same", "same", "other"], k=3)
    assert (found["code"], found["message"]) == (
        "input_invalid",
        "k is 3, but the number of different texts is 2",
    )


@pytest.mark.parametrize("tool", [embeddings, classifier, cluster])
@pytest.mark.parametrize(
    ("texts", "pointer"),
    [([], "/texts"), (["a", " \n"], "/texts/1"), (["a", "x" * 10_001], "/texts/1"), (["a"] * 1001, "/texts")],
)
def test_blank_and_outsized_texts_are_refused(tool: Tool, texts: list[str], pointer: str) -> None:
    found = answer(tool, texts=texts)
    assert found["code"] == "input_invalid"
    assert found["details"][0]["pointer"] == pointer


OFFLINE = """
import json, logging, sys

def refuse(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        raise SystemExit(f"{event}{arguments}")

sys.addaudithook(refuse)
from strands_cli.tools.ml_tools.embeddings import embeddings
found = embeddings({"toolUseId": "x", "input": {"texts": ["hello"]}})
root = logging.getLogger()
print(json.dumps([found["status"], root.level == logging.WARNING, root.handlers]))
"""


def test_no_network_is_tried_nothing_is_kept_and_the_programs_logging_stays_as_it_is(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE],
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stderr, json.loads(done.stdout)) == ("", ["success", True, []])
    assert list(tmp_path.iterdir()) == []
