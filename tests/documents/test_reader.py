"""Text with positions: YAML and JSON by one reader."""

import json

from strands_cli.documents.reader import read_document


def test_positions_are_found_in_any_layout_of_json() -> None:
    document = read_document('{"a":[1,{"b/c":"x\\"\\n{["},\n[]],"d~":{ }}', "f", is_json=True)
    assert document.value == {"a": [1, {"b/c": 'x"\n{['}, []], "d~": {}}
    assert document.positions == {
        "": ("f", 1, 1),
        "/a": ("f", 1, 2),
        "/a/0": ("f", 1, 7),
        "/a/1": ("f", 1, 9),
        "/a/1/b~1c": ("f", 1, 10),
        "/a/2": ("f", 2, 1),
        "/d~0": ("f", 2, 5),
    }


def test_json_that_no_yaml_parser_takes_is_read_where_either_may_stand() -> None:
    text = json.dumps({"smile": "😀", "line": "\x7f"}) + "\n"
    text = text.replace('"smile":', '"smile"\n:')
    document = read_document(text, "f")
    assert (document.value, document.issues) == ({"smile": "😀", "line": "\x7f"}, [])


def test_what_only_looks_like_json_is_yaml_unless_json_is_asked_for() -> None:
    assert read_document("{a: yes,\n\tb: [1,],}", "f").value == {"a": "yes", "b": [1]}
    (issue,) = read_document("{a: yes}", "f", is_json=True).issues
    assert issue.reason.startswith("Invalid JSON")
