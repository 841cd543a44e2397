#!/usr/bin/env python3
"""A worker: it stays, and keeps what it has read. One message is one line of JSON, on both sides."""

import csv
import json
import math
import os
import sqlite3
import sys
from pathlib import Path

Table = tuple[tuple[int, int], sqlite3.Connection]


class Refused(Exception):
    """Something that the caller has to know."""


def load(path: str) -> sqlite3.Connection:
    """The file as the table `data` of a database in memory."""
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        rows = csv.reader(file, delimiter=os.environ["CSV_TOOLS_DELIMITER"])
        names = next(rows, None)
        if not names:
            raise Refused(f"{path} is empty")
        quoted = [f'"{name.replace(chr(34), chr(34) * 2)}" NUMERIC' for name in names]
        made = sqlite3.connect(":memory:")
        made.execute(f"CREATE TABLE data ({', '.join(quoted)})")
        marks = ", ".join("?" * len(names))
        made.executemany(
            f"INSERT INTO data VALUES ({marks})", (row for row in rows if len(row) == len(names))
        )
    made.set_authorizer(_reads_only)
    return made


def _reads_only(action: int, *_: object) -> int:
    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY


def plain(value: object) -> object:
    """A value of SQL as one of JSON, which has neither bytes nor infinity."""
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def answer(tables: dict[str, Table], given: dict[str, object]) -> dict[str, object]:
    path = str(given["file"])
    try:
        status = Path(path).stat()
        state = (status.st_mtime_ns, status.st_size)
        if path not in tables or tables[path][0] != state:
            tables[path] = (state, load(path))
        found = tables[path][1].execute(str(given["sql"]))
        if found.description is None:
            raise Refused("sql has to be a SELECT")
        rows = [[plain(value) for value in row] for row in found.fetchmany(int(str(given["limit"])))]
    except FileNotFoundError:
        return {"error": {"code": "not_found", "message": f"There is no file {path}"}}
    except (Refused, OSError, ValueError, csv.Error, sqlite3.Error, sqlite3.Warning) as error:
        return {"error": str(error)}
    return {"result": {"columns": [name for name, *_ in found.description], "rows": rows}}


def main() -> None:
    tables: dict[str, Table] = {}
    for line in sys.stdin:
        message = json.loads(line)
        # A cancelled call needs nothing here: one call is answered after the other, and quickly.
        if "input" in message:
            print(json.dumps({"id": message["id"], **answer(tables, message["input"])}), flush=True)


main()
