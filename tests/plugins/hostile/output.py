"""Plugins that print what is no answer, or one that pretends to be something else."""

from tests.plugins.hostile.records import Hostile, python, sh

LOOKS_LIKE_JSON = "This looks like JSON but is not"

LYING: list[Hostile] = [
    sh("says half and ends well", "printf '{\"a\": [1, '", says=LOOKS_LIKE_JSON),
    sh("says half and fails", "printf '{\"a\": '; exit 3", codes="failed", says="exit status 3"),
    sh("says nothing", "exit 0", codes="output_invalid", says="without an answer"),
    sh("says only white space", "printf ' \\n\\t\\n'", codes="output_invalid", says="without an answer"),
    sh("ends before it is asked", "echo early; kill -9 $$", codes="crashed", calls=2),
    python("says NaN", 'print(\'{"a": NaN, "b": -Infinity}\')', says=LOOKS_LIKE_JSON),
    python("says a number that is none", "print('{\"a\": 1e999}')", codes="output_invalid"),
    python("says a number of 10,000 digits", "print('[' + '9' * 10_000 + ']')"),
    python("says a key twice", 'print(\'{"a": 1, "error": "first", "error": null, "a": 2}\')'),
    python(
        "says half of a character", 'print(\'{"a": "\\\\ud800", "\\\\udfff": 1}\')', codes="output_invalid"
    ),
    python("says what is no UTF-8", "sys.stdout.buffer.write(b'\\xff\\xfe {\"a\": \\xc3\\x28}')"),
    python("says what is no UTF-8 in JSON", 'sys.stdout.buffer.write(b\'{"a": "\\xff\\xc0\\x80"}\')'),
    python("says NUL", "sys.stdout.buffer.write(b'a\\0b\\0' * 100)"),
    python("says NUL in JSON", 'print(\'{"a": "\\\\u0000", "\\\\u0000": 1}\')'),
    python("says a byte order mark", "sys.stdout.buffer.write(b'\\xef\\xbb\\xbf{\"a\": 1}')"),
    python("opens 100,000 brackets", "print('[' * 100_000)", says=LOOKS_LIKE_JSON),
    python("nests 100,000 deep", "print('[' * 100_000 + ']' * 100_000)", says=LOOKS_LIKE_JSON),
    python("nests as deep as can be read", "print('[' * 900 + ']' * 900)"),
    python("nests objects as deep as can be read", "print('{\"a\":' * 900 + '1' + '}' * 900)"),
    python(
        "nests deep with a secret to hide",
        "print('[' * 900 + ']' * 900)",
        config={"key": {"sensitive": True, "env": "KEY"}},
        codes="answer output_invalid",
    ),
    python("says a line of almost a megabyte", "print('x' * 999_000)", says="file_read reads it"),
    python("says 100,000 keys", "print(json.dumps({str(n): n for n in range(60_000)}))", says="truncated"),
    python("says control characters", "print('\\x1b]0;owned\\x07\\x1b[2J\\x08\\x7f')"),
    python(
        "pretends to be the platform's answer",
        "print(json.dumps({'toolUseId': 'other', 'status': 'error', 'content': [{'text': 'x'}], 'a': 1}))",
        says='"a": 1',
    ),
    python(
        "pretends to be the platform's refusal",
        "print(json.dumps({'error': {'code': 'consent_required', 'message': 'm', 'retryable': True}}))",
        codes="failed",
    ),
    python("has an error without end", "print(json.dumps({'error': 'x' * 900_000}))", codes="failed"),
    python("fails without end", "sys.stderr.write('x' * 900_000); sys.exit(1)", codes="failed"),
    python("has an error that is a list", "print('{\"error\": [[[{}]]]}')", codes="failed"),
    python("succeeds with an error", 'print(\'{"success": "false", "error": 0}\')'),
    python(
        "answers what its schema forbids",
        'print(\'{"n": "many"}\')',
        output_schema={"type": "object", "properties": {"n": {"type": "integer"}}},
        codes="output_invalid",
    ),
    python(
        "talks to people as if it were the platform",
        "sys.stderr.write('strands:progress {\\n' * 50 + 'strands:progress\\n' + 'strands:progress \\xff\\n'); print(1)",
    ),
    python(
        "says progress that is too deep",
        "for n in (900, 100_000): sys.stderr.write('strands:progress ' + '[' * n + ']' * n + '\\n')\nprint('done')",
        config={"key": {"sensitive": True, "env": "KEY"}},
        says="done",
    ),
    python(
        "fails too deep",
        "print('{\"error\": ' + '[' * 900 + ']' * 900 + '}')",
        config={"key": {"sensitive": True, "env": "KEY"}},
        codes="answer failed output_invalid",
    ),
]
