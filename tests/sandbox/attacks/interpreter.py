"""Attacks through the interpreter itself: object walks, frames, imports, ctypes, crashes."""

from tests.sandbox.attacks.records import HOST, LANDLOCK, LEAK, PROCESS, REACHED, SECCOMP, WRITE, Attack, Rows

OBJECTS: Rows = [
    Attack(
        "object walk: subclasses to popen",
        LEAK,
        (SECCOMP, LANDLOCK),
        """
import os
walk = ().__class__.__base__.__subclasses__()
found = [c for c in walk if c.__name__ == "_wrap_close"][0]
print(found.__init__.__globals__["popen"](f"cat {CANARY}/secret.txt").read())
""",
    ),
    Attack(
        "object walk: subclasses to FileIO",
        LEAK,
        (SECCOMP, LANDLOCK),
        """
todo, seen = [object], set()
while todo:
    kind = todo.pop()
    for c in type.__subclasses__(kind):
        if c not in seen:
            seen.add(c)
            todo.append(c)
            if c.__name__ == "FileIO":
                print(c(CANARY + "/secret.txt").read())
""",
    ),
    Attack(
        "object walk: BuiltinImporter to posix",
        LEAK,
        (SECCOMP, LANDLOCK),
        """
importer = [c for c in object.__subclasses__() if c.__name__ == "BuiltinImporter"][0]
posix = importer.load_module("posix")
print(posix.read(posix.open(CANARY + "/secret.txt", 0), 1000))
""",
    ),
    Attack(
        "object walk: a warning's globals to sys.modules",
        LEAK,
        (SECCOMP, LANDLOCK),
        """
import warnings
modules = warnings.catch_warnings.__init__.__globals__["sys"].modules
posix = modules["posix"]
print(posix.read(posix.open(CANARY + "/secret.txt", 0), 1000))
""",
    ),
    Attack(
        "object walk: pickle calls posix.system",
        WRITE,
        (SECCOMP, LANDLOCK),
        """
import pickle
pickle.loads(f"cposix\\nsystem\\n(S'echo x > {DROP}/pickled'\\ntR.".encode())
""",
    ),
    Attack(
        "object walk: every object that the collector knows",
        LEAK,
        (PROCESS,),
        """
import gc
for thing in gc.get_objects():
    if isinstance(thing, dict):
        for value in list(thing.values()):
            if isinstance(value, (str, bytes)) and len(value) < 4000 and "canary-" in str(value):
                print(value)
""",
    ),
    Attack(
        "object walk: the globals of every module",
        LEAK,
        (PROCESS,),
        """
import sys
for module in list(sys.modules.values()):
    for name, value in list(getattr(module, "__dict__", {}).items()):
        if "canary-" in repr(value):
            print(name, value)
""",
    ),
    Attack(
        "object walk: a finaliser that writes at exit",
        WRITE,
        (SECCOMP, LANDLOCK),
        """
import posix
class Late:
    def __del__(self, posix=posix, path=DROP + "/late"):
        posix.write(posix.open(path, posix.O_WRONLY | posix.O_CREAT, 0o666), b"x")
late = Late()
late.itself = late
""",
    ),
    Attack(
        "object walk: an atexit function that writes",
        WRITE,
        (SECCOMP, LANDLOCK),
        """
import atexit, os
atexit.register(lambda: os.open(DROP + "/late", os.O_WRONLY | os.O_CREAT, 0o666))
""",
    ),
]

FRAMES: Rows = [
    Attack(
        "frames: back from a generator to whoever calls",
        LEAK,
        (PROCESS,),
        """
def walk():
    frame = generator.gi_frame
    while frame:
        print(repr(frame.f_locals)[:20000], repr(frame.f_globals)[:20000])
        frame = frame.f_back
    yield
generator = walk()
next(generator)
""",
    ),
    Attack(
        "frames: back from a traceback",
        LEAK,
        (PROCESS,),
        """
try:
    1 / 0
except ZeroDivisionError as error:
    frame = error.__traceback__.tb_frame
    while frame:
        print(repr(frame.f_locals)[:20000], repr(frame.f_globals)[:20000])
        frame = frame.f_back
""",
    ),
    Attack(
        "frames: of all threads",
        LEAK,
        (PROCESS,),
        """
import sys
for frame in sys._current_frames().values():
    while frame:
        print(repr(frame.f_locals)[:20000])
        frame = frame.f_back
""",
    ),
    Attack(
        "frames: the outermost frame's own import and open",
        LEAK,
        (SECCOMP, LANDLOCK),
        """
import sys
frame = sys._getframe()
while frame.f_back:
    frame = frame.f_back
io = frame.f_builtins["__import__"]("_io")
print(io.open(CANARY + "/secret.txt").read())
""",
    ),
    Attack(
        "frames: an audit hook that refuses everything",
        HOST,
        (PROCESS,),
        """
import sys
def refuse(*event):
    raise BaseException("no")
sys.addaudithook(refuse)
""",
    ),
]

