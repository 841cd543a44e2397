"""Where the journals of runs are kept."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from strands_cli.errors import SessionError, SpecError
from strands_cli.exec.ownership import Lost, Owner, this_process
from strands_cli.exec.postgres_store import PostgresStore
from strands_cli.exec.stores import MemoryStore, SqliteStore, Store, find_run, open_store
from strands_cli.settings import load_settings

DEAD = Owner(this_process().host, 2**22 + 1, "never")


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store: Store = MemoryStore()
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "runs.db")
    elif request.param == "postgres":
        store = PostgresStore(request.getfixturevalue("database"))
    yield store
    store.close()


def test_rows_come_back_in_the_order_in_which_their_keys_came(store: Store) -> None:
    fence = store.take("aaaa1111")
    store.put("aaaa1111", fence, {"head": b"1", "z": b"2"})
    store.put("aaaa1111", fence, {"a": b"3"})
    store.put("aaaa1111", fence, {"z": b"4", "b": b"5"})
    assert list(store.load("aaaa1111").items()) == [("head", b"1"), ("z", b"4"), ("a", b"3"), ("b", b"5")]


def test_a_run_that_is_not_there_has_no_rows(store: Store) -> None:
    assert store.load("aaaa1111") == {}
    assert store.runs() == {}


def test_a_run_is_created_with_its_rows_once(store: Store) -> None:
    assert store.create("aaaa1111", {"head": b"1", "status": b"2"})
    assert not store.create("aaaa1111", {"head": b"3"})
    assert store.load("aaaa1111") == {"head": b"1", "status": b"2"}
    store.put("aaaa1111", store.take("aaaa1111"), {"status": b"4"})
    assert not store.create("aaaa1111", {})


def test_who_watches_a_run_gets_what_was_put_since(store: Store) -> None:
    assert store.changed("aaaa1111") == (-1, {})
    store.create("aaaa1111", {"head": b"1", "status": b"2"})
    latest, rows = store.changed("aaaa1111")
    assert list(rows.items()) == [("head", b"1"), ("status", b"2")]
    fence = store.take("aaaa1111")
    store.put("aaaa1111", fence, {"steps/0": b"3"})
    store.put("aaaa1111", fence, {"head": b"5", "steps/1": b"4"})
    later, rows = store.changed("aaaa1111", latest)
    assert list(rows.items()) == [("steps/0", b"3"), ("head", b"5"), ("steps/1", b"4")]
    assert store.changed("aaaa1111", later) == (later, {})
    assert list(store.load("aaaa1111")) == ["head", "status", "steps/0", "steps/1"]


def test_a_listing_can_be_of_the_runs_whose_ids_begin_alike(store: Store) -> None:
    for run in ("abcd1111", "abce2222", "ab", "b%_", "b"):
        store.create(run, {"head": run.encode()})
    assert list(store.runs("abc")) == ["abcd1111", "abce2222"]
    assert store.runs("b%") == {"b%_": {"head": b"b%_"}}
    assert store.runs("x") == {}


def test_a_listing_has_head_and_status_of_every_run_the_oldest_first(store: Store) -> None:
    for run in ("zzzz1111", "aaaa1111"):
        store.put(run, store.take(run), {"head": run.encode(), "steps/0/result": b"1", "status": b"2"})
    store.take("mmmm1111")
    assert store.runs() == {
        "zzzz1111": {"head": b"zzzz1111", "status": b"2"},
        "aaaa1111": {"head": b"aaaa1111", "status": b"2"},
        "mmmm1111": {},
    }
    assert list(store.runs()) == ["zzzz1111", "aaaa1111", "mmmm1111"]


def test_a_run_of_a_process_that_lives_is_refused_until_it_is_released(store: Store) -> None:
    fence = store.take("aaaa1111")
    with pytest.raises(SessionError, match="in use by process") as refused:
        store.take("aaaa1111")
    assert refused.value.exit_code == 17
    assert "--take-over" in refused.value.hint
    store.release("aaaa1111", fence)
    assert store.take("aaaa1111") > fence


def test_a_run_of_a_process_that_is_gone_is_taken(store: Store) -> None:
    first = store.take("aaaa1111", owner=DEAD)
    assert store.take("aaaa1111") > first


def test_a_process_with_the_number_of_an_earlier_one_is_not_its_owner(store: Store) -> None:
    if not this_process().started:
        pytest.skip("this system does not tell when a process began")
    store.take("aaaa1111", owner=Owner(this_process().host, this_process().pid, "another boot:1"))
    store.take("aaaa1111")


def test_a_process_that_ended_and_was_not_waited_for_is_gone(store: Store) -> None:
    if not this_process().started:
        pytest.skip("this system does not tell when a process began")
    code = "import os\nfrom strands_cli.exec.stores import this_process as t\nprint(os.getpid(), t().started)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        pid, started = child.stdout.read().split()
        store.take("aaaa1111", owner=Owner(this_process().host, int(pid), started))
        while "State:\tZ" not in Path(f"/proc/{pid}/status").read_text("utf-8"):
            time.sleep(0.01)
        store.take("aaaa1111")


def test_whoever_lost_a_run_writes_nothing_more(store: Store) -> None:
    first = store.take("aaaa1111")
    store.put("aaaa1111", first, {"head": b"1"})
    second = store.take("aaaa1111", take_over=True)
    assert second > first
    with pytest.raises(Lost, match="taken over"):
        store.put("aaaa1111", first, {"head": b"2", "status": b"2"})
    store.release("aaaa1111", first)
    with pytest.raises(SessionError, match="in use"):
        store.take("aaaa1111")
    store.put("aaaa1111", second, {"status": b"3"})
    assert store.load("aaaa1111") == {"head": b"1", "status": b"3"}


def test_whoever_writes_a_run_that_was_deleted_has_lost_it(store: Store) -> None:
    fence = store.take("aaaa1111")
    store.put("aaaa1111", fence, {"head": b"1"})
    store.delete("aaaa1111")
    assert store.load("aaaa1111") == {}
    assert store.runs() == {}
    with pytest.raises(Lost, match="deleted"):
        store.put("aaaa1111", fence, {"head": b"2"})


def test_the_fence_of_a_deleted_run_does_not_fit_a_new_one_of_its_name(store: Store) -> None:
    old = store.take("aaaa1111")
    store.delete("aaaa1111")
    store.take("aaaa1111")
    with pytest.raises(Lost):
        store.put("aaaa1111", old, {"head": b"2"})


def test_a_run_is_found_by_an_unambiguous_beginning_of_its_id(store: Store) -> None:
    for run in ("abcd1111", "abce2222", "x0000000"):
        store.take(run)
    assert find_run(store, "x") == "x0000000"
    assert find_run(store, "abcd1111") == "abcd1111"
    with pytest.raises(SessionError, match=r"2 runs begin with 'abc'") as ambiguous:
        find_run(store, "abc")
    assert "abcd1111, abce2222" in ambiguous.value.hint
    for missing in ("nope", ""):
        with pytest.raises(SessionError, match="There is no run"):
            find_run(store, missing)


# --- the file ----------------------------------------------------------------------------------------------

VERSION_1 = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
CREATE TABLE runs (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, fence INTEGER NOT NULL, owner BLOB);
CREATE TABLE records (number INTEGER PRIMARY KEY, run TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
    UNIQUE (run, key));
CREATE TABLE chores (name TEXT PRIMARY KEY, done REAL NOT NULL);
PRAGMA application_id = 0x53747264;
PRAGMA user_version = 1;
INSERT INTO runs (id, fence, owner) VALUES ('old11111', 7, NULL);
INSERT INTO records (run, key, value) VALUES ('old11111', 'head', x'7b7d');
"""
"""A file as the first version of the journal made it. Never change this."""


