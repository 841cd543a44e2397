"""Attacks on other calls: their sessions, the zygote that all come from, their processes and channels."""

from tests.sandbox.attacks.answers import TO_EVERY_DESCRIPTOR
from tests.sandbox.attacks.records import FORGED, HOST, LEAK, PROCESS, SECCOMP, WRITE, Attack, Rows

SESSIONS: Rows = [
    Attack(
        "session: the names of another",
        LEAK,
        (PROCESS,),
        """
import gc, sys
print({k: v for k, v in globals().items() if not k.startswith("__")}.keys())
for thing in gc.get_objects():
    if isinstance(thing, dict) and "vault" in thing:
        print(thing["vault"])
frame = sys._getframe()
while frame:
    print(frame.f_globals.get("vault"), frame.f_locals.get("vault"))
    frame = frame.f_back
""",
        before="vault = HIDDEN",
        input={"session": "thief"},
    ),
    Attack(
        "session: the names of another, from a call without one",
        LEAK,
        (PROCESS,),
        "import __main__, builtins\nprint(vars(__main__).get('vault'), vars(builtins).get('vault'))\nprint(vault)",
        before="import __main__, builtins\nvault = HIDDEN\n__main__.vault = builtins.vault = vault",
    ),
    Attack(
        "session: a name that is a path",
        WRITE,
        (PROCESS,),
        "x = 1",
        input={"session": "../../../../../../tmp/x"},
    ),
    Attack(
        "session: builtins changed for those who come after",
        FORGED,
        (PROCESS,),
        "import builtins, json, re\nbuiltins.len = lambda x: 0\njson.dumps = lambda *a, **k: FORGERY\nbuiltins.print = lambda *a, **k: None\nre.sub = None",
        after="import json, re\nprint('untouched' if (len('abc'), json.dumps([1]), re.sub('a', 'b', 'a')) == (3, '[1]', 'b') else 'touched')",
    ),
    Attack(
        "session: the state of another, changed",
        FORGED,
        (PROCESS,),
        "vault = FORGERY\nimport gc\nfor thing in gc.get_objects():\n    if isinstance(thing, dict) and 'vault' in thing: thing['vault'] = FORGERY",
        before="vault = 'mine'",
        after="print('untouched' if vault == 'mine' else 'touched')",
        input={"session": "thief"},
    ),
    Attack(
        "session: ended by force while it is in use",
        HOST,
        (PROCESS,),
        "import os\nos._exit(1)",
        input={"session": "short"},
        before="vault = 'mine'",
        after="print('untouched' if vault == 'mine' else 'touched')",
    ),
]

OTHERS: Rows = [
    Attack(
        "others: every neighbour killed",
        HOST,
        (SECCOMP,),
        "import os\nme = os.getpid()\nfor pid in range(max(2, me - 40), me + 40):\n    if pid not in (me, HOST):\n        try: os.kill(pid, 9)\n        except OSError: pass",
        beside="import time\ntime.sleep(0.8)\nprint('untouched')",
        harmful="kills processes that are not ours",
        alone=True,
    ),
    Attack(
        "others: the channel of a neighbour",
        FORGED,
        (PROCESS,),
        TO_EVERY_DESCRIPTOR
        + "for _ in range(20):\n    send(b'O' + len(FORGERY).to_bytes(4, 'big') + FORGERY.encode())\n    __import__('time').sleep(0.02)",
        beside="import time\ntime.sleep(0.5)\nprint('untouched')",
        alone=True,
    ),
    Attack(
        "others: delayed beyond their limit",
        HOST,
        (PROCESS,),
        "import threading\ndef work():\n    while True: pass\nfor _ in range(5): threading.Thread(target=work, daemon=True).start()\nwork()",
        seconds=1,
        beside="print('untouched')",
        alone=True,
    ),
    Attack(
        "zygote: killed",
        HOST,
        (SECCOMP,),
        "import os\nos.kill(os.getppid(), 9)",
        beside="import time\ntime.sleep(0.8)\nprint('untouched')",
        alone=True,
    ),
    Attack(
        "zygote: stopped",
        HOST,
        (SECCOMP,),
        "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)",
        beside="print('untouched')",
        alone=True,
    ),
]

TOOLS: Rows = [
    Attack(
        "tools: one that the run does not permit",
        WRITE,
        (PROCESS,),
        "call_tool('file_write', path=DROP + '/made', content='x')",
    ),
    Attack(
        "tools: one that the run does not permit, from code within code",
        WRITE,
        (PROCESS,),
        'inner = f\'call_tool("file_write", path={DROP + "/made"!r}, content="x")\'\nprint(call_tool(\'python_exec\', code=inner))',
    ),
    Attack(
        "tools: without end",
        HOST,
        (PROCESS,),
        "while True:\n    try: print(call_tool('echo', message='x'))\n    except Exception as error: print(error)",
        seconds=1,
    ),
    Attack(
        "tools: itself within itself",
        HOST,
        (PROCESS,),
        """
code = "call_tool('python_exec', code=code, timeout=1)"
for _ in range(20):
    code = f"code = {code!r}\\ncall_tool('python_exec', code=code, timeout=1)" if len(code) < 100000 else code
print(call_tool("python_exec", code=code, timeout=1))
""",
    ),
    Attack(
        "tools: arguments and names that bite",
        HOST,
        (PROCESS,),
        """
deep = []
for _ in range(900):
    deep = [deep]
for name in ("", "../echo", "x" * 10**6, "strands_cli.tools.file_operations", "os.system", "./planted.py", "echo"):
    try:
        print(call_tool(name, message=deep))
    except Exception as error:
        print(type(error), str(error)[:200])
""",
    ),
]

ATTACKS = {"sessions": SESSIONS, "zygote and other calls": OTHERS, "tools called from code": TOOLS}