IMPORTS: Rows = [
    Attack(
        "imports: a module from a directory of ours",
        LEAK,
        (SECCOMP, LANDLOCK),
        """
import sys
from importlib.machinery import PathFinder
sys.path.insert(0, CANARY)
sys.meta_path.append(PathFinder)
import planted
print(planted.VALUE)
""",
    ),
    Attack(
        "imports: a loader that reads any file",
        LEAK,
        (SECCOMP, LANDLOCK),
        """
from importlib.machinery import SourceFileLoader
print(SourceFileLoader("x", CANARY + "/secret.txt").get_data(CANARY + "/secret.txt"))
""",
    ),
    Attack(
        "imports: runpy runs a file",
        LEAK,
        (SECCOMP, LANDLOCK),
        """
import runpy
print(runpy.run_path(CANARY + "/planted.py")["VALUE"])
""",
    ),
    Attack(
        "imports: an extension module from the machine",
        REACHED,
        (SECCOMP, LANDLOCK),
        """
import importlib.machinery, posix, sys
from importlib.util import module_from_spec, spec_from_loader
version = "python%d.%d" % sys.version_info[:2]
for place in (f"/usr/lib/{version}/lib-dynload", f"{sys.base_prefix}/lib/{version}/lib-dynload"):
    for file in posix.listdir(place):
        if file.startswith("_testimport"):
            loader = importlib.machinery.ExtensionFileLoader("_testimportmultiple", place + "/" + file)
            module_from_spec(spec_from_loader(loader.name, loader))
            reached()
""",
    ),
    Attack(
        "imports: builtins undone and imported anew",
        LEAK,
        (SECCOMP, LANDLOCK),
        """
import sys
for name in ("builtins", "io", "os", "_io", "pathlib"):
    sys.modules.pop(name, None)
import _io
print(_io.open(CANARY + "/secret.txt").read())
""",
    ),
]

CTYPES: Rows = [
    Attack(
        "ctypes: open and read of the C library",
        LEAK,
        (SECCOMP, LANDLOCK),
        """
import ctypes
c = libc()
buffer = ctypes.create_string_buffer(1000)
c.read(granted(c.open(f"{CANARY}/secret.txt".encode(), 0)), buffer, 1000)
print(buffer.value)
""",
    ),
    Attack(
        "ctypes: system of the C library",
        WRITE,
        (SECCOMP, LANDLOCK),
        'libc().system(f"echo x > {DROP}/made".encode())',
    ),
    Attack(
        "ctypes: the environment of the C library",
        LEAK,
        (PROCESS,),
        """
import ctypes
c = libc()
c.getenv.restype = ctypes.c_char_p
print(c.getenv(b"STRANDS_CANARY"))
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(c, "environ")
index = 0
while environ and environ[index]:
    print(environ[index])
    index += 1
""",
    ),
    Attack("ctypes: a read of address 0", HOST, (PROCESS,), "import ctypes\nctypes.string_at(0)"),
    Attack(
        "ctypes: reference counts broken",
        HOST,
        (PROCESS,),
        "import ctypes\nctypes.memset(id(None), 0, 16)\nctypes.memset(id(int), 0xFF, 200)\nint('1')",
    ),
    Attack(
        "bytecode: a constant that does not exist",
        HOST,
        (PROCESS,),
        """
def f():
    return 1
import dis
f.__code__ = f.__code__.replace(co_code=bytes([dis.opmap["LOAD_CONST"], 255, dis.opmap["RETURN_VALUE"], 0]), co_consts=())
print(f())
""",
    ),
    Attack("exit: os._exit", HOST, (PROCESS,), "import os\nos._exit(0)"),
    Attack("exit: os.abort", HOST, (PROCESS,), "import os\nos.abort()"),
    Attack("exit: sys.exit in a thread and outside", HOST, (PROCESS,), "import sys\nsys.exit('bye')"),
    Attack("exit: KeyboardInterrupt", HOST, (PROCESS,), "raise KeyboardInterrupt"),
    Attack("exit: GeneratorExit", HOST, (PROCESS,), "raise GeneratorExit"),
]

ATTACKS = {
    "object walks": OBJECTS,
    "frames": FRAMES,
    "imports": IMPORTS,
    "ctypes and crashes": CTYPES,
}
