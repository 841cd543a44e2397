"""What stands before the code of every attack: the names that `records.py` explains."""

_NAMES = """
globals().update({given!r})

def reached():
    print("REACHED", TOKEN[::-1])

"""

_CTYPES = """
def find_ctypes():
    import gc, sys
    try:
        import ctypes
    except ImportError:
        gc.unfreeze()
        for thing in gc.get_objects():
            if type(thing) is type(sys) and thing.__name__ in ("ctypes", "_ctypes"):
                sys.modules[thing.__name__] = thing

find_ctypes()

def libc():
    import ctypes
    return ctypes.CDLL(None, use_errno=True)

def granted(result):
    import ctypes, os
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def pointers(*buffers):
    import ctypes, struct
    return b"".join(struct.pack("QQ", ctypes.addressof(buffer), len(buffer)) for buffer in buffers)

"""


def with_prelude(code: str, given: dict[str, object]) -> str:
    """The code with the names before it. Where it wants ctypes, that is looked for in all of memory."""
    wants_ctypes = "ctypes" in code or "libc()" in code
    return _NAMES.format(given=given) + (_CTYPES if wants_ctypes else "") + code
