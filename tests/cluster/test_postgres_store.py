"""The journals of runs in Postgres: its tables, its errors, its connections, and the commands that use it."""

import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, LiteralString

import msgspec
import psycopg
import pytest

from strands_cli.errors import SessionError, SpecError, UnsupportedError, install_hint
from strands_cli.exec.ownership import Lost, Owner, Unreachable, this_process
from strands_cli.exec.postgres_store import PostgresStore
from strands_cli.exec.stores import SqliteStore, Store, open_store
from strands_cli.settings import load_settings
from tests.cluster.clusters import until
from tests.cluster.servers import Postgres, free_port
from tests.projects import Project

PASSWORD = "s3cret-Pass"
DAY = 86_400


def ask(url: str, query: LiteralString, *values: object) -> list[tuple[Any, ...]]:
    """What the database answers to somebody who looks past the store."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query, values or None)
        return cursor.fetchall() if cursor.description else []


def is_blocked(url: str) -> bool:
    """Whether somebody waits for a transaction that is not finished."""
    [(waiting,)] = ask(
        url, "SELECT count(*) FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0"
    )
    return bool(waiting)


def connections(url: str) -> int:
    """The connections of stores to this database."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'strands-cli'"
    return int(ask(url, query)[0][0])


def end_connections(url: str) -> None:
    """Ends the connections of stores, as an administrator does, and returns when they are gone."""
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'strands-cli'"
    ask(url, query)
    until(lambda: connections(url) == 0)


@pytest.fixture
def store(database: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(database)) as found:
        yield found


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(20) as found:
        yield found


