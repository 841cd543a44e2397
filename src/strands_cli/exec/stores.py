"""Stores for the journals of runs: a SQLite file, or memory; `postgres_store` is one for many machines.

A run is a set of rows, key to bytes. `ownership` says which process may write them.
"""

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import msgspec

from strands_cli.errors import SessionError
from strands_cli.exec.ownership import (
    LAST_CHARACTER,
    LISTED,
    Owner,
    lost_run,
    next_fence,
    refuse_taken,
    this_process,
    was_done_before,
)
from strands_cli.settings import Settings, data_directory, foreign_owner

if TYPE_CHECKING:
    import sqlite3

JOURNAL_NAME = "runs.db"
_APPLICATION = 0x53747264
RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""The id of a run: 8 letters and digits, unless whoever started it has chosen another one."""
_WAIT_SECONDS = 10.0
_RETRY_SECONDS = 0.02
_DAY = 86_400.0
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


class Store(Protocol):
    """Stores the rows of runs. Thread-safe. When a call returns, it is committed; else SessionError."""

    def take(self, run: str, *, owner: Owner | None = None, take_over: bool = False) -> int:
        """Takes ownership of a run, by default for this process, and creates it if it is new.

        Returns the fencing number. SessionError if a living process owns it, unless `take_over`.
        """
        ...

    def create(self, run: str, rows: Mapping[str, bytes]) -> bool:
        """Creates a run with these rows, owned by nobody. Returns False if there is such a run already."""
        ...

    def load(self, run: str) -> dict[str, bytes]:
        """All rows, in the order in which their keys were first put; empty if there is no such run."""
        ...

    def changed(self, run: str, after: int = -1) -> tuple[int, dict[str, bytes]]:
        """The rows that were put after the change with this number, and the number of the latest change.

        For those who watch a run. They come in the order in which they were put.
        """
        ...

    def put(self, run: str, fence: int, rows: Mapping[str, bytes]) -> None:
        """Writes all of these rows or none; an existing key keeps its place in the order.

        Raises Lost if the fencing number is outdated.
        """
        ...

    def release(self, run: str, fence: int) -> None:
        """Releases the run; does nothing if another process has taken it."""
        ...

    def runs(self, beginning: str = "") -> dict[str, dict[str, bytes]]:
        """The rows `head` and `status` of every run whose id begins so, the oldest run first."""
        ...

    def delete(self, run: str) -> None:
        """Deletes a run with all its rows. A process that still writes it gets Lost."""
        ...

    def close(self) -> None: ...


def new_run_id() -> str:
    """8 letters and digits."""
    import secrets

    return "".join(secrets.choice(_LETTERS) for _ in range(8))


def find_run(store: Store, text: str) -> str:
    """The id of the run that begins with this text. SessionError if no run does, or several do."""
    found = [*store.runs(text)] if RUN_ID.fullmatch(text) else []
    if text in found:
        return text
    if len(found) == 1:
        return found[0]
    if found:
        hint = f"Type more characters of the id: {', '.join(found[-5:])}."
        raise SessionError(f"{len(found)} runs begin with {text!r}.", hint=hint)
    raise SessionError(f"There is no run {text!r}.", hint="List your runs: strands runs list")


# --- In memory ----------------------------------------------------------------------------------------------


class MemoryStore:
    """Keeps runs in memory, until the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: dict[str, dict[str, bytes]] = {}
        self._changes: dict[str, dict[str, int]] = {}
        self._fences: dict[str, int] = {}
        self._owners: dict[str, Owner] = {}

    def take(self, run: str, *, owner: Owner | None = None, take_over: bool = False) -> int:
        with self._lock:
            refuse_taken(run, self._owners.get(run), take_over=take_over)
            self._rows.setdefault(run, {})
            self._owners[run] = owner or this_process()
            self._fences[run] = next_fence(self._fences.get(run, 0))
            return self._fences[run]

    def create(self, run: str, rows: Mapping[str, bytes]) -> bool:
        with self._lock:
            if run in self._rows:
                return False
            self._fences[run] = next_fence(self._fences.get(run, 0))
            self._rows[run] = {}
            self._set(run, rows)
            return True

    def load(self, run: str) -> dict[str, bytes]:
        with self._lock:
            return dict(self._rows.get(run, {}))

    def changed(self, run: str, after: int = -1) -> tuple[int, dict[str, bytes]]:
        with self._lock:
            changes = self._changes.get(run, {})
            found = sorted((change, key) for key, change in changes.items() if change > after)
            rows = {key: self._rows[run][key] for _, key in found}
            return (found[-1][0] if found else after), rows

    def _set(self, run: str, rows: Mapping[str, bytes]) -> None:
        changes = self._changes.setdefault(run, {})
        latest = max(changes.values(), default=0)
        changes |= {key: latest + number for number, key in enumerate(rows, 1)}
        self._rows[run].update(rows)

    def put(self, run: str, fence: int, rows: Mapping[str, bytes]) -> None:
        with self._lock:
            if run not in self._rows or self._fences[run] != fence:
                raise lost_run(run, self._fences[run] if run in self._rows else None)
            self._set(run, rows)

    def release(self, run: str, fence: int) -> None:
        with self._lock:
            if self._fences.get(run) == fence:
                self._owners.pop(run, None)

    def runs(self, beginning: str = "") -> dict[str, dict[str, bytes]]:
        with self._lock:
            return {
                run: {key: rows[key] for key in LISTED if key in rows}
                for run, rows in self._rows.items()
                if run.startswith(beginning)
            }

    def delete(self, run: str) -> None:
        with self._lock:
            for kept in (self._rows, self._changes, self._owners):
                kept.pop(run, None)

    def close(self) -> None:
        pass


