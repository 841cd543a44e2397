"""Attacks on what the machine has to share: memory, processor time, stack, output."""

from tests.sandbox.attacks.records import HOST, PROCESS, REACHED, RLIMITS, Attack, Rows

LIMITED = (RLIMITS,)

MEMORY: Rows = [
    Attack(
        "memory: twice what it may have",
        REACHED,
        LIMITED,
        "block = bytearray(512 << 20)\nreached()",
        seconds=4,
    ),
    Attack(
        "memory: many small pieces",
        REACHED,
        LIMITED,
        "kept = [bytearray(1 << 20) for _ in range(512)]\nreached()",
        seconds=4,
    ),
    Attack(
        "memory: mapped",
        REACHED,
        LIMITED,
        "import mmap\nblock = mmap.mmap(-1, 512 << 20)\nblock[(512 << 20) - 1] = 1\nreached()",
    ),
    Attack(
        "memory: a text that doubles",
        REACHED,
        LIMITED,
        "text = 'x'\nwhile len(text) < 512 << 20: text += text\nreached()",
        seconds=4,
    ),
    Attack(
        "memory: a small archive of something large",
        REACHED,
        LIMITED,
        "import gzip\nif len(gzip.decompress(gzip.compress(bytes(16 << 20)) * 24)) >= 384 << 20: reached()",
        seconds=6,
    ),
    Attack(
        "memory: entities within entities",
        HOST,
        (PROCESS,),
        """
from xml.etree import ElementTree
lines = ['<!ENTITY e0 "lol">'] + [f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10)]
ElementTree.fromstring(f"<!DOCTYPE x [{''.join(lines)}]><x>&e9;</x>")
""",
    ),
    Attack("memory: a number of bytes that nobody has", HOST, (PROCESS,), "bytes(10**15)"),
    Attack(
        "memory: all there is",
        HOST,
        LIMITED,
        "kept = []\nwhile True: kept.append(bytearray(64 << 20))",
        harmful="takes all memory of the machine",
    ),
    Attack(
        "memory: all there is, whatever happens",
        HOST,
        LIMITED,
        """
kept = []
while True:
    try:
        kept.append(bytearray(1 << 20))
    except MemoryError:
        pass
""",
        harmful="takes all memory of the machine",
        seconds=1,
    ),
    Attack(
        "memory: dictionaries of dictionaries",
        HOST,
        LIMITED,
        "root = {}\nwhile True: root = {n: root for n in range(1000)} | {'copy': dict.fromkeys(range(1000), [0] * 1000)}",
        harmful="takes all memory of the machine",
        seconds=1,
    ),
]

PROCESSOR: Rows = [
    Attack("processor: a loop", HOST, (PROCESS,), "while True: pass", seconds=1),
    Attack("processor: a sum that never lets go", HOST, (PROCESS,), "sum(range(10**12))", seconds=1),
    Attack("processor: a power", HOST, (PROCESS,), "9 ** 9 ** 9", seconds=1),
    Attack(
        "processor: a power of a power, modulo",
        HOST,
        (PROCESS,),
        "pow(7, 10 ** 2000000, 10 ** 20000 + 1)",
        seconds=1,
    ),
    Attack("processor: a factorial", HOST, (PROCESS,), "import math\nmath.factorial(10**8)", seconds=1),
    Attack(
        "processor: digits of a giant",
        HOST,
        (PROCESS,),
        "import sys\nsys.set_int_max_str_digits(0)\nstr(1 << 40_000_000)",
        seconds=1,
    ),
    Attack(
        "processor: a giant from digits",
        HOST,
        (PROCESS,),
        "import sys\nsys.set_int_max_str_digits(0)\nint('9' * 5_000_000)",
        seconds=1,
    ),
    Attack("processor: a giant as the value", HOST, (PROCESS,), "1 << 8_000_000"),
    Attack(
        "processor: a decimal of a million digits",
        HOST,
        (PROCESS,),
        "from decimal import *\ngetcontext().prec = 10**6\nDecimal(2).sqrt().ln()",
        seconds=1,
    ),
    Attack(
        "processor: an expression that backtracks",
        HOST,
        (PROCESS,),
        "import re\nre.match(r'(a+)+$', 'a' * 64 + 'b')",
        seconds=1,
    ),
    Attack(
        "processor: an expression that takes long to compile",
        HOST,
        (PROCESS,),
        "import re\nre.compile('(' * 90 + 'a' + '{1,1000})' * 90)\nre.compile('(?:' * 5000 + ')' * 5000)",
        seconds=1,
    ),
    Attack(
        "processor: an endless iterator",
        HOST,
        (PROCESS,),
        "import itertools\nany(False for _ in itertools.count())",
        seconds=1,
    ),
    Attack(
        "processor: threads that all work",
        HOST,
        (PROCESS,),
        """
import threading
def work():
    while True:
        pass
for _ in range(6):
    threading.Thread(target=work, daemon=True).start()
work()
""",
        seconds=1,
    ),
    Attack(
        "processor: values that hash alike",
        HOST,
        (PROCESS,),
        "{n * (2**61 - 1): n for n in range(40000)}",
        seconds=1,
    ),
    Attack(
        "processor: a comparison without end",
        HOST,
        (PROCESS,),
        "from itertools import repeat\n1 in repeat(0)",
        seconds=1,
    ),
]