def at_once(threads: ThreadPoolExecutor, works: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results of functions that begin at the same moment, each in a thread; an error is a result too."""
    start = threading.Barrier(len(works))

    def done(work: Callable[[], Any]) -> Any:
        start.wait()
        try:
            return work()
        except SessionError as error:
            return error

    return [*threads.map(done, works)]


# --- the tables ---------------------------------------------------------------------------------------------


class NextStore(PostgresStore):
    migrations = (
        *PostgresStore.migrations,
        ("ALTER TABLE strands.runs ADD COLUMN note TEXT DEFAULT 'none'",),
    )


class BrokenNextStore(PostgresStore):
    migrations = (*NextStore.migrations, ("DELETE FROM strands.records", "SELECT nonsense"))


def fill(url: str, kind: type[PostgresStore] = PostgresStore) -> None:
    with closing(kind(url)) as store:
        fence = store.take("aaaa1111")
        store.put("aaaa1111", fence, {f"row/{number}": b"x" for number in range(100)})
        store.release("aaaa1111", fence)


def content(url: str) -> list[Any]:
    """All that is in the tables, and their columns."""
    columns = "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'strands'"
    tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'strands' ORDER BY 1"
    names = [name for (name,) in ask(url, tables)]
    return [
        sorted(ask(url, columns)),
        *(sorted(ask(url, f"TABLE strands.{name}".encode())) for name in names),
    ]  # type: ignore[arg-type]


def refusal(store: PostgresStore) -> SessionError:
    """The error that both readers and writers get."""
    found = []
    for work in (store.runs, lambda: store.load("aaaa1111"), lambda: store.take("aaaa1111")):
        with pytest.raises(SessionError) as told:
            work()
        found.append((type(told.value), told.value.message, told.value.hint))
    store.close()
    assert len({*found}) == 1, found
    assert all(found[0][1:])
    assert told.value.exit_code == 17
    return told.value


def test_stores_that_start_together_create_the_tables_once(
    postgres_server: Postgres, database: str, threads: ThreadPoolExecutor
) -> None:
    stores = [PostgresStore(database) for _ in range(12)]
    fences = at_once(threads, [lambda n=n: stores[n].take(f"run-{n:02}") for n in range(12)])  # type: ignore[misc]
    assert all(isinstance(fence, int) for fence in fences), fences
    assert sorted(stores[0].runs()) == [f"run-{n:02}" for n in range(12)]
    assert ask(database, "SELECT done FROM strands.chores WHERE name = 'version'") == [(1,)]
    for store in stores:
        store.close()


def test_processes_that_start_together_create_the_tables_once(database: str) -> None:
    code = """
import sys
from strands_cli.exec.postgres_store import PostgresStore
store = PostgresStore(sys.argv[1])
import psycopg
print("ready", flush=True)
sys.stdin.readline()
fence = store.take(sys.argv[2])
for number in range(20):
    store.put(sys.argv[2], fence, {str(number): b"1"})
store.close()
"""
    runs = [f"run-{number}" for number in range(3)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    children = [
        subprocess.Popen([sys.executable, "-c", code, database, run], text=True, **pipes) for run in runs
    ]
    assert [child.stdout.readline() for child in children] == ["ready\n"] * 3
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    errors = [child.communicate(timeout=50)[1] for child in children]
    assert errors == [""] * 3
    with closing(PostgresStore(database)) as store:
        assert {run: len(store.load(run)) for run in store.runs()} == dict.fromkeys(runs, 20)


def test_tables_of_a_newer_version_are_told_and_left_as_they_are(database: str) -> None:
    fill(database, NextStore)
    before = content(database)
    error = refusal(PostgresStore(database))
    assert "newer version of strands-cli" in error.message
    assert "version 2; this one supports 1" in error.hint
    assert content(database) == before


def test_older_tables_are_brought_to_the_new_version_with_all_their_rows(
    database: str, threads: ThreadPoolExecutor
) -> None:
    fill(database)
    stores = [NextStore(database) for _ in range(6)]
    assert [
        len(rows) for rows in at_once(threads, [lambda one=one: one.load("aaaa1111") for one in stores])
    ] == [100] * 6  # type: ignore[misc]
    assert ask(database, "SELECT id, note FROM strands.runs") == [("aaaa1111", "none")]
    assert ask(database, "SELECT done FROM strands.chores WHERE name = 'version'") == [(2,)]
    for store in stores:
        store.close()


def test_a_migration_that_fails_changes_nothing(database: str) -> None:
    fill(database)
    before = content(database)
    assert "nonsense" in refusal(BrokenNextStore(database)).message
    assert content(database) == before
    assert connections(database) == 0


# --- errors of the database ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (
            f"postgresql://ada:{PASSWORD}%zz@HOST/db",
            "The address of the store is invalid: invalid percent-encoded",
        ),
        (
            f"postgresql://ada:%00{PASSWORD}@HOST/db",
            "The address of the store is invalid: forbidden value %00",
        ),
        (f"postgresql://ada:{PASSWORD}@[::1/db", "The address of the store is invalid: end of string"),
        (
            f"postgresql://ada:{PASSWORD}@[::1]x/db",
            "The address of the store is invalid: unexpected character",
        ),
        (f"postgresql://ada:{PASSWORD}/x@HOST/db", "The address of the store is invalid: a character in it"),
        (f"postgresql://ada:x/{PASSWORD}@HOST/db", "The address of the store is invalid: a character in it"),
        (f"postgresql://ada:x@{PASSWORD}@HOST/db", "The address of the store is invalid: a character in it"),
        (
            f"postgresql://ada:{PASSWORD}@HOST/db?nope=1",
            "The address of the store is invalid: invalid URI query",
        ),
        (f"postgresql://ada:{PASSWORD}@HOST:none/db", "The journal in db on 127.0.0.1:none cannot be"),
        (
            f"postgresql://ada:{PASSWORD}@HOST:CLOSED/db",
            "The journal in db on 127.0.0.1:CLOSED cannot be reached",
        ),
        (
            f"postgresql://ada:{PASSWORD}@no-such-host.invalid/db",
            "The journal in db on no-such-host.invalid cannot be",
        ),
        (
            f"postgresql://strands:{PASSWORD}@HOST:PORT/missing",
            "The journal in missing on 127.0.0.1:PORT cannot be",
        ),
        (
            f"postgresql://nobody:{PASSWORD}@HOST:PORT/postgres",
            "The journal in postgres on 127.0.0.1:PORT cannot be",
        ),
        (
            f"postgresql://nobody@HOST:PORT/postgres?password={PASSWORD}",
            "The journal in postgres on 127.0.0.1:PORT",
        ),
    ],
)
def test_a_database_that_cannot_be_reached_is_told_at_once_without_its_password(
    url: str, reason: str, postgres_server: Postgres, database: str
) -> None:
    places = {"HOST": "127.0.0.1", "PORT": str(postgres_server.port), "CLOSED": str(free_port())}
    for name, value in places.items():
        url, reason = url.replace(name, value), reason.replace(name, value)
    error = refusal(PostgresStore(url))
    assert error.message.startswith(reason)
    assert "\n" not in error.message
    assert error.message.endswith(".")
    assert isinstance(error, Unreachable) != reason.startswith("The address")
    assert "postgresql://USER@HOST" in error.hint or "STRANDS_STORE" in error.hint
    assert PASSWORD not in f"{error.message} {error.hint}"


@pytest.fixture
def with_password(postgres_server: Postgres) -> Iterator[str]:
    """A user of the server who has to tell a password."""
    user = f"locked_{secrets.token_hex(4)}"
    ask(postgres_server.url(), f"CREATE USER {user} SUPERUSER PASSWORD 'right'".encode())  # type: ignore[arg-type]
    file = postgres_server.data / "pg_hba.conf"
    before = file.read_text()
    try:
        file.write_text(f"host all {user} 127.0.0.1/32 scram-sha-256\n{before}")
        reload(postgres_server)
        yield user
    finally:
        file.write_text(before)
        reload(postgres_server)
        ask(postgres_server.url(), f"DROP USER {user}".encode())  # type: ignore[arg-type]


def reload(server: Postgres) -> None:
    [(before,)] = ask(server.url(), "SELECT pg_conf_load_time()")
    ask(server.url(), "SELECT pg_reload_conf()")
    until(lambda: ask(server.url(), "SELECT pg_conf_load_time()") != [(before,)])


def test_a_wrong_password_is_told_and_not_shown(with_password: str, database: str) -> None:
    wrong, right = (database.replace("strands@", f"{with_password}:{word}@") for word in (PASSWORD, "right"))
    error = refusal(PostgresStore(wrong))
    assert "password authentication failed" in error.message
    assert PASSWORD not in f"{error.message} {error.hint}"
    with closing(PostgresStore(right)) as store:
        store.take("aaaa1111")
        ask(database, f"REASSIGN OWNED BY {with_password} TO strands".encode())  # type: ignore[arg-type]


@pytest.fixture
def ordinary(postgres_server: Postgres, database: str) -> Iterator[tuple[str, str]]:
    """A user who may connect to the database and nothing else, and its URL of the database."""
    user = f"ordinary_{secrets.token_hex(4)}"
    ask(database, f"CREATE USER {user}".encode())  # type: ignore[arg-type]
    yield user, database.replace("strands@", f"{user}@")
    ask(database, f"DROP OWNED BY {user}".encode())  # type: ignore[arg-type]
    ask(database, f"DROP USER {user}".encode())  # type: ignore[arg-type]


@pytest.mark.parametrize("has_tables", [False, True])
def test_a_user_without_rights_is_told_what_they_need(
    has_tables: bool, ordinary: tuple[str, str], database: str
) -> None:
    if has_tables:
        fill(database)
    error = refusal(PostgresStore(ordinary[1]))
    assert "cannot be used: permission denied for" in error.message
    assert database.rpartition("/")[2] in error.message
    assert "right to create a schema" in error.hint
    assert connections(database) == 0


def test_a_user_who_may_only_use_the_tables_can_do_so(ordinary: tuple[str, str], database: str) -> None:
    user, url = ordinary
    fill(database)
    for right in ("USAGE ON SCHEMA", "ALL ON ALL TABLES IN SCHEMA", "ALL ON ALL SEQUENCES IN SCHEMA"):
        ask(database, f"GRANT {right} strands TO {user}".encode())  # type: ignore[arg-type]
    with closing(PostgresStore(url)) as store:
        store.put("aaaa1111", store.take("aaaa1111"), {"status": b"1"})
        assert len(store.load("aaaa1111")) == 101
        store.delete("aaaa1111")
        assert store.runs() == {}
    fill(database, NextStore)
    assert "newer version of strands-cli" in refusal(PostgresStore(url)).message


def test_without_psycopg_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UnsupportedError, match="needs the package psycopg") as told:
        PostgresStore("postgresql://localhost/db").runs()
    assert told.value.hint == install_hint("cluster")


# --- connections that are lost ------------------------------------------------------------------------------


class Wire:
    """What carries a store's connections to the server, and breaks when it is told to."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._refuses, self._is_closed = False, False
        self._cut: tuple[bytes, str] | None = None
        self.cuts = 0
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, database: str) -> str:
        return database.replace(self._server.address, f"127.0.0.1:{self.port}")

    def cut(self, text: bytes, what: str, *, refuses: bool = False) -> None:
        """Breaks the next connection that carries a request with this text: before it arrives, or before the
        `answer` to it. `refuses` breaks all new connections afterwards, until `mend`."""
        self._cut, self._will_refuse = (text, what), refuses

    def mend(self) -> None:
        self._refuses = False

    def close(self) -> None:
        self._is_closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in [*self._open]:
            _end(one)

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refuses:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._server.port))
            self._open.add(client)
            lost = threading.Event()
            for work in (self._carry_requests, self._carry_answers):
                threading.Thread(target=work, args=(client, server, lost), daemon=True).start()

    def _carry_requests(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        with suppress(OSError):
            while data := client.recv(65_536):
                if self._cut is not None and self._cut[0] in data:
                    what, self._cut = self._cut[1], None
                    self._refuses = self._will_refuse
                    self.cuts += 1
                    lost.set()
                    if what == "request":
                        break
                server.sendall(data)
        if not lost.is_set() or what == "request":
            _end(server)
            self._forget(client)

    def _carry_answers(self, client: socket.socket, server: socket.socket, lost: threading.Event) -> None:
        with suppress(OSError):
            while data := server.recv(65_536):
                if lost.is_set():  # the server has done it
                    break
                client.sendall(data)
        _end(server)
        self._forget(client)

    def _forget(self, client: socket.socket) -> None:
        _end(client)
        self._open.discard(client)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()


@pytest.fixture
def wire(postgres_server: Postgres, database: str) -> Iterator[Wire]:
    found = Wire(postgres_server)
    yield found
    found.close()


LOST = pytest.mark.parametrize("lost", ["request", "answer"])


@LOST
def test_a_write_whose_connection_breaks_is_made_again_and_is_there_once(
    lost: str, wire: Wire, database: str
) -> None:
    with closing(PostgresStore(wire.url(database))) as store:
        fence = store.take("aaaa1111")
        store.put("aaaa1111", fence, {"head": b"1", "status": b"1"})
        wire.cut(b"strands.records", lost)
        store.put("aaaa1111", fence, {"steps/0": b"2", "status": b"2"})
        store.put("aaaa1111", fence, {"steps/1": b"3"})
        assert wire.cuts == 1
        assert [*store.load("aaaa1111").items()] == [
            ("head", b"1"),
            ("status", b"2"),
            ("steps/0", b"2"),
            ("steps/1", b"3"),
        ]
        assert [*store.changed("aaaa1111")[1]] == ["head", "steps/0", "status", "steps/1"]
        assert ask(database, "SELECT count(*) FROM strands.records") == [(4,)]


@LOST
@pytest.mark.parametrize("is_new", [True, False])
def test_a_run_that_is_taken_while_the_connection_breaks_is_not_refused_as_taken(
    is_new: bool, lost: str, wire: Wire, database: str
) -> None:
    if not is_new:
        fill(database)
    with closing(PostgresStore(wire.url(database))) as store:
        store.runs()
        wire.cut(b"COMMIT", lost)
        fence = store.take("aaaa1111")
        assert wire.cuts == 1
        store.put("aaaa1111", fence, {"status": b"1"})
        assert store.load("aaaa1111")["status"] == b"1"
        with pytest.raises(SessionError, match="in use by process"):
            store.take("aaaa1111")


@LOST
def test_a_run_that_is_created_while_the_connection_breaks_is_new(
    lost: str, wire: Wire, database: str
) -> None:
    with closing(PostgresStore(wire.url(database))) as store:
        store.runs()
        wire.cut(b"COMMIT", lost)
        assert store.create("aaaa1111", {"head": b"1"})
        assert wire.cuts == 1
        assert not store.create("aaaa1111", {"head": b"2"})
        assert store.load("aaaa1111") == {"head": b"1"}


@LOST
def test_a_run_that_is_released_or_deleted_while_the_connection_breaks_is_so(
    lost: str, wire: Wire, database: str
) -> None:
    with closing(PostgresStore(wire.url(database))) as store:
        fence = store.take("aaaa1111")
        wire.cut(b"UPDATE strands.runs SET owner = NULL", lost)
        store.release("aaaa1111", fence)
        store.put("aaaa1111", store.take("aaaa1111"), {"head": b"1"})
        wire.cut(b"COMMIT", lost)
        store.delete("aaaa1111")
        assert wire.cuts == 2
        assert store.runs() == {}
        assert ask(database, "SELECT count(*) FROM strands.records") == [(0,)]


@LOST
def test_whoever_lost_the_run_with_the_connection_writes_nothing_more(
    lost: str, wire: Wire, store: PostgresStore, database: str, threads: ThreadPoolExecutor
) -> None:
    with closing(PostgresStore(wire.url(database))) as cut_off:
        fence = cut_off.take("aaaa1111")
        cut_off.put("aaaa1111", fence, {"head": b"1"})
        wire.cut(b"strands.records", lost, refuses=True)
        write = threads.submit(cut_off.put, "aaaa1111", fence, {"status": b"old"})
        until(lambda: wire.cuts == 1)
        if lost == "answer":  # it was committed before the run was taken over
            until(lambda: "status" in store.load("aaaa1111"))
        second = store.take("aaaa1111", take_over=True)
        store.put("aaaa1111", second, {"status": b"new"})
        wire.mend()
        with pytest.raises(Lost, match="taken over"):
            write.result(50)
        with pytest.raises(Lost, match="taken over"):
            cut_off.put("aaaa1111", fence, {"status": b"old"})
        assert store.load("aaaa1111") == {"head": b"1", "status": b"new"}


def test_lost_connections_are_replaced_and_not_tried_one_after_the_other(
    database: str, threads: ThreadPoolExecutor
) -> None:
    with closing(PostgresStore(database, wait=3)) as store:
        fence = store.take("aaaa1111")
        with psycopg.connect(database) as other:
            other.execute("LOCK TABLE strands.runs")
            readers = [threads.submit(store.runs) for _ in range(12)]
            until(lambda: connections(database) == 8)
        assert all(reader.result(50) for reader in readers)
        end_connections(database)
        store.put("aaaa1111", fence, {"head": b"1"})  # to try all of them takes longer than the store waits
        assert store.load("aaaa1111") == {"head": b"1"}
        assert connections(database) == 1


def test_many_threads_share_at_most_eight_connections(
    store: PostgresStore, database: str, threads: ThreadPoolExecutor
) -> None:
    counts: list[int] = []

    def write(run: str) -> None:
        fence = store.take(run)
        for number in range(20):
            store.put(run, fence, {f"steps/{number}": f"{run} {number}".encode()})
        counts.append(connections(database))
        store.release(run, fence)

    runs = [f"run-{number:02}" for number in range(60)]
    [*threads.map(write, runs)]
    assert max(counts) <= 8
    expected = {run: {f"steps/{n}": f"{run} {n}".encode() for n in range(20)} for run in runs}
    assert {run: store.load(run) for run in runs} == expected
    assert sorted(store.runs()) == runs
    store.close()
    until(lambda: connections(database) == 0)


# --- a server that restarts ---------------------------------------------------------------------------------


class Writers:
    """Threads that each write one run, row after row, until they are told to stop."""

    def __init__(self, store: Store, threads: ThreadPoolExecutor, count: int = 4) -> None:
        self._store, self._stopped = store, threading.Event()
        self.fences = {f"run-{number}": store.take(f"run-{number}") for number in range(count)}
        self.written = dict.fromkeys(self.fences, 0)
        self._working: list[Future[None]] = [threads.submit(self._write, run) for run in self.fences]

    def _write(self, run: str) -> None:
        while not self._stopped.is_set():
            number = self.written[run]
            self._store.put(
                run, self.fences[run], {f"row/{number}": b"%d" % number, "status": b"%d" % number}
            )
            self.written[run] += 1

    def go_on(self) -> None:
        """Returns when each has written some more rows."""
        goal = {run: number + 10 for run, number in self.written.items()}

        def is_there() -> bool:
            ended = [one.result() for one in self._working if one.done()]  # raises what has ended it
            assert not ended
            return all(self.written[run] >= goal[run] for run in goal)

        until(is_there)

    def stop(self) -> None:
        self._stopped.set()
        for one in self._working:
            one.result(50)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_whoever_writes_while_the_server_restarts_notices_nothing(
    mode: Any, postgres_server: Postgres, store: PostgresStore, database: str, threads: ThreadPoolExecutor
) -> None:
    writers = Writers(store, threads)
    try:
        writers.go_on()
        postgres_server.restart(mode)
        writers.go_on()
    finally:
        writers.stop()
    for run, count in writers.written.items():
        rows = store.load(run)
        assert [*rows] == ["row/0", "status", *(f"row/{number}" for number in range(1, count))]
        assert all(rows[f"row/{number}"] == b"%d" % number for number in range(count))
        assert rows["status"] == b"%d" % (count - 1)
        [(numbers, changes)] = ask(
            database, "SELECT count(DISTINCT change), count(*) FROM strands.records WHERE run = %s", run
        )
        assert numbers == changes == count + 1


def test_a_server_that_is_down_is_waited_for_and_then_told(
    postgres_server: Postgres, database: str, threads: ThreadPoolExecutor
) -> None:
    with closing(PostgresStore(database)) as patient, closing(PostgresStore(database, wait=0.2)) as short:
        fence = patient.take("aaaa1111")
        short.runs()
        postgres_server.stop()
        try:
            write = threads.submit(patient.put, "aaaa1111", fence, {"head": b"1"})
            place = rf"on 127\.0\.0\.1:{postgres_server.port} cannot be reached"
            with pytest.raises(Unreachable, match=place) as told:
                short.load("aaaa1111")
            assert "Start it" in told.value.hint
            assert not write.done()
        finally:
            postgres_server.restart()
        write.result(50)
        assert short.load("aaaa1111") == {"head": b"1"}


# --- who writes at the same time ----------------------------------------------------------------------------


@contextmanager
def held(url: str, *statements: LiteralString, values: Sequence[object] = ()) -> Iterator[None]:
    """Another process in the middle of a transaction, which it commits when somebody waits for it."""
    with psycopg.connect(url) as other:
        for statement in statements:
            other.execute(statement, values or None)
        yield
        until(lambda: is_blocked(url))
        other.commit()


def test_of_those_who_take_a_new_run_at_once_one_gets_it(
    store: PostgresStore, database: str, threads: ThreadPoolExecutor
) -> None:
    store.runs()
    owner = msgspec.json.encode(this_process())
    query: LiteralString = "INSERT INTO strands.runs (id, fence, owner) VALUES ('aaaa1111', 5, %s)"
    with held(database, query, values=(owner,)):
        take = threads.submit(store.take, "aaaa1111")
    with pytest.raises(SessionError, match="in use by process"):
        take.result(50)
    assert ask(database, "SELECT fence FROM strands.runs") == [(5,)]
    taken = at_once(threads, [lambda: store.take("bbbb2222")] * 16)
    assert sum(isinstance(one, int) for one in taken) == 1, taken
    assert sum("in use by process" in str(one) for one in taken) == 15


def test_a_run_of_another_machine_is_only_taken_over_on_request(store: PostgresStore) -> None:
    elsewhere = Owner("another-machine", 1234)
    store.take("aaaa1111", owner=elsewhere)
    with pytest.raises(SessionError, match="in use by process 1234 on another-machine") as refused:
        store.take("aaaa1111")
    assert "strands resume aaaa1111 --take-over" in refused.value.hint
    store.put("aaaa1111", store.take("aaaa1111", take_over=True), {"head": b"1"})


def test_a_write_that_waits_for_whoever_takes_the_run_over_is_refused(
    store: PostgresStore, database: str, threads: ThreadPoolExecutor
) -> None:
    fence = store.take("aaaa1111")
    with held(database, "UPDATE strands.runs SET fence = fence + 1"):
        write = threads.submit(store.put, "aaaa1111", fence, {"head": b"1"})
    with pytest.raises(Lost, match="taken over"):
        write.result(50)
    assert store.load("aaaa1111") == {}


def test_a_write_that_waits_for_whoever_deletes_the_run_leaves_nothing(
    store: PostgresStore, database: str, threads: ThreadPoolExecutor
) -> None:
    fence = store.take("aaaa1111")
    with held(database, "DELETE FROM strands.runs", "DELETE FROM strands.records"):
        write = threads.submit(store.put, "aaaa1111", fence, {"head": b"1"})
    with pytest.raises(Lost, match="deleted"):
        write.result(50)
    assert ask(database, "SELECT count(*) FROM strands.records") == [(0,)]


def test_large_values_and_odd_keys_come_back_as_they_were(store: PostgresStore) -> None:
    every_byte = bytes(range(256))
    rows = {
        "large/0": every_byte * 20_000,
        "large/1": secrets.token_bytes(5_000_000),
        "empty": b"",
        "escapes": rb'\x00 \\ "{}" NULL',
        "NULL": b"NULL",
        '{"a", b}': b"1",
        "back\\slash 'and' $1 %s": b"2",
        "größe/🎈": "🎈".encode(),
        "": b"3",
    }
    store.put("aaaa1111", store.take("aaaa1111"), rows)
    assert [*store.load("aaaa1111").items()] == [*rows.items()]
    assert [*store.changed("aaaa1111")[1].items()] == [*rows.items()]


# --- how long runs are kept ---------------------------------------------------------------------------------


def age(url: str, run: str, status: dict[str, object]) -> None:
    with closing(PostgresStore(url)) as store:
        fence = store.take(run)
        store.put(run, fence, {"head": b"{}", "status": msgspec.json.encode(status)})
        store.release(run, fence)


def test_runs_that_were_done_long_ago_are_deleted_and_others_are_kept(database: str) -> None:
    now = time.time()
    kept = ["paused", "failed", "interrupted", "budget", "running", "queued"]
    for status in kept:
        age(database, f"{status}-0", {"status": status, "updated": now - 400 * DAY})
    age(database, "young-00", {"status": "done", "updated": now - 29 * DAY})
    age(database, "old-0000", {"status": "done", "updated": now - 31 * DAY})
    age(database, "odd-0000", {"status": "done"})
    age(database, "resumed0", {"status": "done", "updated": now - 31 * DAY})
    with closing(PostgresStore(database, keep_days=30)) as store:
        assert "old-0000" in store.runs()  # who only looks deletes nothing
        store.take("resumed0")
        assert [*store.runs()] == [*(f"{status}-0" for status in kept), "young-00", "odd-0000", "resumed0"]
        assert store.load("old-0000") == {}
        assert store.load("resumed0")


def test_old_runs_are_looked_for_once_a_day_also_by_a_process_that_goes_on_for_days(database: str) -> None:
    old = {"status": "done", "updated": time.time() - 31 * DAY}
    with closing(PostgresStore(database, keep_days=30)) as lasting:
        lasting.take("new00000")
        age(database, "old00000", old)
        lasting.take("new11111")
        with closing(PostgresStore(database, keep_days=30)) as other:
            other.take("new22222")
            assert "old00000" in other.runs()
        for run, seconds in (
            ("later000", -90_000),
            ("later111", 190_000),
        ):  # a day later; a clock that was wrong
            age(database, "old00000", old)
            ask(database, "UPDATE strands.chores SET done = done + %s WHERE name = 'retention'", seconds)
            lasting.take(run)
            assert "old00000" not in lasting.runs()


# --- commands -----------------------------------------------------------------------------------------------

FLOW = """version: 0
name: flow
runtime: {provider: scripted}
inputs: {values: {who: {type: string, default: it}}}
agents: {worker: {prompt: You work.}}
pattern:
  type: chain
  config:
    steps:
      - {agent: worker, input: "first {{ who }} \\x00 größe"}
      - human: {prompt: "Go on with {{ last_response }}?"}
      - {agent: worker, input: "then {{ last_response }}"}
"""
ANSWERS = '- {system: You, answers: [{text: "{{ prompt }}"}]}\n'


@pytest.fixture
def flow(project: Project) -> Project:
    """A project with a workflow that waits for a person, on a machine without Temporal."""
    project.write("flow.yaml", FLOW)
    project.write("answers.yaml", ANSWERS)
    project.environment |= {"TEMPORAL_ADDRESS": f"127.0.0.1:{free_port()}", "STRANDS_TRUST": "1"}
    return project


def test_the_commands_keep_runs_in_postgres_and_need_no_other_server(flow: Project, database: str) -> None:
    flow.environment["STRANDS_STORE"] = database
    assert "no runs yet" in flow.strands("runs", "list").err
    paused = flow.strands("run", "flow.yaml", "--var", "who=x")
    assert paused.exit_code == 19, paused
    [run] = flow.strands("runs", "list", "--json").json["runs"]
    assert run["status"] == "paused"
    resumed = flow.strands("resume", run["id"], "--answer", "yes")
    assert (resumed.exit_code, resumed.out) == (0, "then yes\n"), resumed
    assert [line.split()[:3] for line in flow.strands("runs", "list").out.splitlines()] == [
        [run["id"], "flow", "done"]
    ]
    shown = flow.strands("runs", "show", run["id"][:5], "--json").json
    assert (shown["status"]["status"], [step["status"] for step in shown["steps"]]) == ("done", ["done"] * 3)
    assert ask(database, "SELECT id, owner FROM strands.runs") == [(run["id"], None)]
    deleted = flow.strands("runs", "delete", run["id"])
    assert deleted.exit_code == 0, deleted
    assert flow.strands("runs", "list", "--json").json == {"runs": []}
    assert ask(database, "SELECT count(*) FROM strands.records") == [(0,)]
    assert not [*Path(flow.environment["XDG_DATA_HOME"]).rglob("runs.db")]


def test_a_command_without_its_database_says_so_in_one_line(flow: Project, database: str) -> None:
    wrong = f"postgresql://ada:{PASSWORD}@127.0.0.1:{free_port()}/runs"
    for command in (("run", "flow.yaml"), ("runs", "list"), ("resume",)):
        outcome = flow.strands(*command, STRANDS_STORE=wrong)
        assert outcome.exit_code == 17, outcome
        assert "The journal in runs on 127.0.0.1:" in outcome.err
        assert "cannot be reached" in outcome.err
        assert "STRANDS_STORE" in outcome.err
        assert "Traceback" not in outcome.err
        assert PASSWORD not in outcome.out + outcome.err


def rows_of(store: Store, run: str) -> list[tuple[str, bytes]]:
    with closing(store):  # type: ignore[type-var]
        return [*store.load(run).items()]


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_run_moves_from_a_file_to_postgres_and_back_with_all_its_rows(
    is_finished: bool, flow: Project, database: str, tmp_path: Path
) -> None:
    def strands(*arguments: str, store: str = "", data: str = "data") -> None:
        environment = {"STRANDS_STORE": store, "XDG_DATA_HOME": str(tmp_path / data)}
        outcome = flow.strands(*arguments, **environment)
        assert outcome.exit_code in (0, 19), outcome

    def in_file(data: str) -> SqliteStore:
        return SqliteStore(tmp_path / data / "strands-cli" / "runs.db")

    strands("run", "flow.yaml")
    [run] = in_file("data").runs()
    if is_finished:
        strands("resume", run, "--answer", "yes")
    strands("runs", "export", run, "first.jsonl")
    strands("runs", "import", "first.jsonl", store=database)
    strands("runs", "export", run, "second.jsonl", store=database)
    strands("runs", "import", "second.jsonl", data="other")
    strands("runs", "import", "first.jsonl", data="third")
    own, moved = rows_of(in_file("data"), run), rows_of(PostgresStore(database), run)
    assert rows_of(in_file("other"), run) == moved
    assert rows_of(in_file("third"), run) == moved
    changed = ("head", "status", "artifacts")  # an import says who may do what in the new place
    assert [row for row in moved if row[0] not in changed] == [row for row in own if row[0] not in changed]
    assert len(moved) > 6
    if not is_finished:
        resumed = flow.strands("resume", run, "--answer", "on", STRANDS_STORE=database)
        assert (resumed.exit_code, resumed.out) == (0, "then on\n"), resumed


# --- settings -----------------------------------------------------------------------------------------------


def settings(tmp_path: Path, *, project: str = "", user: str = "", **environment: str) -> Any:
    own = tmp_path / "config" / "strands-cli" / "strands.toml"
    own.parent.mkdir(parents=True)
    own.write_text(user)
    (tmp_path / "strands.toml").write_text(project)
    return load_settings(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path / "config"), **environment})