# --- SQLite -------------------------------------------------------------------------------------------------


def open_store(settings: Settings) -> Store:
    """The user's journal, with the durability and the retention of the settings."""
    if settings.runs.store:
        from strands_cli.exec.postgres_store import PostgresStore

        return PostgresStore(settings.runs.store, keep_days=settings.runs.keep_days)
    try:
        file = data_directory() / JOURNAL_NAME
    except RuntimeError:
        raise SessionError(
            "There is no home directory for the journal of the run.",
            hint="Set XDG_DATA_HOME, or use --no-save-session.",
        ) from None
    return SqliteStore(file, durability=settings.runs.durability, keep_days=settings.runs.keep_days)


class SqliteStore:
    """Keeps runs in one SQLite file. It is opened on first use, and created when the first run is taken.

    Several processes can use it at the same time.
    """

    migrations: ClassVar[tuple[tuple[str, ...], ...]] = (
        (
            "CREATE TABLE runs (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
            " fence INTEGER NOT NULL, owner BLOB)",
            "CREATE TABLE records (number INTEGER PRIMARY KEY, run TEXT NOT NULL, key TEXT NOT NULL,"
            " value BLOB NOT NULL, UNIQUE (run, key))",
            "CREATE TABLE chores (name TEXT PRIMARY KEY, done REAL NOT NULL)",
        ),
        (
            "ALTER TABLE runs ADD COLUMN changes INTEGER NOT NULL DEFAULT 0",
            "ALTER TABLE records ADD COLUMN change INTEGER NOT NULL DEFAULT 0",
        ),
    )
    """The SQL that upgrades the file to each version. Released migrations are never changed."""

    def __init__(
        self,
        path: Path | str,
        *,
        durability: Literal["normal", "full"] = "normal",
        keep_days: float | None = None,
        wait: float = _WAIT_SECONDS,
    ) -> None:
        """`keep_days`: when finished runs are deleted. `wait`: seconds to wait for other processes' locks."""
        self.path = Path(path)
        self._durability, self._keep_days, self._wait = durability, keep_days, wait
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    # --- what a store does ------------------------------------------------------------------------------

    def take(self, run: str, *, owner: Owner | None = None, take_over: bool = False) -> int:
        with self._open(create=True) as database:
            assert database is not None
            self._remove_old_runs(database, but=run)
            with _transaction(database):
                found = database.execute("SELECT fence, owner FROM runs WHERE id = ?", (run,)).fetchone()
                before, holder = found or (0, None)
                fence = next_fence(before)
                known = msgspec.json.decode(holder, type=Owner) if holder else None
                refuse_taken(run, known, take_over=take_over)
                database.execute(
                    "INSERT INTO runs (id, fence, owner) VALUES (?, ?, ?)"
                    " ON CONFLICT (id) DO UPDATE SET fence = excluded.fence, owner = excluded.owner",
                    (run, fence, msgspec.json.encode(owner or this_process())),
                )
                return fence

    def create(self, run: str, rows: Mapping[str, bytes]) -> bool:
        with self._open(create=True) as database:
            assert database is not None
            with _transaction(database):
                query = "INSERT INTO runs (id, fence) VALUES (?, ?) ON CONFLICT (id) DO NOTHING"
                if not database.execute(query, (run, next_fence(0))).rowcount:
                    return False
                _set_rows(database, run, 0, rows)
                return True

    def load(self, run: str) -> dict[str, bytes]:
        with self._open() as database:
            if database is None:
                return {}
            query = "SELECT key, value FROM records WHERE run = ? ORDER BY number"
            return dict(database.execute(query, (run,)))

    def changed(self, run: str, after: int = -1) -> tuple[int, dict[str, bytes]]:
        with self._open() as database:
            if database is None:
                return after, {}
            query = (
                "SELECT key, value, change FROM records WHERE run = ? AND change > ? ORDER BY change, number"
            )
            found = database.execute(query, (run, after)).fetchall()
            return (found[-1][2] if found else after), {key: value for key, value, _ in found}

    def put(self, run: str, fence: int, rows: Mapping[str, bytes]) -> None:
        with self._open() as database:
            if database is None:
                raise lost_run(run, None)
            with _transaction(database):
                query = "SELECT fence, changes FROM runs WHERE id = ?"
                found = database.execute(query, (run,)).fetchone()
                if found is None or found[0] != fence:
                    raise lost_run(run, found[0] if found else None)
                _set_rows(database, run, found[1], rows)

    def release(self, run: str, fence: int) -> None:
        with self._open() as database:
            if database is not None:
                database.execute("UPDATE runs SET owner = NULL WHERE id = ? AND fence = ?", (run, fence))

    def runs(self, beginning: str = "") -> dict[str, dict[str, bytes]]:
        with self._open() as database:
            return _listed(database, beginning) if database is not None else {}

    def delete(self, run: str) -> None:
        with self._open() as database:
            if database is None:
                return
            with _transaction(database):
                _delete_run(database, run)
            _free_pages(database)

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                import sqlite3

                with suppress(sqlite3.Error):  # all committed rows are already written
                    self._connection.close()
                self._connection = None

    # --- the file ---------------------------------------------------------------------------------------

    @contextmanager
    def _open(self, *, create: bool = False) -> "Iterator[sqlite3.Connection | None]":
        """The database, locked for this thread; None if it does not exist and `create` is not set."""
        import sqlite3

        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._connect(create=create)
                yield self._connection
            except (sqlite3.Error, OSError) as error:
                raise self._refused(error) from error

    def _connect(self, *, create: bool) -> "sqlite3.Connection | None":
        import sqlite3

        if not self._has_file(create=create):
            return None
        uri = f"{self.path.absolute().as_uri()}?{self._mode()}"
        connection = sqlite3.connect(
            uri, uri=True, timeout=self._wait, isolation_level=None, check_same_thread=False
        )
        with ExitStack() as opened:
            opened.callback(connection.close)
            self._prepare(connection)
            opened.pop_all()
        return connection

    def _has_file(self, *, create: bool) -> bool:
        """Whether the file exists; OSError if it is not the user's own. A new file has mode 0600.

        The file is not opened for this check: closing it would drop the locks of other connections.
        """
        if create:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # SQLite would also use -wal and -shm files that another user has put beside the file.
        beside = (self.path.with_name(f"{self.path.name}-{part}") for part in ("wal", "shm", "journal"))
        if foreign_owner((self.path.parent, self.path, *beside), os.environ) is not None:
            raise PermissionError(errno.EPERM, "it belongs to another user", str(self.path))
        if create:
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                return True
        try:
            about = self.path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(self.path))
        if about.st_mode & 0o077 and hasattr(os, "geteuid") and about.st_uid == os.geteuid():
            with suppress(OSError):
                self.path.chmod(0o600)
        return True

    def _mode(self) -> str:
        """`immutable` if nothing can be written there: SQLite then needs no files beside the database."""
        is_writable = os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK)
        is_whole = not self.path.with_name(f"{self.path.name}-wal").exists()
        return "mode=ro&immutable=1" if is_whole and not is_writable else "mode=rw"

    def _prepare(self, connection: "sqlite3.Connection") -> None:
        connection.execute("BEGIN")  # what is read here belongs together, even if another process migrates
        try:
            version = self._version_of(connection)
        finally:
            connection.execute("ROLLBACK")
        if version < len(self.migrations):
            self._migrate(connection)
        connection.execute(f"PRAGMA synchronous = {self._durability.upper()}")

    def _version_of(self, connection: "sqlite3.Connection") -> int:
        [(application,)] = connection.execute("PRAGMA application_id")
        [(version,)] = connection.execute("PRAGMA user_version")
        [(tables,)] = connection.execute("SELECT count(*) FROM sqlite_master")
        if application not in (0, _APPLICATION) or (application == 0 and (tables or version)):
            raise SessionError(
                f"{self.path} is the database of another program, not a journal of strands-cli.",
                hint="Move it away; the next run creates a new journal.",
            )
        if version > len(self.migrations):
            known = len(self.migrations)
            raise SessionError(
                f"The journal {self.path} was written by a newer version of strands-cli.",
                hint=f"Update strands-cli. The file has version {version}; this one supports {known}.",
            )
        return int(version)

    def _migrate(self, connection: "sqlite3.Connection") -> None:
        """Upgrades the file to this version in one transaction; another process may do the same."""
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._use_write_ahead_log(connection)
        with _transaction(connection):
            for statements in self.migrations[self._version_of(connection) :]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {len(self.migrations)}")

    def _use_write_ahead_log(self, connection: "sqlite3.Connection") -> None:
        """Retries, since SQLite itself does not wait for other processes here."""
        import sqlite3

        end = time.monotonic() + self._wait
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if _error_name(error) != "SQLITE_BUSY" or time.monotonic() > end:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                return

    def _remove_old_runs(self, database: "sqlite3.Connection", *, but: str) -> None:
        """Deletes old runs, once a day. Unfinished runs and `but`, which is being resumed, are kept."""
        import sqlite3

        keep, self._keep_days = self._keep_days, None
        if keep is None:
            return
        now = time.time()
        # Errors are ignored here: if the file is broken, the run itself will report it.
        with suppress(sqlite3.Error), _transaction(database):
            last = database.execute("SELECT done FROM chores WHERE name = 'retention'").fetchone()
            if last and now - _DAY < last[0] <= now:
                return
            database.execute("INSERT OR REPLACE INTO chores VALUES ('retention', ?)", (now,))
            for run, rows in _listed(database).items():
                if run != but and was_done_before(rows, now - keep * _DAY):
                    _delete_run(database, run)
        with suppress(sqlite3.Error):
            _free_pages(database)

    def _refused(self, error: "sqlite3.Error | OSError") -> SessionError:
        """The error for the user: what is wrong with the file, and what to do."""
        name = _error_name(error)
        place, hint = (
            str(self.path),
            "Make it readable and writable, set XDG_DATA_HOME, or use --no-save-session.",
        )
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            reason = "is damaged"
            hint = "Move it away, with the -wal and -shm files beside it; the next run creates a new one."
        elif name.startswith("SQLITE_FULL") or self._disk_is_full(name):
            reason, hint = "cannot be written: the disk is full", "Free some space, then: strands resume"
        elif name.startswith("SQLITE_READONLY"):
            reason = "cannot be written: it is read-only"
        elif name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            reason = f"cannot be written: another process has kept it locked for {self._wait:g} seconds"
            hint = "Wait until that process ends, or end it, then: strands resume"
        elif isinstance(error, OSError):
            reason = f"cannot be used: {error.strerror or error}"
        else:
            reason = f"cannot be used: {error}"
        return SessionError(f"The journal {place} {reason}.", hint=hint)

    def _disk_is_full(self, name: str) -> bool:
        """SQLite reports some full disks like any other I/O error."""
        if not name.startswith("SQLITE_IOERR") or not hasattr(os, "statvfs"):
            return False
        with suppress(OSError):
            return os.statvfs(self.path.parent).f_bavail < 16
        return False


