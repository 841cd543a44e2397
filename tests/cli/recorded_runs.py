"""Journals of runs that nobody waits for: rows as a run writes them, in the real store of a project's user."""

from pathlib import Path
from typing import Any

from strands_cli.exec.journal import encode_row
from strands_cli.exec.stores import SqliteStore
from tests.projects import Project

BEGAN = 1_790_000_000.0


class RecordedRun:
    """The rows of one run, in the order in which they are added."""

    def __init__(self, id: str, name: str = "research", *, began: float = BEGAN, **head: Any) -> None:
        self.id, self.began = id, began
        self.rows: dict[str, Any] = {
            "head": {
                "id": id,
                "name": name,
                "pattern": "chain",
                "file": "/p/flow.yaml",
                "created": began,
                **head,
            }
        }

    def step(
        self, key: str, at: float, seconds: float | None, answer: str = "Done.", **begun: Any
    ) -> "RecordedRun":
        """A step with one answer of the model; without `seconds` it is not finished."""
        begun = {
            "kind": "agent",
            "title": key,
            "agent": "writer",
            "model": "ollama:m",
            "prompt": "Write.",
            **begun,
        }
        self.rows[f"{key}/begun"] = {"at": self.began + at, **begun}
        self.rows[f"{key}/user/1"] = {"at": self.began + at, "content": [{"text": f"Do {key}."}]}
        if seconds is not None:
            self.model(key, 1, at, seconds, {"text": answer})
            self.result(key, at, seconds, answer)
        return self

    def model(
        self, key: str, number: int, at: float, seconds: float, *blocks: dict[str, Any]
    ) -> "RecordedRun":
        self.rows[f"{key}/model/{number}"] = {
            "at": self.began + at,
            "seconds": seconds,
            "model": "ollama:m",
            "message": {"role": "assistant", "content": [*blocks]},
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 100, "output_tokens": 20, "cost": None},
        }
        return self

    def call(
        self, key: str, place: str, at: float, seconds: float, tool: str, result: Any, code: str | None = None
    ) -> "RecordedRun":
        self.rows[f"{key}/tool/{place}"] = {
            "at": self.began + at,
            "seconds": seconds,
            "tool": tool,
            "version": "1.0.0",
            "arguments": {"query": "tea"},
            "result": {"toolUseId": "t1", "status": "error" if code else "success", "content": [result]},
            "code": code,
        }
        return self

    def result(self, key: str, at: float, seconds: float, answer: str, output: Any = None) -> "RecordedRun":
        usage = {"input_tokens": 100, "output_tokens": 20, "cost": None}
        self.rows[f"{key}/result"] = {
            "at": self.began + at + seconds, "key": key, "id": key, "agent": "writer", "response": answer,
            "output": output, "usage": usage, "seconds": seconds,
        }  # fmt: skip
        return self

    def question(self, key: str, at: float, text: str, kind: str = "human", **more: Any) -> "RecordedRun":
        self.rows[f"{key}/question"] = {
            "at": self.began + at,
            "kind": kind,
            "question": text,
            "title": key,
            **more,
        }
        return self

    def answer(self, key: str, at: float, text: str, by: str = "resume", **more: Any) -> "RecordedRun":
        self.rows[f"{key}/answer"] = {"at": self.began + at, "text": text, "by": by, **more}
        return self

    def ended(self, status: str, seconds: float, **more: Any) -> "RecordedRun":
        self.rows["status"] = {
            "status": status, "updated": self.began + seconds, "error": "", "code": "", "seconds": seconds,
            "usage": {"input_tokens": 1000, "output_tokens": 200, "cost": 0.0123},
            "steps": sum(key.endswith("/begun") for key in self.rows), **more,
        }  # fmt: skip
        return self


def store_of(project: Project) -> SqliteStore:
    """The journal that commands in the project use."""
    data = project.environment.get("XDG_DATA_HOME") or project.environment["HOME"] + "/.local/share"
    return SqliteStore(Path(data) / "strands-cli" / "runs.db")


def record(project: Project, *runs: RecordedRun) -> None:
    store = store_of(project)
    for run in runs:
        fence = store.take(run.id)
        store.put(run.id, fence, {key: encode_row(value) for key, value in run.rows.items()})
        store.release(run.id, fence)
    store.close()


def three_branches(id: str = "k3f9a2x1") -> RecordedRun:
    """Three branches at once, one of them with a failed call, then one step that sums them up."""
    run = RecordedRun(id, pattern="parallel", variables={"topic": "tea"}, version="0.9")
    run.step("branches/0/steps/0", 0.0, None, title="history", tools=["search"])
    run.step("branches/1/steps/0", 0.1, None, title="trade", tools=["search"])
    run.step("branches/2/steps/0", 0.1, 7.9, "Tea has caffeine.", title="health")
    use = {"toolUse": {"toolUseId": "t1", "name": "search", "input": {"query": "tea"}}}
    run.model("branches/1/steps/0", 1, 0.1, 2.0, {"text": "Let me look."}, use)
    run.model("branches/0/steps/0", 1, 0.0, 3.0, {"text": "I search."}, use)
    run.call("branches/1/steps/0", "1/0", 2.1, 1.5, "search", {"text": "No such index"}, "not_found")
    run.call("branches/0/steps/0", "1/0", 3.0, 1.0, "search", {"text": "Tea came from China."})
    run.model("branches/1/steps/0", 2, 3.6, 1.0, {"text": "Trade is old."})
    run.result("branches/1/steps/0", 0.1, 4.5, "Trade is old.")
    run.model("branches/0/steps/0", 2, 4.0, 2.0, {"text": "Tea is from China."})
    run.result("branches/0/steps/0", 0.0, 6.0, "Tea is from China.")
    run.step("reduce", 8.0, 3.0, "All about tea.", title="reduce", continues="")
    return run.ended("done", 11.0)
