#!/usr/bin/env python3
"""Tells what the columns of a CSV file hold. It reads the file once, and says how far it has come."""

import csv
import json
import math
import os
import sys
from pathlib import Path

EVERY = 50_000


def number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def describe(path: str) -> dict[str, object]:
    values: dict[str, list[float]] = {}
    texts: set[str] = set()
    rows = 0
    with Path(path).open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, delimiter=os.environ["CSV_TOOLS_DELIMITER"])
        for name in reader.fieldnames or ():
            values[name] = []
        for rows, row in enumerate(reader, start=1):
            for name, found in values.items():
                value = number(row[name] or "")
                texts.add(name) if value is None else found.append(value)
            if rows % EVERY == 0:
                print("strands:progress", json.dumps({"rows": rows}), file=sys.stderr, flush=True)
    columns = {name: numbers([] if name in texts else found) for name, found in values.items()}
    return {"rows": rows, "columns": columns}


def numbers(found: list[float]) -> dict[str, object]:
    if not found:
        return {"type": "text"}
    return {"type": "number", "min": min(found), "max": max(found), "mean": sum(found) / len(found)}


def main() -> None:
    given = json.load(sys.stdin)
    try:
        answer = describe(given["file"])
    except FileNotFoundError:
        answer = {"error": {"code": "not_found", "message": f"There is no file {given['file']}"}}
    except (OSError, ValueError, csv.Error) as error:
        answer = {"error": f"{given['file']} cannot be read as CSV: {error}"}
    print(json.dumps(answer))


main()