class NextStore(SqliteStore):
    migrations = (*SqliteStore.migrations, ("ALTER TABLE runs ADD COLUMN note TEXT DEFAULT 'none'",))


class BrokenNextStore(SqliteStore):
    migrations = (*NextStore.migrations, ("DELETE FROM records", "SELECT nonsense"))


def filled(file: Path, rows: int = 100) -> bytes:
    """The content of a journal with rows, that nobody has open."""
    store = SqliteStore(file)
    fence = store.take("aaaa1111")
    store.put("aaaa1111", fence, {f"row/{number}": b"x" * 1000 for number in range(rows)})
    store.release("aaaa1111", fence)
    store.close()
    return file.read_bytes()


def refusal(store: SqliteStore) -> SessionError:
    """The error that both readers and writers get; nothing else may happen to them."""
    for reads in (store.runs, lambda: store.load("aaaa1111")):
        with pytest.raises(SessionError) as read:
            reads()
        assert str(store.path) in read.value.message
    with pytest.raises(SessionError) as written:
        store.take("aaaa1111")
    assert written.value.hint
    assert written.value.message == read.value.message
    store.close()
    return written.value


def check_integrity(file: Path) -> None:
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


START = """
import os, sqlite3, sys
from strands_cli.errors import SessionError
from strands_cli.exec.ownership import this_process
from strands_cli.exec.stores import SqliteStore
store = SqliteStore(sys.argv[1])
this_process()  # imports what it needs, which an ordinary user may not be able to

def told(what):
    try:
        return what()
    except SessionError as error:
        return error.message + " | " + error.hint
"""


