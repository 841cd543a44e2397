"""Ordinary code of the kind that models write. Each ends with a value, prints something, or raises."""

SNIPPETS: dict[str, str] = {
    "arithmetic": "(17 * 23 + 4) % 7, 2 ** 100, 7 // -2, 7 / 2, divmod(-7, 3)",
    "json": """
import json
data = {"b": [1, 2.5, None, True], "a": {"nested": "é"}}
text = json.dumps(data, sort_keys=True, indent=2, ensure_ascii=False)
print(text)
json.loads(text) == data
""",
    "json error": "import json\njson.loads('{\"a\": }')",
    "re": r"""
import re
log = "2024-01-05 ERROR disk full\n2024-01-06 INFO ok\n2024-01-07 ERROR cpu hot"
pattern = re.compile(r"^(?P<day>\d{4}-\d\d-\d\d) (?P<level>\w+) (?P<text>.*)$", re.M)
[m.groupdict() for m in pattern.finditer(log) if m["level"] == "ERROR"]
""",
    "re sub": "import re\nre.sub(r'(\\w+)@(\\w+)', lambda m: m[2] + ' at ' + m[1], 'me@here you@there')",
    "datetime": """
from datetime import date, datetime, timedelta, timezone
start = datetime(2024, 2, 28, 12, tzinfo=timezone.utc)
end = start + timedelta(days=2, hours=13)
print(end.isoformat(), (end - start).total_seconds(), end.strftime("%A %d %B %Y"))
(date(2024, 12, 25) - date(2024, 1, 1)).days
""",
    "zoneinfo": """
from datetime import datetime
from zoneinfo import ZoneInfo
moment = datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin"))
moment.astimezone(ZoneInfo("America/New_York")).isoformat()
""",
    "datetime parsing": "from datetime import datetime\ndatetime.strptime('3 Mar 2021 04:05', '%d %b %Y %H:%M').isoformat()",
    "statistics": """
import statistics as s
values = [2, 4, 4, 4, 5, 5, 7, 9]
{"mean": s.mean(values), "median": s.median(values), "mode": s.mode(values), "stdev": s.stdev(values), "quantiles": s.quantiles(values, n=4)}
""",
    "dataclasses": """
from dataclasses import dataclass, field, asdict, replace
@dataclass(order=True)
class Item:
    name: str
    price: float = 0.0
    tags: list = field(default_factory=list)
items = sorted([Item("pear", 2.5, ["fruit"]), Item("apple", 1.25)])
print(items)
asdict(replace(items[0], price=3.0))
""",
    "frozen dataclass": """
from dataclasses import dataclass
@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int
p = Point(1, 2)
print({p: "here"}[Point(1, 2)])
p.x = 5
""",
    "generators": """
def fibonacci():
    a, b = 0, 1
    while True:
        yield a
        a, b = b, a + b
from itertools import islice, takewhile
print(list(islice(fibonacci(), 12)))
sum(n for n in takewhile(lambda n: n < 4_000_000, fibonacci()) if n % 2 == 0)
""",
    "generator send": """
def average():
    total = count = 0
    value = None
    while True:
        value = yield (total / count if count else None)
        total += value
        count += 1
g = average()
next(g)
[g.send(n) for n in (10, 20, 60)]
""",
    "classes": """
class Shape:
    def area(self): raise NotImplementedError
    def __repr__(self): return f"{type(self).__name__}({self.area():.2f})"
class Circle(Shape):
    def __init__(self, r): self.r = r
    def area(self): return 3.141592653589793 * self.r ** 2
class Square(Shape):
    def __init__(self, a): self.a = a
    def area(self): return self.a ** 2
shapes = [Circle(1), Square(3)]
print(*shapes)
max(shapes, key=Shape.area).area()
""",
    "not implemented": "class A:\n    def f(self):\n        raise NotImplementedError('later')\n\nA().f()",
    "operators": """
class Vector:
    def __init__(self, *v): self.v = v
    def __add__(self, o): return Vector(*(a + b for a, b in zip(self.v, o.v, strict=True)))
    def __mul__(self, k): return Vector(*(a * k for a in self.v))
    __rmul__ = __mul__
    def __eq__(self, o): return self.v == o.v
    def __matmul__(self, o): return sum(a * b for a, b in zip(self.v, o.v))
    def __repr__(self): return f"Vector{self.v}"
print(2 * (Vector(1, 2) + Vector(3, 4)), Vector(1, 2) @ Vector(3, 4))
Vector(1, 2) == Vector(1, 2)
""",
    "properties": """
class Account:
    def __init__(self): self._balance = 0
    @property
    def balance(self): return self._balance
    @balance.setter
    def balance(self, value):
        if value < 0:
            raise ValueError("no overdraft")
        self._balance = value
account = Account()
account.balance = 10
print(account.balance)
account.balance -= 50
""",
    "decimal": """
from decimal import Decimal, ROUND_HALF_EVEN, localcontext
price = Decimal("19.995")
print(price.quantize(Decimal("0.01"), ROUND_HALF_EVEN), Decimal("0.1") + Decimal("0.2"))
with localcontext() as context:
    context.prec = 50
    print(Decimal(2).sqrt())
str(Decimal(1) / Decimal(7))
""",
    "fractions": "from fractions import Fraction\nprint(Fraction(3, 4) + Fraction('0.1'))\nstr(sum(Fraction(1, n) for n in range(1, 11)))",
    "itertools": """
import itertools as it
print(list(it.accumulate([3, 1, 4, 1, 5], max)), list(it.pairwise("abcd")))
print([(k, len(list(g))) for k, g in it.groupby("aaabbc")])
[list(it.combinations("abc", 2)), len(list(it.permutations(range(5), 3))), list(it.product([0, 1], repeat=2)), list(it.zip_longest("ab", "x", fillvalue="-"))]
""",
    "collections": """
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple, ChainMap
words = "the cat and the dog and the bird".split()
print(Counter(words).most_common(2))
groups = defaultdict(list)
for word in words:
    groups[len(word)].append(word)
d = deque(range(5), maxlen=3)
d.rotate(1)
Point = namedtuple("Point", "x y")
print(dict(groups), d, Point(1, 2)._asdict(), ChainMap({"a": 1}, {"a": 2, "b": 3})["b"])
OrderedDict(sorted(Counter("mississippi").items()))
""",
    "strings": """
text = "The quick brown fox"
print(text.title(), text[::-1], text.split(), text.replace("quick", "slow"), sep="|")
print(f"{3.14159:>10.2f}|{1234567:,}|{255:#x}|{'mid':^9}|{0.256:.1%}|{text!r:.10}")
"".join(sorted(set(text.lower()) - {" "}))
""",
    "palindrome": "def is_palindrome(s):\n    s = ''.join(c for c in s.lower() if c.isalnum())\n    return s == s[::-1]\n\nis_palindrome('A man, a plan, a canal: Panama')",
    "caesar": "''.join(chr((ord(c) - 97 + 13) % 26 + 97) if c.isalpha() else c for c in 'hello world')",
    "primes": """
def primes(n):
    sieve = bytearray([1]) * (n + 1)
    sieve[:2] = b"\\0\\0"
    for i in range(2, int(n ** 0.5) + 1):
        if sieve[i]:
            sieve[i * i :: i] = bytes(len(range(i * i, n + 1, i)))
    return [i for i, is_prime in enumerate(sieve) if is_prime]
print(len(primes(100000)))
primes(50)
""",
    "newton": "x = 1.0\nfor step in range(6):\n    x = (x + 2 / x) / 2\n    print(step, round(x, 12))\nx",
    "matrix": """
def matmul(a, b):
    return [[sum(x * y for x, y in zip(row, col)) for col in zip(*b)] for row in a]
m = [[1, 1], [1, 0]]
result = [[1, 0], [0, 1]]
for _ in range(30):
    result = matmul(result, m)
result
""",
    "compound interest": "balance = 1000\nfor year in range(1, 6):\n    balance *= 1.05\n    print(f'year {year}: {balance:.2f}')",
    "fizzbuzz": "for n in range(1, 16):\n    print('Fizz' * (n % 3 == 0) + 'Buzz' * (n % 5 == 0) or n)",
    "enum": """
from enum import Enum, Flag, IntEnum, auto
class Colour(Enum):
    RED = auto()
    GREEN = auto()
class Right(Flag):
    READ = auto()
    WRITE = auto()
print(list(Colour), Colour["RED"].value, Right.READ | Right.WRITE)
Colour(2).name
""",
    "heapq": """
import heapq
graph = {"a": {"b": 7, "c": 3}, "c": {"b": 1, "d": 8}, "b": {"d": 2}, "d": {}}
def shortest(start):
    best, queue = {start: 0}, [(0, start)]
    while queue:
        cost, node = heapq.heappop(queue)
        for other, weight in graph[node].items():
            if cost + weight < best.get(other, float("inf")):
                best[other] = cost + weight
                heapq.heappush(queue, (cost + weight, other))
    return best
print(heapq.nsmallest(3, [5, 1, 9, 2]))
shortest("a")
""",
    "StringIO": """
import io
buffer = io.StringIO()
print("one", "two", file=buffer)
buffer.write("three\\n")
print(repr(buffer.getvalue()), io.BytesIO(b"abc").read(2))
[line.strip() for line in io.StringIO(buffer.getvalue())]
""",
    "redirect": "import contextlib, io\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n    print('hidden')\nout.getvalue()",
    "stderr": "import sys\nprint('to out')\nprint('to err', file=sys.stderr)\nsys.stdout.write('written\\n')",
    "textwrap": "import textwrap\ntext = 'It is a truth universally acknowledged that a program in want of memory must be in possession of a leak.'\nprint(textwrap.fill(text, 40, subsequent_indent='  '))\ntextwrap.dedent('    a\\n      b\\n    c')",
    "functools": """
from functools import cache, lru_cache, partial, reduce, singledispatch, total_ordering, wraps
@cache
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
@singledispatch
def kind(x): return "other"
@kind.register
def _(x: int): return "int"
@kind.register(list)
def _(x): return "list"
print(fib(90), kind(1), kind([]), kind(""), partial(pow, 2)(10))
reduce(lambda a, b: a * b, range(1, 11))
""",
    "decorators": """
import functools
def logged(f):
    @functools.wraps(f)
    def inner(*args, **kwargs):
        print("calling", f.__name__, args, kwargs)
        return f(*args, **kwargs)
    return inner
@logged
def add(a, b=2):
    \"\"\"Adds.\"\"\"
    return a + b
add(1), add(1, b=5), add.__doc__
""",
    "math": "import math\nprint(math.pi, math.gcd(84, 36), math.lcm(4, 6), math.comb(10, 3), math.isclose(0.1 + 0.2, 0.3))\n[math.sqrt(2), math.log(10), math.sin(1), math.hypot(3, 4), math.factorial(20), math.prod([2, 3, 4])]",
    "cmath": "import cmath\nroots = [(-1 + s * cmath.sqrt(-3)) / 2 for s in (1, -1)]\nroots",
    "random with a seed": "import random\nrandom.seed(42)\nprint(random.random(), random.randint(1, 100), random.choice('abc'))\nx = list(range(10))\nrandom.shuffle(x)\n[x, random.sample(range(100), 3), round(random.gauss(0, 1), 9)]",
    "hashlib": "import hashlib, hmac\nprint(hashlib.sha256(b'hello').hexdigest(), hashlib.md5(b'x').hexdigest())\nhmac.new(b'key', b'message', 'sha256').hexdigest()",
    "base64": "import base64, binascii\nprint(base64.b64encode('héllo'.encode()), base64.urlsafe_b64decode(b'_-8='))\nbinascii.hexlify(b'\\x00\\xff').decode()",
    "csv": """
import csv, io
text = 'name,qty\\n"Smith, J.",3\\nBrown,5\\n'
rows = list(csv.DictReader(io.StringIO(text)))
out = io.StringIO()
writer = csv.writer(out, lineterminator="\\n")
writer.writerows([["a", 'quote "x"'], [1, None]])
print(out.getvalue())
sum(int(row["qty"]) for row in rows), rows
""",
    "urllib.parse": "from urllib.parse import *\nu = urlparse('https://example.com:8080/a/b?x=1&y=2&x=3#top')\nprint(u.hostname, u.port, u.path, parse_qs(u.query))\n[urljoin('http://a/b/c', '../d'), quote('a b/ü'), urlencode({'q': 'x y', 'n': 1})]",
    "typing": """
from typing import Generic, NamedTuple, Optional, Protocol, TypedDict, TypeVar, get_type_hints
T = TypeVar("T")
class Stack(Generic[T]):
    def __init__(self) -> None: self.items: list[T] = []
    def push(self, item: T) -> None: self.items.append(item)
    def pop(self) -> Optional[T]: return self.items.pop() if self.items else None
class Row(NamedTuple):
    id: int
    name: str = "?"
s = Stack[int]()
s.push(4)
print(s.pop(), s.pop(), Row(1))
sorted(get_type_hints(Stack.push))
""",
    "abc": "from abc import ABC, abstractmethod\nclass Animal(ABC):\n    @abstractmethod\n    def sound(self): ...\nclass Dog(Animal):\n    def sound(self): return 'woof'\nprint(Dog().sound())\nAnimal()",
    "contextlib": """
from contextlib import contextmanager, suppress, ExitStack
@contextmanager
def step(name):
    print("enter", name)
    try:
        yield name.upper()
    finally:
        print("leave", name)
with step("a") as a, suppress(ZeroDivisionError):
    print(a)
    1 / 0
with ExitStack() as stack:
    names = [stack.enter_context(step(n)) for n in "bc"]
names
""",
    "operator": "from operator import attrgetter, itemgetter, methodcaller\npeople = [{'n': 'Bo', 'a': 3}, {'n': 'Al', 'a': 3}, {'n': 'Cy', 'a': 1}]\nsorted(people, key=itemgetter('a', 'n')), list(map(methodcaller('upper'), 'ab'))",
    "bisect": "import bisect\ngrades = [(60, 'D'), (70, 'C'), (80, 'B'), (90, 'A')]\n[ 'FDCBA'[bisect.bisect([g[0] for g in grades], score)] for score in (33, 60, 79, 85, 100)]",
    "uuid5": "import uuid\nprint(uuid.UUID(int=5))\nstr(uuid.uuid5(uuid.NAMESPACE_DNS, 'example.com'))",
    "zlib": "import gzip, zlib\ndata = b'abc' * 1000\npacked = zlib.compress(data, 9)\nprint(len(packed), zlib.crc32(data), gzip.decompress(gzip.compress(data)) == data)\nzlib.decompress(packed) == data",
    "struct": "import struct\npacked = struct.pack('>IhB3s', 1024, -2, 255, b'abc')\nprint(packed.hex(), struct.calcsize('>IhB3s'))\nstruct.unpack('>IhB', packed[:7])",
    "calendar": "import calendar\nprint(calendar.month(2024, 2))\ncalendar.monthrange(2023, 2), calendar.isleap(2000), [calendar.day_name[i] for i in range(2)]",
    "copy": "import copy\na = {'x': [1, 2]}\nb, c = copy.copy(a), copy.deepcopy(a)\na['x'].append(3)\n[b, c]",
    "pprint": "from pprint import pprint, pformat\npprint({'numbers': list(range(30)), 'nested': {'a': {'b': {'c': 'd' * 30}}}}, width=60)\npformat([1, [2, [3]]])",
    "difflib": "import difflib\nprint('\\n'.join(difflib.unified_diff('a b c'.split(), 'a x c'.split(), lineterm='')))\n[difflib.get_close_matches('appel', ['ape', 'apple', 'peach']), round(difflib.SequenceMatcher(None, 'abcd', 'bcde').ratio(), 3)]",
    "unicodedata": "import unicodedata\nprint(unicodedata.name('é'), len('🇩🇪'), 'straße'.casefold(), 'ﬁ'.upper())\n''.join(c for c in unicodedata.normalize('NFD', 'crème brûlée') if not unicodedata.combining(c))",
    "html": "import html\nfrom html.parser import HTMLParser\nclass Links(HTMLParser):\n    def handle_starttag(self, tag, attrs):\n        if tag == 'a':\n            print(dict(attrs)['href'])\nLinks().feed('<p><a href=\"/x\">x</a> <a href=\"/y\">y</a></p>')\nhtml.escape('<a & \"b\">'), html.unescape('&eacute;&#39;')",
    "string.Template": "import string\nprint(string.Template('$who owes ${amount}').substitute(who='Al', amount=5))\nstring.ascii_lowercase[:5], string.Template('$x').safe_substitute()",
    "template error": "from string import Template\nTemplate('$missing').substitute()",
    "xml": "from xml.etree import ElementTree as ET\nroot = ET.fromstring('<r><i n=\"1\">a</i><i n=\"2\">b</i></r>')\nprint([(i.get('n'), i.text) for i in root.iter('i')])\nET.tostring(root, encoding='unicode')",
    "array and memoryview": "import array\na = array.array('i', [1, 2, 3])\nm = memoryview(bytearray(b'abcdef'))\nm[1:3] = b'XY'\na.append(4)\n[a.tolist(), bytes(m).decode(), sum(a)]",
    "match": """
def describe(x):
    match x:
        case {"type": "circle", "r": r}: return f"circle {r}"
        case [first, *rest]: return f"list of {1 + len(rest)} from {first}"
        case int() | float() as n if n > 10: return "large"
        case _: return "unknown"
[describe(v) for v in ({"type": "circle", "r": 2}, [1, 2, 3], 11, "x")]
""",
    "walrus and star": "data = [3, 8, 1]\nif (n := len(data)) > 2:\n    print(n)\nfirst, *rest = data\n{**{'a': 1}, 'rest': [*rest, first]}",
    "closures": "def counter():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n        return n\n    return up\nc = counter()\n[c(), c(), c()]",
    "recursion": "def hanoi(n, a='A', b='B', c='C'):\n    return [] if n == 0 else hanoi(n - 1, a, c, b) + [(a, c)] + hanoi(n - 1, b, a, c)\nlen(hanoi(10)), hanoi(2)",
    "sorting": "people = [('Al', 30), ('Bo', 25), ('Cy', 30)]\nprint(sorted(people, key=lambda p: (-p[1], p[0])))\nsorted('banana', key=str.lower, reverse=True), min(people, key=lambda p: p[1])",
    "word count": "text = 'it was the best of times it was the worst of times'\ncounts = {}\nfor w in text.split():\n    counts[w] = counts.get(w, 0) + 1\nfor w, n in sorted(counts.items(), key=lambda x: (-x[1], x[0]))[:4]:\n    print(f'{w:<6}{n}')\nlen(counts)",
    "sets": "a, b = {1, 2, 3}, {3, 4}\nprint(sorted(a | b), a & b, sorted(a ^ b), a.isdisjoint({9}))\nfrozenset({1}) in {frozenset({1})}",
    "bytes": "b = 'naïve'.encode('utf-8')\nprint(b, b.hex(' '), b.decode('latin-1'), int.from_bytes(b'\\x01\\x00', 'big'))\n(1000).to_bytes(2, 'little')",
    "asyncio": "import asyncio\nasync def work(n):\n    await asyncio.sleep(0.001 * (3 - n))\n    return n * n\nasync def main():\n    return await asyncio.gather(*(work(n) for n in range(4)))\nasyncio.run(main())",
    "threads": "import threading\nfrom concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(3) as pool:\n    squares = list(pool.map(lambda n: n * n, range(6)))\nresults = []\nt = threading.Thread(target=results.append, args=(1,))\nt.start()\nt.join()\nsquares, results",
    "time": "import time\nstart = time.perf_counter()\ntime.sleep(0.01)\nprint(0.009 < time.perf_counter() - start < 5)\ntime.strftime('%Y-%m-%d', time.gmtime(86400 * 365))",
    "sqlite in memory": "import sqlite3\ndb = sqlite3.connect(':memory:')\ndb.execute('create table t (name text, n int)')\ndb.executemany('insert into t values (?, ?)', [('a', 1), ('b', 2), ('a', 3)])\ndb.execute('select name, sum(n) from t group by name order by name').fetchall()",
    "exception caught": "try:\n    int('x')\nexcept ValueError as error:\n    print('caught', error)\nelse:\n    print('no')\nfinally:\n    print('done')",
    "traceback": "import traceback\ntry:\n    {}['k']\nexcept KeyError:\n    print(traceback.format_exc().splitlines()[-1])",
    "key error": "prices = {'apple': 1}\nprint('looking')\nprices['pear']",
    "zero division": "def ratio(a, b):\n    return a / b\n\nratio(1, 2)\nratio(1, 0)",
    "type error": "total = 0\nfor x in [1, 'two']:\n    total += x",
    "name error": "x = 1\ny = x + undefined_name",
    "attribute error": "'text'.push('x')",
    "index error": "a = [1, 2]\na[5]",
    "syntax error": "x = 1\nif x = 2:\n    pass",
    "indentation error": "def f():\nreturn 1",
    "own exception": "class TooLow(ValueError):\n    pass\ndef check(n):\n    if n < 3:\n        raise TooLow(f'{n} is too low')\ncheck(2)",
    "exception with a cause": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise RuntimeError('wrapped') from error",
    "assertion": "def f(x):\n    assert x > 0, 'must be positive'\n    return x\nf(-1)",
    "unicode output": "print('héllo wörld ✓ 日本語 🎉')\n{'ключ': 'значение'}",
    "nested data": "{'a': [1, {'b': (2, 3)}], 'c': None, 'd': 1e100, 'e': True}",
    "no output": "x = 1",
    "none as the value": "None",
    "multi-line text": "'''first\nsecond'''",
    "print only": "print('a', 'b', sep='-', end='!\\n')\nprint()",
    "large integer": "2 ** 200",
    "lambda as the value": "len",
    "set as the value": "{3}",
    "date as the value": "from datetime import date\ndate(2024, 1, 2)",
}
