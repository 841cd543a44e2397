"""Plugins that do not end, leave something behind, or take more than there is."""

from tests.plugins.hostile.records import Hostile, c, python, sh

SURVIVORS = [
    python(
        "daemonises twice",
        """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        for n in range(3): os.close(n)
        time.sleep(60)
    os._exit(0)
print("parent done")
""",
        says="parent done",
    ),
    sh(
        "leaves sessions behind that nothing names",
        "setsid -f env -i sleep 60; env -i bash -c 'exec -a @mark@ sleep 60' >/dev/null 2>&1 & nohup sleep 60 & echo done",
        says="done",
    ),
    sh("holds the pipe in a grandchild", "(sleep 60 &); echo '{\"a\": 1}'", says='{"a": 1}', timeout=20),
    sh("holds the pipe in a grandchild and says nothing", "(sleep 60 &)", codes="output_invalid", timeout=20),
    c(
        "runs away from whoever ends it",
        "int main(){ for(;;){ if(fork()) _exit(0); setsid(); usleep(500); } }",
        codes="output_invalid crashed",
        timeout=5,
    ),
    sh("sleeps for ever", "sleep 600", codes="timeout", timeout=1, seconds=1),
    sh("never ends", "while :; do :; done", codes="timeout", timeout=1, seconds=1),
    sh(
        "ignores SIGTERM",
        "trap '' TERM INT HUP; while :; do sleep 0.1; done",
        codes="timeout",
        timeout=1,
        seconds=1,
    ),
    sh("stops itself", "kill -STOP $$; sleep 60", codes="timeout", timeout=1, seconds=1),
    sh("executes itself again and again", 'sleep 0.01; exec "$0"', codes="timeout", timeout=1, seconds=1),
    python(
        "closes its streams and stays",
        "for n in range(3): os.close(n)\ntime.sleep(60)",
        codes="timeout",
        timeout=1,
        seconds=1,
    ),
    c(
        "forks when it is asked to end",
        "void h(int s){ for(int i=0;i<7;i++) fork(); for(;;) pause(); }"
        "int main(){ signal(SIGTERM,h); for(;;) pause(); }",
        codes="timeout",
        timeout=1,
        seconds=1,
    ),
    sh("is silent", "sleep 60", codes="timeout", idle_timeout=0.3, seconds=1, says="said nothing"),
    sh(
        "drips against the limit of silence",
        "while :; do printf x; sleep 0.1; done",
        codes="timeout",
        timeout=1.5,
        idle_timeout=0.5,
        seconds=1.5,
        says="did not end in time",
    ),
    sh(
        "drips on standard error and answers never",
        "while :; do echo 'strands:progress 1' >&2; sleep 0.1; done",
        codes="timeout",
        timeout=1.5,
        idle_timeout=0.5,
        seconds=1.5,
    ),
    sh(
        "never reads its input",
        "sleep 0.2; echo done",
        input={"text": "x" * 5_000_000},
        says="done",
    ),
    sh("closes its input", "exec 0<&-; sleep 0.1; echo done", input={"text": "x" * 5_000_000}, says="done"),
    sh(
        "never reads its input and never ends",
        "sleep 60",
        input={"text": "x" * 5_000_000},
        codes="timeout",
        timeout=1,
        seconds=1,
    ),
]

TOUCH = "void touch(size_t n){ volatile char*p=malloc(n); for(size_t i=0;i<n;i+=4096) p[i]=1; }"

GLUTTONS = [
    sh(
        "forks without end",
        "f() { f | f & }; f; sleep 0.7; echo done",
        codes="answer timeout crashed failed",
        timeout=3,
        seconds=3,
    ),
    python(
        "counts how many processes it gets",
        """
made = 0
try:
    for _ in range(300):
        if os.fork() == 0:
            time.sleep(30); os._exit(0)
        made += 1
except OSError as error: print(error)
time.sleep(0.3)
print("ESCAPED" if made > 64 else "done", made)
""",
        codes="answer crashed",
    ),
    c(
        "takes memory",
        TOUCH + 'int main(){ for(int i=0;i<900;i++){ touch(1<<20); usleep(1000);} puts("ESCAPED"); }',
        codes="crashed",
        memory="64MB",
        says="more memory",
    ),
    c(
        "takes memory in many children",
        TOUCH + "int main(){ for(int c=0;c<8;c++) if(!fork()){ touch(24<<20); sleep(5); _exit(0);} "
        'while(wait(0)>0); puts("ESCAPED"); }',
        codes="crashed",
        memory="96MB",
    ),
    c(
        "takes shared memory",
        "int main(){ size_t n=300u<<20; char*p=mmap(0,n,3,MAP_SHARED|MAP_ANONYMOUS,-1,0); "
        'for(size_t i=0;i<n;i+=4096){p[i]=1; if(i%(1<<20)==0) usleep(1000);} puts("ESCAPED"); }',
        codes="crashed",
        memory="64MB",
    ),
    sh(
        "fills its scratch directory",
        'for i in $(seq 12); do head -c 8000000 /dev/zero > "$TMPDIR/$i" || exit 1; done; echo ESCAPED',
        codes="failed crashed",
        memory="64MB",
        only_in_room=True,
    ),
    sh(
        "fills its scratch directory with names",
        'cd "$TMPDIR"; for i in $(seq 3000); do : > "$i" || exit 1; done 2>/dev/null; mkdir a a/b && echo done',
        codes="answer failed crashed",
        memory="16MB",
    ),
    sh(
        "writes a file that is too large",
        'head -c 20000000 /dev/zero > "$TMPDIR/big"; '
        'test $(stat -c %s "$TMPDIR/big") -gt 16777216 && echo ESCAPED; echo done',
        says="done",
    ),
    sh("floods standard output", "yes '{}'", codes="output_invalid", says="more than it may"),
    sh("floods standard output in one line", "tr '\\0' x < /dev/zero", codes="output_invalid"),
    sh(
        "floods standard output and ignores the pipe",
        "trap '' PIPE TERM; while :; do head -c 100000 /dev/zero; done",
        codes="output_invalid",
    ),
    sh("floods standard error", "yes complaint >&2", codes="output_invalid timeout", timeout=4),
    sh(
        "floods with progress",
        "yes 'strands:progress {\"done\": 1}' | head -n 60000 >&2; echo done",
        says="done",
    ),
    sh(
        "floods when nobody has called it yet",
        "yes nothing | head -c 500000; read -r line; echo late",
        calls=3,
        codes="answer output_invalid",
    ),
    sh(
        "forks when nobody has called it yet",
        "for i in $(seq 20); do sleep 60 & done; read -r line; echo done",
        calls=3,
        says="done",
    ),
]

ENDURING: list[Hostile] = [*SURVIVORS, *GLUTTONS]