def in_child(code: str, *arguments: object, prefix: Sequence[str] = ()) -> str:
    """What a process prints that has `store`, over the file of the first argument."""
    command = [*prefix, sys.executable, "-c", START + code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_looking_creates_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "data" / "runs.db")
    assert store.runs() == {}
    assert store.load("aaaa1111") == {}
    store.delete("aaaa1111")
    store.release("aaaa1111", 1)
    with pytest.raises(Lost):
        store.put("aaaa1111", 1, {"head": b"1"})
    store.close()
    assert not (tmp_path / "data").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_nobody_else_can_read_the_journal(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        store = SqliteStore(tmp_path / "data" / "runs.db")
        store.put("aaaa1111", store.take("aaaa1111"), {"head": b"1"})
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "data").iterdir()}
        assert modes == {"runs.db": 0o600, "runs.db-wal": 0o600, "runs.db-shm": 0o600}
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
        store.close()
        store.path.chmod(0o644)
        store.runs()
        assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
        store.close()
    finally:
        os.umask(previous)


def test_the_commands_journal_is_in_the_users_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    store = open_store(load_settings(tmp_path))
    assert store.path == tmp_path / "strands-cli" / "runs.db"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", lambda _: (_ for _ in ()).throw(KeyError()))
    with pytest.raises(SessionError, match="no home directory"):
        open_store(load_settings(tmp_path))


