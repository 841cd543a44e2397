"""The journal of a chat: a run whose steps are the user's messages, `turns/1` and so on."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from strands_cli.errors import StrandsError
from strands_cli.exec.journal import Journal
from strands_cli.exec.ownership import this_process
from strands_cli.exec.step_rows import rows_by_step
from strands_cli.exec.stores import Store, new_run_id
from strands_cli.runtime.step_log import conversation_after
from strands_cli.secrets import Redactor
from strands_cli.types import Usage

if TYPE_CHECKING:
    from strands_cli.runtime.agent_hooks import AskConsent, PendingCall


class ChatJournal:
    """Saves a chat, and loads an earlier one."""

    def __init__(
        self,
        store: Store,
        begin: Callable[[str], Mapping[str, Any]],
        redactor: Redactor,
        ask_consent: "AskConsent | None" = None,
        *,
        run: str = "",
    ) -> None:
        """`begin` returns the first rows for a new chat's id; `run` is the id of a chat to continue."""
        self._store, self._begin, self._redactor, self._ask_consent = store, begin, redactor, ask_consent
        self._open(run)

    def _open(self, run: str) -> None:
        self._journal = Journal.open(self._store, run or new_run_id(), redactor=self._redactor)
        self._turns = len(rows_by_step(self._journal))
        before = self._journal.get("status") or {}
        self._usage = msgspec.convert(before.get("usage", {}), Usage)
        self._seconds = before.get("seconds", 0.0)
        if not run:
            for key, row in self._begin(self.run).items():
                self._journal.put(key, row)
        self._put_status("running", owner=this_process())

    @property
    def run(self) -> str:
        return self._journal.run

    def messages(self) -> list[Any]:
        """The conversation so far, without an unanswered message."""
        messages: list[Any] = []
        for rows in rows_by_step(self._journal).values():
            if any(name == "result" for name, _ in rows):
                messages = conversation_after(messages, rows)
        return messages

    @property
    def unanswered(self) -> str:
        """The last message, if the process ended before it was answered."""
        last = self._rows()
        begun = last.get("begun")
        is_open = begun is not None and last.get("result") is None and last.get("failed") is None
        return str(begun["input"]) if begun is not None and is_open else ""

    def turn(self, text: str, facts: Mapping[str, Any]) -> "TurnRows":
        """The rows of a message: new ones, or the existing ones if it is the unanswered message."""
        if text == self.unanswered:
            return self._rows()
        before, self._turns = self._turns, self._turns + 1
        rows = self._rows()
        continues = f"turns/{before}" if before else ""
        begun = {"kind": "agent", "title": f"message {self._turns}", "input": text, "continues": continues}
        rows.put("begun", {"at": time.time(), "turn": self._turns, "fingerprint": "", **begun, **facts})
        return rows

    def _rows(self) -> "TurnRows":
        return TurnRows(self._journal, self._turns, self._ask_consent)

    def keep(self, rows: "TurnRows", response: str, usage: Usage, seconds: float) -> None:
        """Ends a turn with the answer."""
        self._usage, self._seconds = self._usage + usage, self._seconds + seconds
        result = {"key": rows.key, "id": rows.key, "agent": "", "response": response, "output": None}
        rows.put("result", {"at": time.time(), **result, "usage": usage, "seconds": seconds})
        self._put_status("running", owner=this_process())

    def fail(self, rows: "TurnRows", error: StrandsError) -> None:
        """Ends a turn without an answer; the conversation continues as if the message had not been sent."""
        rows.put("failed", {"at": time.time(), "error": error.message, "code": error.code})

    def clear(self) -> None:
        """Begins a new conversation."""
        if self._turns:
            self.close()
            self._open("")

    def close(self) -> None:
        """Closes the chat, which can be continued later. A chat without messages is deleted."""
        if self._turns:
            self._put_status("done")
        self._journal.close()
        if not self._turns:
            self._store.delete(self.run)

    def _put_status(self, status: str, **more: Any) -> None:
        spent = {"usage": self._usage, "seconds": self._seconds, "steps": self._turns}
        now = {"status": status, "updated": time.time(), "error": "", "code": ""}
        self._journal.put("status", {**now, **spent, **more})


class TurnRows:
    """The rows of one message, a `StepLog`."""

    def __init__(self, journal: Journal, number: int, ask_consent: "AskConsent | None") -> None:
        self._journal, self._ask_consent = journal, ask_consent
        self.key = f"turns/{number}"
        self.place = f"{journal.run}/{self.key}"

    def get(self, name: str) -> Any | None:
        return self._journal.get(f"{self.key}/{name}")

    def put(self, name: str, value: Any) -> None:
        self._journal.put(f"{self.key}/{name}", value)

    async def committed(self) -> None:
        await self._journal.committed()

    async def consent(self, name: str, calls: "Sequence[PendingCall]") -> Collection[str]:
        """Always asks the user, who is present: consent from an earlier session is not reused."""
        granted = await self._ask_consent(calls) if self._ask_consent else ()
        text = "yes" if granted else "no"
        self.put(f"{name}/answer", {"at": time.time(), "text": text, "by": "person"})
        return granted

    async def ask(self, asker: str, question: str) -> str:
        raise NotImplementedError("a conversation asks the person itself")
