"""Attacks with processes: starting them, leaving them behind, signals and timers among our own."""

from tests.sandbox.attacks.records import (
    ALIVE,
    HOST,
    LANDLOCK,
    LEAK,
    PROCESS,
    REACHED,
    SECCOMP,
    WRITE,
    Attack,
    Rows,
)

BOTH = (SECCOMP, LANDLOCK)

STARTING: Rows = [
    Attack(
        "process: fork",
        REACHED,
        (SECCOMP,),
        "import os\npid = os.fork()\nif pid == 0: os._exit(0)\nos.wait()\nreached()",
    ),
    Attack(
        "process: subprocess",
        LEAK,
        BOTH,
        "import subprocess\nprint(subprocess.run(['cat', CANARY + '/secret.txt'], capture_output=True).stdout)",
    ),
    Attack("process: a shell", WRITE, BOTH, "import os\nos.system(f'echo x > {DROP}/made')"),
    Attack(
        "process: exec", WRITE, BOTH, "import os\nos.execv('/bin/sh', ['sh', '-c', f'echo x > {DROP}/made'])"
    ),
    Attack(
        "process: posix_spawn",
        WRITE,
        BOTH,
        "import os\nos.waitpid(os.posix_spawn('/bin/sh', ['sh', '-c', f'echo x > {DROP}/made'], {}), 0)",
    ),
    Attack(
        "process: the dynamic loader as a program",
        WRITE,
        BOTH,
        "import posix as os\nloader = '/lib64/ld-linux-x86-64.so.2'\nos.execv(loader, [loader, '/bin/sh', '-c', f'echo x > {DROP}/made'])",
    ),
    Attack(
        "process: multiprocessing",
        REACHED,
        (SECCOMP,),
        """
import multiprocessing
context = multiprocessing.get_context("fork")
process = context.Process(target=print)
process.start()
process.join()
reached()
""",
    ),
    Attack(
        "process: vfork",
        REACHED,
        (SECCOMP,),
        "c = libc()\npid = c.syscall(58)\nif pid == 0: c._exit(0)\ngranted(pid)\nreached()",
    ),
    Attack(
        "process: clone3",
        REACHED,
        (SECCOMP,),
        "import ctypes\nc = libc()\npid = c.syscall(435, ctypes.create_string_buffer(bytes(32) + (17).to_bytes(8, 'little') + bytes(24)), 64)\nif pid == 0: c._exit(0)\ngranted(pid)\nreached()",
    ),
    Attack("process: a terminal", REACHED, BOTH, "import pty\npty.openpty()\nreached()"),
    Attack(
        "process: more than it may have",
        REACHED,
        (SECCOMP,),
        """
import os, time
started = 0
for _ in range(100):
    if os.fork() == 0:
        time.sleep(1.5)
        os._exit(0)
    started += 1
reached()
""",
        alone=True,
    ),
    Attack(
        "process: forks upon forks",
        REACHED,
        (SECCOMP,),
        "import os, time\nfor _ in range(9): os.fork()\nreached()\ntime.sleep(1)",
        harmful="starts 512 processes at once",
    ),
    Attack(
        "process: threads without end",
        HOST,
        (PROCESS,),
        """
import threading, time
while True:
    threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
""",
        harmful="starts threads until no process can start",
    ),
]