@pytest.mark.parametrize("durability", ["normal", "full"])
def test_the_durability_is_what_was_asked_for(durability: Any, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db", durability=durability)
    store.take("aaaa1111")
    assert store._connection is not None
    [(level,)] = store._connection.execute("PRAGMA synchronous")
    [(mode,)] = store._connection.execute("PRAGMA journal_mode")
    assert (level, mode) == ({"normal": 1, "full": 2}[durability], "wal")
    store.close()


@pytest.mark.parametrize("damage", ["garbage", "half", "head only", "a text"])
def test_a_damaged_journal_is_told_and_left_as_it_is(damage: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    content = filled(file)
    damaged = {
        "garbage": os.urandom(len(content)),
        "half": content[: len(content) // 2],
        "head only": content[:100],
        "a text": b"These are my notes.\n" * 100,
    }[damage]
    file.write_bytes(damaged)
    error = refusal(SqliteStore(file))
    assert "is damaged" in error.message
    assert "Move it away" in error.hint
    assert file.read_bytes() == damaged


def test_a_page_that_is_cut_short_is_told_when_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    damaged = filled(file)[:-2000]
    file.write_bytes(damaged)
    store = SqliteStore(file)
    assert list(store.runs()) == ["aaaa1111"]
    with pytest.raises(SessionError, match="is damaged"):
        store.load("aaaa1111")
    store.close()
    assert file.read_bytes() == damaged


def test_a_journal_of_a_newer_version_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    store = NextStore(file)
    store.take("aaaa1111")
    store.close()
    before = file.read_bytes()
    error = refusal(SqliteStore(file))
    assert "newer version of strands-cli" in error.message
    assert "version 3; this one supports 2" in error.hint
    assert file.read_bytes() == before


def test_a_database_of_another_program_is_told_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    before = file.read_bytes()
    assert "database of another program" in refusal(SqliteStore(file)).message
    assert file.read_bytes() == before


def test_a_journal_of_the_first_version_is_read_and_written(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    connection = sqlite3.connect(file)
    connection.executescript(VERSION_1)
    connection.close()
    store = SqliteStore(file)
    assert store.runs() == {"old11111": {"head": b"{}"}}
    store.put("old11111", store.take("old11111"), {"status": b"1"})
    assert store.load("old11111") == {"head": b"{}", "status": b"1"}
    store.close()
    check_integrity(file)


def test_who_watches_a_run_of_the_first_version_gets_its_rows_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    connection = sqlite3.connect(file)
    connection.executescript(VERSION_1)
    keys = ["z", "b", "y", "a"]
    connection.executemany(
        "INSERT INTO records (run, key, value) VALUES ('old11111', ?, x'31')", [(key,) for key in keys]
    )
    connection.commit()
    connection.close()
    store = SqliteStore(file)
    assert [*store.changed("old11111")[1]] == ["head", *keys]
    store.close()


def test_an_older_journal_is_brought_to_the_new_version_with_all_its_rows(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    filled(file)
    store = NextStore(file)
    assert len(store.load("aaaa1111")) == 100
    store.close()
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA user_version").fetchone() == (3,)
    assert connection.execute("SELECT id, note FROM runs").fetchall() == [("aaaa1111", "none")]
    connection.close()


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    filled(file)
    assert "nonsense" in refusal(BrokenNextStore(file)).message
    store = SqliteStore(file)
    assert len(store.load("aaaa1111")) == 100
    store.close()


def test_a_journal_that_another_process_keeps_locked_is_waited_for_and_then_told(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    store = SqliteStore(file, wait=0.3)
    fence = store.take("aaaa1111")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for writes in (
        lambda: store.take("bbbb2222"),
        lambda: store.put("aaaa1111", fence, {"head": b"1"}),
        lambda: store.delete("aaaa1111"),
    ):
        with pytest.raises(SessionError, match=r"another process has kept it locked for 0.3 seconds") as told:
            writes()
        assert "strands resume" in told.value.hint
    assert store.runs() == {"aaaa1111": {}}  # readers do not wait
    other.execute("ROLLBACK")
    other.close()
    store.put("aaaa1111", fence, {"head": b"1"})
    store.close()


def test_processes_that_create_the_journal_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    code = "run = f'{os.getpid():08}'\nfence = store.take(run)\n"
    code += "for n in range(20): store.put(run, fence, {str(n): b'1'})\nprint(run)"
    command = [sys.executable, "-c", START + "sys.stdin.readline()\n" + code, str(tmp_path / "runs.db")]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    children = [subprocess.Popen(command, **pipes) for _ in range(4)]
    answers = [child.communicate("go\n", timeout=50)[0].strip() for child in children]
    store = SqliteStore(tmp_path / "runs.db")
    assert sorted(store.runs()) == sorted(answers)
    assert all(len(store.load(run)) == 20 for run in answers)
    store.close()


def test_of_processes_that_take_a_run_at_once_one_gets_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    store.take("aaaa1111", owner=DEAD)
    code = """
sys.stdin.readline()
print(told(lambda: store.take("aaaa1111")), flush=True)
sys.stdin.readline()
"""
    command = [sys.executable, "-c", START + code, str(tmp_path / "runs.db")]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    children = [subprocess.Popen(command, **pipes) for _ in range(4)]
    for child in children:
        child.stdin.write("go\n")  # type: ignore[union-attr]
    answers = [child.stdout.readline() for child in children]  # type: ignore[union-attr]
    for child in children:
        child.communicate("end\n", timeout=50)
    assert sum(answer.strip().isdecimal() for answer in answers) == 1
    assert sum("in use by process" in answer for answer in answers) == 3
    store.close()


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither")
@pytest.mark.parametrize("kind", ["link", "directory", "pipe"])
def test_what_is_not_a_regular_file_is_not_opened(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    if kind == "link":
        filled(tmp_path / "other.db")
        file.symlink_to("other.db")
    elif kind == "directory":
        file.mkdir()
    else:
        os.mkfifo(file)
    assert "not a regular file" in refusal(SqliteStore(file)).message


def test_a_directory_that_cannot_be_created_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hm")
    store = SqliteStore(tmp_path / "file" / "runs.db")
    with pytest.raises(SessionError, match=r"file.runs\.db cannot be used"):
        store.take("aaaa1111")


# --- machines that are not as they should be ----------------------------------------------------------------


@pytest.fixture
def throwaway_mounts() -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("needs root, and unshare of util-linux")


def test_a_full_disk_is_told_and_loses_nothing_that_was_written(
    throwaway_mounts: None, tmp_path: Path
) -> None:
    code = """
filler = store.path.with_name("filler")
filler.write_bytes(b"x" * int(sys.argv[2]))
written = 0
def fill():
    global written
    fence = store.take("aaaa1111")
    while True:
        store.put("aaaa1111", fence, {f"row/{written}": b"x" * 5000, f"twin/{written}": b"1"})
        written += 1
print(told(fill))
filler.unlink()
fence = store.take("aaaa1111", take_over=True)
assert len(store.load("aaaa1111")) == 2 * written, written
store.put("aaaa1111", fence, {"status": b"1"})
store.close()
[(state,)] = sqlite3.connect(store.path).execute("PRAGMA integrity_check")
print(state, written)
"""
    mounted = [
        "unshare",
        "-m",
        "sh",
        "-c",
        'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"',
        str(tmp_path),
    ]
    for used, at_least in ((500_000, 10), (1_020_000, 0), (1_048_576, 0)):
        first, second = in_child(code, tmp_path / "runs.db", used, prefix=mounted).splitlines()
        assert first.startswith(f"The journal {tmp_path}/runs.db cannot be written: the disk is full. | Free")
        state, written = second.split()
        assert state == "ok"
        assert int(written) >= at_least


@pytest.mark.parametrize("is_open", [True, False], ids=["in use", "closed"])
def test_a_journal_on_a_read_only_disk_can_be_read_and_tells_who_writes(
    is_open: bool, throwaway_mounts: None, tmp_path: Path
) -> None:
    file = tmp_path / "runs.db"
    before = filled(file)
    store = SqliteStore(file)
    if is_open:
        store.runs()
    code = "print(len(store.load('aaaa1111')))\nprint(told(lambda: store.take('aaaa1111')))"
    script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'
    output = in_child(code, file, prefix=["unshare", "-m", "sh", "-c", script, str(tmp_path)])
    assert output.splitlines()[0] == "100"
    assert f"The journal {file} cannot be written: it is read-only. | Make it" in output
    store.close()
    assert file.read_bytes() == before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
@pytest.mark.parametrize("what", ["file", "directory"])
def test_a_journal_without_the_right_to_write_tells_so(what: str, tmp_path: Path) -> None:
    file = tmp_path / "data" / "runs.db"
    before = filled(file)
    (file if what == "file" else file.parent).chmod(0o400 if what == "file" else 0o500)
    code = "ordinary = 65534 if os.geteuid() == 0 else os.geteuid()\nos.chown(store.path, ordinary, -1)\n"
    code += "os.chown(store.path.parent, ordinary, -1)\nos.setuid(ordinary)\n"
    code += "print(len(store.load('aaaa1111')))\nprint(told(lambda: store.take('aaaa1111')))"
    for parent in (tmp_path, *tmp_path.parents[:3]):
        if parent.stat().st_uid == os.geteuid():
            parent.chmod(parent.stat().st_mode | 0o011)
    output = in_child(code, file)
    assert output.splitlines()[0] == "100"
    assert f"The journal {file} cannot be written: it is read-only. | Make it" in output
    assert file.read_bytes() == before


def test_the_journal_of_another_user_is_not_used(tmp_path: Path) -> None:
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("needs root, to give a file away")
    file = tmp_path / "runs.db"
    before = filled(file)
    os.chown(file, 65534, -1)
    assert "belongs to another user" in refusal(SqliteStore(file)).message
    assert file.read_bytes() == before


# --- how long runs are kept ---------------------------------------------------------------------------------


def aged(file: Path, status: dict[str, object], run: str) -> None:
    store = SqliteStore(file)
    fence = store.take(run)
    store.put(run, fence, {"head": b"{}", "status": msgspec.json.encode(status), "big": b"x" * 200_000})
    store.release(run, fence)
    store.close()


def test_runs_that_were_done_long_ago_go_and_others_stay(tmp_path: Path) -> None:
    file, now = tmp_path / "runs.db", time.time()
    ages = {"paused": 400, "failed": 400, "interrupted": 400, "budget": 400, "running": 400}
    for number, (status, days) in enumerate(ages.items()):
        aged(file, {"status": status, "updated": now - days * 86_400}, f"kept000{number}")
    aged(file, {"status": "done", "updated": now - 29 * 86_400}, "young000")
    aged(file, {"status": "done", "updated": now - 31 * 86_400}, "old00000")
    aged(file, {"status": "done"}, "odd00000")
    size = file.stat().st_size
    store = SqliteStore(file, keep_days=30)
    store.runs()
    assert "old00000" in store.runs()  # who only looks removes nothing
    store.take("new00000")
    kept = [*(f"kept000{number}" for number in range(5)), "young000", "odd00000", "new00000"]
    assert list(store.runs()) == kept
    assert store.load("old00000") == {}
    store.close()
    assert file.stat().st_size < size - 150_000
    check_integrity(file)


def test_old_runs_are_looked_for_once_a_day(tmp_path: Path) -> None:
    file, now = tmp_path / "runs.db", time.time()
    SqliteStore(file, keep_days=30).take("new00000")
    aged(file, {"status": "done", "updated": now - 31 * 86_400}, "old00000")
    SqliteStore(file, keep_days=30).take("new11111")
    assert "old00000" in SqliteStore(file).runs()
    connection = sqlite3.connect(file)
    connection.execute("UPDATE chores SET done = done - 90000")
    connection.commit()
    connection.close()
    SqliteStore(file, keep_days=30).take("new22222")
    assert "old00000" not in SqliteStore(file).runs()


def test_an_old_run_that_somebody_goes_on_with_is_not_removed_under_his_hands(tmp_path: Path) -> None:
    file, now = tmp_path / "runs.db", time.time()
    aged(file, {"status": "done", "updated": now - 31 * 86_400}, "old00000")
    store = SqliteStore(file, keep_days=30)
    store.take("old00000")
    assert "big" in store.load("old00000")
    store.close()


def test_a_run_that_is_deleted_gives_its_space_back(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    aged(file, {"status": "done"}, "old00000")
    store = SqliteStore(file)
    store.delete("old00000")
    store.close()
    assert file.stat().st_size < 60_000


@pytest.mark.parametrize(
    ("project", "user", "durability", "days"),
    [
        ("", "", "normal", 30),
        ('durability = "full"', "keep_days = 7", "full", 7),
        ("", 'durability = "full"', "full", 30),
        ('durability = "normal"', 'durability = "full"', "full", 30),
    ],
)
def test_the_project_or_the_user_asks_for_durability_and_the_user_alone_for_retention(
    project: str, user: str, durability: str, days: int, tmp_path: Path
) -> None:
    (tmp_path / "strands-cli").mkdir()
    (tmp_path / "strands.toml").write_text(f"[runs]\n{project}\n")
    (tmp_path / "strands-cli" / "strands.toml").write_text(f"[runs]\n{user}\n")
    runs = load_settings(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path)}).runs
    assert (runs.durability, runs.keep_days) == (durability, days)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("keep_days = 1", "can only be set in your own settings"),
        ("keep_days = 0", "must be greater than zero"),
        ('durability = "none"', "Invalid enum value 'none'"),
        ("days = 1", "no key 'days' in .runs."),
    ],
)
def test_a_project_cannot_shorten_what_the_user_keeps_nor_mistype_a_key(
    line: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "strands.toml").write_text(f"[runs]\n{line}\n")
    with pytest.raises(SpecError, match=reason):
        load_settings(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path / "config")})