STACK: Rows = [
    Attack("stack: recursion", HOST, (PROCESS,), "def f(): return f()\nf()"),
    Attack(
        "stack: recursion without a limit",
        HOST,
        (PROCESS,),
        "import sys\nsys.setrecursionlimit(2**31 - 1)\nclass R:\n    def __repr__(self): return repr(self)\nrepr(R())",
    ),
    Attack(
        "stack: a list within lists, shown",
        HOST,
        (PROCESS,),
        "x = []\nfor _ in range(10**6): x = [x]\nprint(x)",
    ),
    Attack(
        "stack: a list within lists, as the value",
        HOST,
        (PROCESS,),
        "x = []\nfor _ in range(10**5): x = [x]\nx",
    ),
    Attack("stack: parentheses", HOST, (PROCESS,), "eval('(' * 10**6 + ')' * 10**6)"),
    Attack("stack: source that nests", HOST, (PROCESS,), "eval('-' * 10**6 + '1')"),
    Attack("stack: JSON that nests", HOST, (PROCESS,), "import json\njson.loads('[' * 10**6)"),
    Attack(
        "stack: a pickle that nests",
        HOST,
        (PROCESS,),
        "import pickle\nx = None\nfor _ in range(10**5): x = (x,)\npickle.dumps(x)",
    ),
    Attack(
        "stack: types within types",
        HOST,
        (PROCESS,),
        "x = int\nfor _ in range(10**5): x = (x,)\nisinstance('a', x)",
    ),
    Attack(
        "stack: a thread with a giant stack",
        HOST,
        (PROCESS,),
        "import threading\nthreading.stack_size(1 << 40)\nthreading.Thread(target=print).start()",
    ),
]

FLOODS: Rows = [
    Attack("flood: many lines", HOST, (PROCESS,), "for n in range(3 * 10**6): print('line', n)", seconds=2),
    Attack("flood: one line", HOST, (PROCESS,), "print('x' * (100 << 20))", seconds=2),
    Attack(
        "flood: standard error",
        HOST,
        (PROCESS,),
        "import sys\nfor _ in range(200): sys.stderr.write('e' * (1 << 20))",
        seconds=2,
    ),
    Attack("flood: without end", HOST, (PROCESS,), "while True: print('x' * 10**6)", seconds=1),
    Attack(
        "flood: straight to the descriptors",
        HOST,
        (PROCESS,),
        """
import os
while True:
    for fd in (1, 2):
        try:
            os.write(fd, b"x" * 65536)
        except OSError:
            pass
""",
        seconds=1,
    ),
    Attack("flood: the value", HOST, (PROCESS,), "['x' * 1000] * 50000"),
    Attack("flood: an exception's text", HOST, (PROCESS,), "raise ValueError('x' * (50 << 20))"),
    Attack(
        "flood: an exception's name", HOST, (PROCESS,), "raise type('E' * (20 << 20), (Exception,), {})()"
    ),
    Attack(
        "flood: a chain of exceptions",
        HOST,
        (PROCESS,),
        """
error = None
for n in range(50000):
    new = ValueError("x" * 1000)
    new.__cause__ = error
    error = new
raise error
""",
    ),
    Attack(
        "flood: a group of exceptions",
        HOST,
        (PROCESS,),
        "raise ExceptionGroup('g', [ValueError('x' * 1000) for _ in range(50000)])",
    ),
    Attack(
        "flood: warnings",
        HOST,
        (PROCESS,),
        "import warnings\nwarnings.simplefilter('always')\nfor n in range(200000): warnings.warn('w' * 100)",
        seconds=2,
    ),
    Attack(
        "flood: files",
        HOST,
        (PROCESS,),
        "for n in range(20000):\n    with open(f'file{n}', 'w') as f: f.write('x' * 1000)",
        seconds=2,
    ),
    Attack(
        "flood: a large file",
        HOST,
        (PROCESS,),
        "with open('large', 'wb') as f:\n    for _ in range(100): f.write(bytes(1 << 20))",
        seconds=2,
    ),
    Attack(
        "flood: drop by drop",
        HOST,
        (PROCESS,),
        "import time\nwhile True:\n    print('.', end='', flush=True)\n    time.sleep(0.01)",
        seconds=1,
    ),
]

ATTACKS = {"memory": MEMORY, "processor, giants, regex": PROCESSOR, "stack": STACK, "floods": FLOODS}