@contextmanager
def _transaction(connection: "sqlite3.Connection") -> Iterator[None]:
    import sqlite3

    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")


def _set_rows(database: "sqlite3.Connection", run: str, changes: int, rows: Mapping[str, bytes]) -> None:
    """Sets rows after so many changes of the run."""
    database.executemany(
        "INSERT INTO records (run, key, value, change) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (run, key) DO UPDATE SET value = excluded.value, change = excluded.change",
        [(run, key, value, changes + number) for number, (key, value) in enumerate(rows.items(), 1)],
    )
    database.execute("UPDATE runs SET changes = ? WHERE id = ?", (changes + len(rows), run))


def _listed(database: "sqlite3.Connection", beginning: str = "") -> dict[str, dict[str, bytes]]:
    within = "id >= ? AND id < ?"
    bounds = (beginning, beginning + LAST_CHARACTER)
    query = f"SELECT id FROM runs WHERE {within} ORDER BY number"
    found: dict[str, dict[str, bytes]] = {run: {} for (run,) in database.execute(query, bounds)}
    for key in LISTED:
        query = f"SELECT id, value FROM runs JOIN records ON run = id AND key = ? WHERE {within}"
        for run, value in database.execute(query, (key, *bounds)):
            if run in found:
                found[run][key] = value
    return found


def _delete_run(database: "sqlite3.Connection", run: str) -> None:
    database.execute("DELETE FROM records WHERE run = ?", (run,))
    database.execute("DELETE FROM runs WHERE id = ?", (run,))


def _free_pages(database: "sqlite3.Connection") -> None:
    """Returns the space of deleted runs to the disk."""
    database.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page


def _error_name(error: BaseException) -> str:
    return str(getattr(error, "sqlite_errorname", ""))