SURVIVORS: Rows = [
    Attack(
        "survivor: a fork that sleeps",
        ALIVE,
        (SECCOMP,),
        "import os, time\nif os.fork() == 0:\n    time.sleep(20)\n    os._exit(0)",
        alone=True,
    ),
    Attack(
        "survivor: a session of its own, forked twice",
        ALIVE,
        (SECCOMP,),
        """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 256)
        time.sleep(20)
    os._exit(0)
os.wait()
""",
        alone=True,
    ),
    Attack(
        "survivor: a daemon deaf to signals",
        ALIVE,
        (SECCOMP,),
        """
import os, signal, time
if os.fork() == 0:
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    os.setsid()
    time.sleep(20)
    os._exit(0)
""",
        alone=True,
    ),
    Attack(
        "survivor: a program in a session of its own",
        ALIVE,
        BOTH,
        "import subprocess\nsubprocess.Popen(['sleep', '20'], start_new_session=True)",
        alone=True,
    ),
    Attack(
        "survivor: a grandchild that holds the pipes",
        HOST,
        (SECCOMP, LANDLOCK),
        "import subprocess\nsubprocess.Popen(['sleep', '20'], close_fds=False)\nwhile True: pass",
        seconds=1,
        alone=True,
    ),
    Attack(
        "survivor: a parent that leaves while the fork goes on",
        ALIVE,
        (SECCOMP,),
        "import os, time\nif os.fork() == 0:\n    time.sleep(20)\nos._exit(0)",
        alone=True,
    ),
    Attack(
        "survivor: a new session that outlives its limit",
        ALIVE,
        (PROCESS,),
        "import os\nos.setsid()\nwhile True: pass",
        seconds=1,
    ),
    Attack(
        "survivor: a process group of its own that outlives its limit",
        ALIVE,
        (PROCESS,),
        "import os\nos.setpgid(0, 0)\nwhile True: pass",
        seconds=1,
    ),
    Attack(
        "survivor: a thread that is waited for at exit",
        HOST,
        (PROCESS,),
        "import threading, time\nthreading.Thread(target=time.sleep, args=(20,)).start()",
        seconds=1,
    ),
    Attack(
        "survivor: an atexit function that never ends",
        ALIVE,
        (PROCESS,),
        "import atexit, time\natexit.register(time.sleep, 20)",
        seconds=1,
    ),
    Attack(
        "survivor: the parent-death signal undone",
        REACHED,
        (SECCOMP,),
        "granted(libc().prctl(1, 0, 0, 0, 0))\nreached()",
    ),
    Attack(
        "survivor: made the reaper of others",
        REACHED,
        (SECCOMP,),
        "granted(libc().prctl(36, 1, 0, 0, 0))\nreached()",
    ),
    Attack(
        "survivor: visible to others again",
        REACHED,
        (SECCOMP,),
        "granted(libc().prctl(4, 1, 0, 0, 0))\nreached()",
    ),
]

SIGNALS: Rows = [
    Attack(
        "signal: deaf to all of them, in a loop",
        ALIVE,
        (PROCESS,),
        """
import signal
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    pass
""",
        seconds=1,
    ),
    Attack(
        "signal: all blocked, in a loop",
        ALIVE,
        (PROCESS,),
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: pass",
        seconds=1,
    ),
    Attack(
        "signal: stopped by itself",
        HOST,
        (PROCESS,),
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        seconds=1,
    ),
    Attack(
        "signal: killed by itself",
        HOST,
        (PROCESS,),
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    ),
    Attack(
        "signal: a timer that never stops",
        HOST,
        (PROCESS,),
        """
import signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
while True:
    pass
""",
        seconds=1,
    ),
    Attack(
        "signal: an alarm with no one to hear it",
        HOST,
        (PROCESS,),
        "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0.1)\ntime.sleep(1)",
    ),
    Attack(
        "signal: every exception caught",
        ALIVE,
        (PROCESS,),
        """
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
""",
        seconds=1,
    ),
    Attack(
        "signal: waiting for one that never comes",
        HOST,
        (PROCESS,),
        "import signal\nsignal.pause()",
        seconds=1,
    ),
    Attack("signal: sleeping without end", HOST, (PROCESS,), "import time\ntime.sleep(10**6)", seconds=1),
    Attack("signal: waiting for input", HOST, (PROCESS,), "import os\ninput()\nos.read(0, 1)", seconds=1),
    Attack(
        "signal: a lock that nobody opens",
        HOST,
        (PROCESS,),
        "import _thread\nlock = _thread.allocate_lock()\nlock.acquire()\nlock.acquire()",
        seconds=1,
    ),
    Attack(
        "signal: to every process",
        REACHED,
        (SECCOMP,),
        "import os, signal\nos.kill(-1, signal.SIGKILL)\nreached()",
        harmful="kills every process of the user",
        alone=True,
    ),
]

ATTACKS = {"processes": STARTING, "survivors": SURVIVORS, "signals and timers": SIGNALS}
