import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strands_cli.tools.data_tools.current_time import current_time


def answer(**given_input: str) -> dict[str, Any]:
    result: dict[str, Any] = current_time({"toolUseId": "x", "input": given_input})
    return result


def value(**given_input: str) -> str:
    result = answer(**given_input)
    assert result["status"] == "success", result
    text: str = result["content"][0]["text"]
    return text


def refusal(**given_input: str) -> dict[str, Any]:
    result = answer(**given_input)
    assert result["status"] == "error", result
    error: dict[str, Any] = result["content"][1]["json"]["error"]
    return error


def is_now(moment: datetime) -> bool:
    return abs(datetime.now(UTC) - moment) < timedelta(seconds=5)


def test_without_arguments_it_is_utc_in_iso_form() -> None:
    text = value()
    assert text.endswith("+00:00")
    assert is_now(datetime.fromisoformat(text))


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Etc/GMT-2", "utc", "UTC", "asia/TOKYO"]
)
def test_a_zone_is_found_whatever_its_case(zone: str) -> None:
    assert is_now(datetime.fromisoformat(value(timezone=zone)))


def test_the_time_is_that_of_the_zone() -> None:
    expected = datetime.now(ZoneInfo("Asia/Kolkata")).utcoffset()
    assert datetime.fromisoformat(value(timezone="Asia/Kolkata")).utcoffset() == expected


UNKNOWN = {
    "Europe/Berlni": "Did you mean 'Europe/Berlin'?",
    "berlin": "Did you mean 'Europe/Berlin'?",
    "Asia/Berlin": "Did you mean 'Europe/Berlin'?",
    "new york": "Did you mean 'America/New_York'?",
    "tokio": "Did you mean 'Asia/Tokyo'?",
    "PST": "Did you mean 'America/Los_Angeles'?",
    "UTC+2": "'Etc/GMT-2'",
    "-5": "'Etc/GMT+5'",
    "+05:30": "the name of a place",
    "../etc/passwd": "Use a name such as",
    "/etc/passwd": "Use a name such as",
    "../../../../../../etc/passwd": "Use a name such as",
    "Europe/../../../../etc/hostname": "",
    "a\0b": "Use a name such as",
    "Europe": "Did you mean",
    "tzdata.zi": "Use a name such as",
}


@pytest.mark.parametrize(("zone", "hint"), UNKNOWN.items())
def test_an_unknown_zone_suggests_the_one_that_was_meant(zone: str, hint: str) -> None:
    error = refusal(timezone=zone)
    assert error["code"] == "not_found"
    assert error["message"].startswith("Unknown time zone")
    assert hint in error["hint"]


FORMS = {
    "iso": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00",
    "ISO": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00",
    "date": r"\d{4}-\d\d-\d\d",
    "time": r"\d\d:\d\d:\d\d",
    "unix": r"\d{10,}",
    "human": r"[A-Z][a-z]+day, \d\d [A-Z][a-z]+ \d{4}, \d\d:\d\d:\d\d UTC",
    "rfc2822": r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d \+0000",
    "%d.%m.%Y": r"\d\d\.\d\d\.\d{4}",
    "%A %% %H:%M %Z": r"[A-Z][a-z]+day % \d\d:\d\d UTC",
    "week %V of %G": r"week \d\d of \d{4}",
}


@pytest.mark.parametrize(("form", "pattern"), FORMS.items())
def test_the_form_is_the_one_that_is_asked_for(form: str, pattern: str) -> None:
    assert re.fullmatch(pattern, value(format=form))


def test_unix_time_does_not_depend_on_the_zone() -> None:
    assert abs(int(value(format="unix", timezone="Asia/Tokyo")) - time.time()) < 5


REFUSED = {
    "unx": ("Unknown format 'unx'", "Did you mean 'unix'?"),
    "yyyy-mm-dd": ("Unknown format 'yyyy-mm-dd'", "strftime pattern"),
    "": ("Unknown format ''", "strftime pattern"),
    "%": ("'%' is not a strftime directive", "strftime pattern"),
    "%H:%": ("'%' is not a strftime directive", "strftime pattern"),
    "%Q": ("'%Q' is not a strftime directive", "strftime pattern"),
    "%s": ("'%s' is not a strftime directive", "the format 'unix'"),
    "%1000000000d": ("'%1' is not a strftime directive", "strftime pattern"),
    "%Y\0%d": ("null character", "strftime pattern"),
}


@pytest.mark.parametrize(("form", "told"), REFUSED.items())
def test_a_form_that_does_not_exist_is_refused_with_those_that_do(form: str, told: tuple[str, str]) -> None:
    error = refusal(format=form)
    assert error["code"] == "input_invalid"
    assert told[0] in error["message"]
    assert told[1] in error["hint"]


@given(st.text(max_size=40).map(lambda text: "%" + text) | st.text("%aYQ-0 \0.:é", max_size=20))
def test_no_pattern_crashes_it(pattern: str) -> None:
    result = answer(format=pattern)
    if result["status"] == "error":
        assert result["content"][1]["json"]["error"]["code"] == "input_invalid"


def test_as_a_plain_function_it_returns_the_text() -> None:
    assert is_now(datetime.fromisoformat(current_time()))
    assert len(current_time("Europe/Berlin", "date")) == len("2025-01-31")


def test_local_is_the_zone_of_this_machine() -> None:
    shown = datetime.fromisoformat(current_time("local"))
    assert shown.utcoffset() == datetime.now().astimezone().utcoffset()
    assert abs(datetime.now(UTC) - shown).total_seconds() < 5