@pytest.mark.parametrize(
    ("user", "environment", "store"),
    [
        ("", {}, ""),
        ('[runs]\nstore = "postgresql://own/db"', {}, "postgresql://own/db"),
        (
            '[runs]\nstore = "postgresql://own/db"',
            {"STRANDS_STORE": "postgres://other/db"},
            "postgres://other/db",
        ),
        ('[runs]\nstore = "postgresql://own/db"', {"STRANDS_STORE": ""}, "postgresql://own/db"),
    ],
)
def test_the_store_is_of_the_environment_or_of_the_users_own_file(
    user: str, environment: dict[str, str], store: str, tmp_path: Path
) -> None:
    found = settings(tmp_path, project='[runs]\ndurability = "full"', user=user, **environment)
    assert (found.runs.store, found.runs.durability) == (store, "full")
    opened = open_store(found)
    assert type(opened) is (PostgresStore if store else SqliteStore)
    opened.close()


@pytest.mark.parametrize(
    ("user", "environment", "engine"),
    [
        ("", {}, ""),
        ("", {"STRANDS_ENGINE": "temporal"}, "temporal"),
        ('[engine]\nuse = "temporal"', {}, "temporal"),
        ('[engine]\nuse = "temporal"', {"STRANDS_ENGINE": "local"}, ""),
    ],
)
def test_the_engine_is_of_the_environment_or_of_the_users_own_file(
    user: str, environment: dict[str, str], engine: str, tmp_path: Path
) -> None:
    found = settings(tmp_path, user=user, **environment).engine
    assert found.use == engine
    assert (found.queue, found.lost_after) == ("strands", 6.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            '[runs]\nstore = "postgresql://ada@evil/db"',
            "runs.store can only be set in your own settings: the journal",
        ),
        ('[runs]\nstore = ""', "runs.store can only be set in your own settings"),
        (
            '[engine]\nuse = "temporal"',
            "engine can only be set in your own settings: whoever runs the engine",
        ),
        ('[engine]\naddress = "evil:7233"', "engine can only be set in your own settings"),
        ("[engine]", "engine can only be set in your own settings"),
    ],
)
@pytest.mark.parametrize("name", ["strands.toml", "pyproject.toml"])
def test_a_project_sets_neither_the_store_nor_the_engine(
    name: str, text: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text if name == "strands.toml" else text.replace("[", "[tool.strands."))
    with pytest.raises(SpecError) as told:
        load_settings(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path / "config"), "STRANDS_TRUST": "1"})
    assert told.value.message.startswith(f"{tmp_path / name} cannot be used: {reason}")
    assert "move it to ~/.config/strands-cli/strands.toml" in told.value.hint


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f'[runs]\nstore = "mysql://ada:{PASSWORD}@h/db"',
            "store is not postgresql://USER@HOST:PORT/DATABASE",
        ),
        (f'[runs]\nstore = "{PASSWORD}"', "store is not postgresql://USER@HOST:PORT/DATABASE"),
        ("[runs]\nstore = 5", "'runs.store' must be a string, got integer"),
        ('[engine]\nuse = "airflow"', "Invalid enum value 'airflow'"),
        ('[engine]\nadress = "x"', "adress"),
        ('[engine]\nqueue = "a/b"', "queue may have letters, digits"),
        ('[engine]\nqueue = ""', "queue may have letters, digits"),
        ('[engine]\ncert = "a.pem"', "cert and key belong together"),
        ('[engine]\nkey = "a.pem"', "cert and key belong together"),
        ("[engine]\nlost_after = 1", "lost_after is 2 to 3600 seconds"),
        ("[engine]\nlost_after = nan", "lost_after is 2 to 3600 seconds"),
        ("[engine]\nworkspace_wait = 0", "workspace_wait 1 second to 30 days"),
        ('[engine]\ntls = "yes"', "'engine.tls' must be a boolean, got string"),
    ],
)
def test_a_bad_value_in_the_users_file_is_told_with_its_place(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as told:
        settings(tmp_path, user=text)
    [issue] = told.value.issues
    assert issue.file == str(tmp_path / "config" / "strands-cli" / "strands.toml")
    assert reason in issue.reason
    assert issue.remediation
    assert PASSWORD not in f"{told.value.message} {told.value.hint}"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        (
            "STRANDS_STORE",
            f"mysql://ada:{PASSWORD}@h/db",
            "The store is not postgresql://USER@HOST:PORT/DATABASE.",
        ),
        ("STRANDS_STORE", " ", "The store is not postgresql://USER@HOST:PORT/DATABASE."),
        ("STRANDS_STORE", "runs.db", "The store is not postgresql://USER@HOST:PORT/DATABASE."),
        ("STRANDS_ENGINE", "airflow", "There is no engine 'airflow'."),
    ],
)
def test_a_bad_value_in_the_environment_is_told_with_its_variable(
    name: str, value: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError) as told:
        settings(tmp_path, **{name: value})
    assert told.value.message == f"${name}: {reason}"
    assert "unset it" in told.value.hint
