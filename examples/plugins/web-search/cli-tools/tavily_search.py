#!/usr/bin/env python3
"""Searches the web with Tavily's API. The key is sent to that API and nowhere else."""

import json
import os
import sys
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

SECONDS = 25
MAX_BYTES = 5_000_000
REASONS = {401: "forbidden", 403: "forbidden", 429: "network", 432: "forbidden", 433: "forbidden"}


class NoRedirects(HTTPRedirectHandler):
    """urllib would send the key along to wherever a redirect leads."""

    def redirect_request(self, *_: object) -> None:
        return None


def search(given: dict[str, Any]) -> dict[str, Any]:
    asked = {name: given[name] for name in ("query", "max_results", "include_answer")}
    request = Request(
        os.environ["TAVILY_BASE_URL"].rstrip("/") + "/search",
        data=json.dumps(asked).encode(),
        headers={
            "Authorization": f"Bearer {os.environ['TAVILY_API_KEY']}",
            "Content-Type": "application/json",
        },
    )
    with build_opener(NoRedirects).open(request, timeout=SECONDS) as response:
        found = json.loads(response.read(MAX_BYTES))
    results = [
        {name: page[name] for name in ("title", "url", "content", "score") if page.get(name) is not None}
        for page in found["results"][: given["max_results"]]
    ]
    return {"results": results} | ({"answer": found["answer"]} if found.get("answer") else {})


def failure(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def main() -> None:
    try:
        answer = search(json.load(sys.stdin))
    except HTTPError as error:
        code = REASONS.get(error.code, "network" if error.code >= 500 else "failed")
        answer = failure(code, f"The search failed: the API answered with status {error.code}")
    except (URLError, HTTPException, OSError) as error:
        reason = getattr(error, "reason", error)
        answer = failure("network", f"The search failed: the API cannot be reached: {reason}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        answer = failure("failed", f"The search failed: the API's answer is not as expected: {error!r}")
    print(json.dumps(answer))


main()
