"""`PostgresStore`: the journals of runs in a Postgres database, for runs on several machines.

It is for `psycopg`, of the extra `cluster`. Its tables are in the schema `strands`, and the first connection
creates or upgrades them. All that a call does is one transaction that can be repeated, so a call that meets a
broken connection is made again, until the database answers or the time is over.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, LiteralString, TypeVar

import msgspec

from strands_cli.errors import SessionError, UnsupportedError, install_hint
from strands_cli.exec.ownership import (
    LAST_CHARACTER,
    LISTED,
    Owner,
    Unreachable,
    lost_run,
    next_fence,
    refuse_taken,
    this_process,
    was_done_before,
)

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

_WAIT_SECONDS = 30.0
_CONNECT_SECONDS = 10
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_CONNECTIONS = 8
"""The most that one process uses: a write takes a few milliseconds, and the others wait for it."""
_DAY = 86_400.0
_LOCK = 0x53747264
"""The advisory lock of a migration, so that of several workers that start together one creates the tables."""

_PUT = """
WITH owned AS (UPDATE strands.runs SET changes = changes + %s WHERE id = %s AND fence = %s RETURNING changes)
INSERT INTO strands.records (run, key, value, change)
SELECT %s, r.key, r.value, owned.changes - %s + r.n
FROM owned, unnest(%s::text[], %s::bytea[]) WITH ORDINALITY AS r(key, value, n) ORDER BY r.n
ON CONFLICT (run, key) DO UPDATE SET value = excluded.value, change = excluded.change
"""
_TAKE = """
INSERT INTO strands.runs AS r (id, fence, owner) VALUES (%s, %s, %s)
ON CONFLICT (id) DO UPDATE SET fence = greatest(r.fence + 1, excluded.fence), owner = excluded.owner
WHERE %s RETURNING fence
"""


class PostgresStore:
    """Keeps runs in a Postgres database. It connects on first use; several processes can use it."""

    migrations: ClassVar[tuple[tuple[LiteralString, ...], ...]] = (
        (
            'CREATE TABLE strands.runs (number BIGSERIAL PRIMARY KEY, id TEXT COLLATE "C" NOT NULL UNIQUE,'
            " fence BIGINT NOT NULL, owner BYTEA, changes BIGINT NOT NULL DEFAULT 0)",
            'CREATE TABLE strands.records (number BIGSERIAL, run TEXT COLLATE "C" NOT NULL,'
            ' key TEXT COLLATE "C" NOT NULL, value BYTEA NOT NULL, change BIGINT NOT NULL,'
            " PRIMARY KEY (run, key))",
            # Every write changes `changes`: a page that is not full takes the new version of the row.
            "ALTER TABLE strands.runs SET (fillfactor = 50)",
            "CREATE TABLE strands.chores (name TEXT PRIMARY KEY, done DOUBLE PRECISION NOT NULL)",
        ),
    )
    """The SQL that upgrades the tables to each version. Released migrations are never changed."""

    def __init__(self, url: str, *, keep_days: float | None = None, wait: float = _WAIT_SECONDS) -> None:
        """`url`: of libpq, which also reads the variables PG… and the user's password file.

        `keep_days`: when finished runs are deleted. `wait`: how many seconds to wait for a lost database.
        """
        self._url, self._keep_days, self._wait = url, keep_days, wait
        self._slots = threading.BoundedSemaphore(_CONNECTIONS)
        self._idle: list[psycopg.Connection] = []
        self._is_ready = False
        self._is_closed = False

    # --- what a store does ------------------------------------------------------------------------------

    def take(self, run: str, *, owner: Owner | None = None, take_over: bool = False) -> int:
        holder, tried = msgspec.json.encode(owner or this_process()), set[int]()
        query = "SELECT fence, owner FROM strands.runs WHERE id = %s FOR UPDATE"

        def take(database: "psycopg.Connection") -> int | None:
            with database.transaction():
                found = database.execute(query, (run,)).fetchone()
                if found and found[0] in tried and found[1] == holder:  # only the answer was lost
                    return int(found[0])
                if found and found[1]:
                    known = msgspec.json.decode(found[1], type=Owner)
                    refuse_taken(run, known, take_over=take_over, is_shared=True)
                taken = database.execute(_TAKE, (run, next_fence(0), holder, found is not None)).fetchone()
                if taken is None:  # another process has created it in between
                    return None
                tried.add(taken[0])
                return int(taken[0])

        self._remove_old_runs(but=run)
        while (fence := self._do(take)) is None:
            pass
        return fence

    def create(self, run: str, rows: Mapping[str, bytes]) -> bool:
        fence = next_fence(0)

        def create(database: "psycopg.Connection") -> bool:
            with database.transaction():
                query = "INSERT INTO strands.runs (id, fence) VALUES (%s, %s) ON CONFLICT (id) DO NOTHING"
                if database.execute(query, (run, fence)).rowcount:
                    _put(database, run, fence, rows)
                    return True
                # It is also new if this is the second attempt, after a commit whose answer was lost.
                query = "SELECT 1 FROM strands.runs WHERE id = %s AND fence = %s"
                return database.execute(query, (run, fence)).fetchone() is not None

        return self._do(create)

    def load(self, run: str) -> dict[str, bytes]:
        query = "SELECT key, value FROM strands.records WHERE run = %s ORDER BY number"
        return self._do(lambda database: dict(database.execute(query, (run,)).fetchall()))

    def changed(self, run: str, after: int = -1) -> tuple[int, dict[str, bytes]]:
        query = (
            "SELECT key, value, change FROM strands.records WHERE run = %s AND change > %s ORDER BY change"
        )
        found = self._do(lambda database: database.execute(query, (run, after)).fetchall())
        return (found[-1][2] if found else after), {key: value for key, value, _ in found}

    def put(self, run: str, fence: int, rows: Mapping[str, bytes]) -> None:
        def put(database: "psycopg.Connection") -> None:
            if rows and not _put(database, run, fence, rows):
                found = database.execute("SELECT fence FROM strands.runs WHERE id = %s", (run,)).fetchone()
                raise lost_run(run, found[0] if found else None)

        self._do(put)

    def release(self, run: str, fence: int) -> None:
        query = "UPDATE strands.runs SET owner = NULL WHERE id = %s AND fence = %s"
        self._do(lambda database: database.execute(query, (run, fence)))

    def runs(self, beginning: str = "") -> dict[str, dict[str, bytes]]:
        query = (
            "SELECT r.id, s.key, s.value FROM strands.runs r"
            " LEFT JOIN strands.records s ON s.run = r.id AND s.key = ANY(%s)"
            " WHERE r.id >= %s AND r.id < %s ORDER BY r.number"
        )
        values = ([*LISTED], beginning, beginning + LAST_CHARACTER)
        found: dict[str, dict[str, bytes]] = {}
        for run, key, value in self._do(lambda database: database.execute(query, values).fetchall()):
            found.setdefault(run, {})
            if key:
                found[run][key] = value
        return {run: {key: rows[key] for key in LISTED if key in rows} for run, rows in found.items()}

    def delete(self, run: str) -> None:
        self._do(lambda database: _delete(database, [run]))

    def close(self) -> None:
        self._is_closed = True
        self._close_idle()

    # --- the connections --------------------------------------------------------------------------------

    def _do(self, work: "Callable[[psycopg.Connection], T]") -> T:
        """Does it with a connection; again with another one if the database was lost in the middle."""
        psycopg = _psycopg()
        end, pause = time.monotonic() + self._wait, _FIRST_PAUSE
        while True:
            try:
                with self._slots, self._borrowed() as connection:
                    return work(connection)
            except psycopg.Error as error:
                # A database that this process has not seen yet is more likely a mistake in its address.
                may_come_back = isinstance(error, psycopg.OperationalError) and self._is_ready
                if not may_come_back or time.monotonic() > end:
                    raise self._refused(error) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    @contextmanager
    def _borrowed(self) -> "Iterator[psycopg.Connection]":
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connect()
        try:
            yield connection
        finally:
            if connection.closed or self._is_closed:
                connection.close()
                self._close_idle()  # the others are most likely lost too
            else:
                self._idle.append(connection)

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _connect(self) -> "psycopg.Connection":
        import psycopg

        self._check_address()
        connection = psycopg.connect(
            self._url,
            autocommit=True,
            connect_timeout=_CONNECT_SECONDS,
            application_name="strands-cli",
            # A network that swallows packets is found out in half a minute, not in two hours.
            keepalives_idle=10,
            keepalives_interval=5,
            keepalives_count=3,
            tcp_user_timeout=25_000,
        )
        if not self._is_ready:
            with ExitStack() as opened:
                opened.callback(connection.close)
                self._migrate(connection)
                opened.pop_all()
            self._is_ready = True
        return connection

    def _check_address(self) -> None:
        """SessionError if the URL is invalid. Its reason quotes nothing that could be part of a password."""
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict

        reason, given = "", dict[str, Any]()
        try:
            given = conninfo_to_dict(self._url)
        except ProgrammingError as error:
            reason = _first_line(error).partition(': "')[0].rstrip(".")
        # In a password, libpq takes "/" and "@" for its end, and what follows for the server's name.
        if "@" in given.get("dbname", "") or "@" in given.get("host", "")[1:]:
            reason = "a character in it must be written as a number"
        if reason:
            hint = "Write it as postgresql://USER@HOST:PORT/DATABASE, and / as %2F, @ as %40, % as %25."
            raise SessionError(f"The address of the store is invalid: {reason}.", hint=hint)

    def _migrate(self, database: "psycopg.Connection") -> None:
        """Upgrades the tables to this version in one transaction."""
        known = len(self.migrations)
        if self._version(database) == known:
            return
        with database.transaction():
            database.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            database.execute("CREATE SCHEMA IF NOT EXISTS strands")
            version = self._version(database)
            for statements in self.migrations[version:]:
                for statement in statements:
                    database.execute(statement)
            database.execute(
                "INSERT INTO strands.chores VALUES ('version', %s)"
                " ON CONFLICT (name) DO UPDATE SET done = excluded.done",
                (known,),
            )

    def _version(self, database: "psycopg.Connection") -> int:
        """The version of the tables; 0 if there are none. SessionError if it is newer than this program."""
        tables = database.execute("SELECT to_regclass('strands.chores')").fetchone()
        if tables is None or tables[0] is None:
            return 0
        found = database.execute("SELECT done FROM strands.chores WHERE name = 'version'").fetchone()
        version, known = int(found[0]) if found else 0, len(self.migrations)
        if version > known:
            raise SessionError(
                f"The journal in {self._place()} was written by a newer version of strands-cli.",
                hint=f"Update strands-cli. It has version {version}; this one supports {known}.",
            )
        return version

    def _remove_old_runs(self, *, but: str) -> None:
        """Deletes old runs, once a day. Unfinished runs and `but`, which is being resumed, are kept."""
        if self._keep_days is None:
            return
        now, keep = time.time(), self._keep_days

        def remove(database: "psycopg.Connection") -> None:
            query = "SELECT 1 FROM strands.chores WHERE name = 'retention' AND done > %s AND done <= %s"
            if database.execute(query, (now - _DAY, now)).fetchone():
                return
            with database.transaction():
                begun = database.execute("SELECT pg_try_advisory_xact_lock(%s)", (_LOCK + 1,)).fetchone()
                if begun is None or not begun[0]:  # another process does it now
                    return
                database.execute(
                    "INSERT INTO strands.chores VALUES ('retention', %s)"
                    " ON CONFLICT (name) DO UPDATE SET done = excluded.done",
                    (now,),
                )
                found = database.execute("SELECT run, value FROM strands.records WHERE key = 'status'")
                old = [run for run, value in found if was_done_before({"status": value}, now - keep * _DAY)]
                _delete(database, [run for run in old if run != but])

        self._do(remove)

    def _place(self) -> str:
        """The database in messages, without user and password."""
        from psycopg.conninfo import conninfo_to_dict

        given = conninfo_to_dict(self._url)
        host, port = given.get("host") or "this machine", given.get("port")
        return f"{given.get('dbname') or 'the database'} on {host}{f':{port}' if port else ''}"

    def _refused(self, error: "psycopg.Error") -> SessionError:
        """The error for the user: what is wrong with the database, and what to do."""
        psycopg, reason = _psycopg(), _first_line(error)
        if isinstance(error, psycopg.errors.DiskFull):
            hint = "Free some space, then: strands resume"
            return SessionError(f"The journal in {self._place()} cannot be written: {reason}", hint=hint)
        if isinstance(error, psycopg.OperationalError):
            hint = "Start it, or correct the store: STRANDS_STORE, or [runs] store in your settings."
            return Unreachable(f"The journal in {self._place()} cannot be reached: {reason}", hint=hint)
        hint = "The user needs the right to create a schema once, and to read and write its tables."
        return SessionError(f"The journal in {self._place()} cannot be used: {reason}", hint=hint)


def _put(database: "psycopg.Connection", run: str, fence: int, rows: Mapping[str, bytes]) -> bool:
    """Writes rows in one statement; returns False if the fencing number is outdated."""
    count = len(rows)
    values = (count, run, fence, run, count, [*rows], [*rows.values()])
    return database.execute(_PUT, values).rowcount > 0


def _delete(database: "psycopg.Connection", runs: list[str]) -> None:
    with database.transaction():
        database.execute("DELETE FROM strands.runs WHERE id = ANY(%s)", (runs,))
        database.execute("DELETE FROM strands.records WHERE run = ANY(%s)", (runs,))


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    text = text.splitlines()[0]
    return text if text.endswith(".") else f"{text}."


def _psycopg() -> ModuleType:
    try:
        import psycopg
    except ImportError:
        hint = install_hint("cluster")
        raise UnsupportedError("A store in Postgres needs the package psycopg.", hint=hint) from None
    return psycopg
