"""Workers that do not keep to the protocol."""

from tests.plugins.hostile.records import Hostile, sh, worker

WORKERS: list[Hostile] = [
    worker("a worker that never answers", "def serve(m): pass", codes="timeout", timeout=1, seconds=1),
    worker(
        "a worker that answers others",
        "def serve(m):\n"
        "    for id in (None, '', 'x', '0', '99', [], {}, m['id'] + ' '): say(id=id, result='ESCAPED')",
        codes="timeout",
        timeout=1,
        seconds=1,
    ),
    worker(
        "a worker that answers twice",
        "def serve(m):\n    say(id=m['id'], result='own ' + m['id']); say(id=m['id'], result='ESCAPED')",
        calls=3,
        says="own ",
    ),
    worker(
        "a worker that answers before it is asked",
        "def serve(m):\n"
        "    say(id=m['id'], result='own'); say(id=str(int(m['id']) + 1), result='ESCAPED')",
        calls=3,
        says="own",
    ),
    worker(
        "a worker that answers with an error and a result",
        "def serve(m): say(id=m['id'], result='ESCAPED', error='no')",
        codes="failed",
    ),
    worker(
        "a worker that dies in a call",
        "def serve(m): os.write(2, b'no more'); os._exit(7)",
        codes="crashed",
        says="no more",
        calls=2,
    ),
    worker("a worker that kills itself", "def serve(m): os.kill(os.getpid(), 9)", codes="crashed"),
    worker(
        "a worker that leaves others behind",
        "def serve(m):\n"
        "    if os.fork() == 0:\n        os.setsid(); time.sleep(60)\n    os._exit(0)",
        codes="crashed timeout",
        timeout=2,
    ),
    worker(
        "a worker that floods",
        "def serve(m):\n    while True: os.write(1, b'x' * 65536)",
        codes="output_invalid",
    ),
    worker(
        "a worker that floods with lines",
        "def serve(m):\n    while True: os.write(1, b'{\"id\": \"0\"}\\n' * 5000)",
        codes="timeout output_invalid",
        timeout=2,
        seconds=2,
    ),
    worker(
        "a worker that floods with progress",
        "def serve(m):\n    for n in range(20_000): say(id=m['id'], progress=n)\n    say(id=m['id'], result='done')",
        says="done",
    ),
    worker(
        "a worker that keeps saying how far it is",
        "def serve(m):\n    while True: say(id=m['id'], progress=0); time.sleep(0.05)",
        codes="timeout",
        timeout=1.5,
        idle_timeout=0.5,
        seconds=1.5,
    ),
    worker(
        "a worker that floods standard error",
        "def serve(m):\n    for n in range(200): os.write(2, b'x' * 65536)\n    say(id=m['id'], result='done')",
        says="done",
    ),
    worker(
        "a worker that ignores that it is cancelled",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "def serve(m):\n    time.sleep(60)",
        codes="timeout",
        timeout=1,
        seconds=1,
        calls=2,
    ),
    worker(
        "a worker that says what is no message",
        "def serve(m):\n"
        "    for text in ('null', '1', '[]', '{', '\"x\"', '[' * 100_000, 'NaN', '\\0'): print(text)\n"
        "    os.write(1, b'\\xff\\xfe\\n'); say(id=m['id'], result=[1])",
        says="[1]",
    ),
    worker(
        "a worker that answers half of a character",
        "def serve(m): print('{\"id\": \"%s\", \"result\": \"\\\\ud800\"}' % m['id'], flush=True)",
    ),
    worker(
        "a worker that answers too deep",
        "def serve(m): print('{\"id\": \"%s\", \"result\": %s}' % (m['id'], '[' * 900 + ']' * 900), flush=True)",
        codes="answer output_invalid timeout",
        timeout=1,
        seconds=1,
    ),
    worker(
        "a worker that says progress too deep",
        "def serve(m):\n"
        "    print('{\"id\": \"%s\", \"progress\": %s}' % (m['id'], '[' * 900 + ']' * 900), flush=True)\n"
        "    say(id=m['id'], result='done')",
        config={"key": {"sensitive": True, "env": "KEY"}},
        says="done",
    ),
    worker(
        "a worker that shows its sensitive setting",
        "def serve(m):\n"
        "    say(id=m['id'], progress=os.environ['KEY']); say(id=m['id'], result={os.environ['KEY']: 1})",
        config={"key": {"sensitive": True, "env": "KEY"}},
        says="***",
    ),
    worker(
        "a worker that connects",
        "def serve(m):\n"
        "    attempt('tcp', lambda: socket.create_connection(('127.0.0.1', @port@), 2).send(b'x'))\n"
        "    say(id=m['id'], result='done')",
        says="done",
    ),
    worker(
        "a worker that takes memory",
        "held = []\n"
        "def serve(m):\n    while True: held.append(bytearray(1 << 20)); time.sleep(0.001)",
        codes="crashed",
        memory="64MB",
        says="more memory",
    ),
    sh(
        "a worker that never reads",
        "sleep 60",
        mode="worker",
        input={"text": "x" * 5_000_000},
        codes="timeout",
        timeout=1,
        seconds=1,
    ),
    sh("a worker that ends at once", "exit 0", mode="worker", codes="crashed", calls=2),
    sh("a worker that closes its output", "exec >&-; sleep 60", mode="worker", codes="timeout crashed", timeout=1),
]  # fmt: skip
