#!/bin/sh
# Shows what a tool is, then a workflow file, then a run of it with a language model on this machine's processor:
# no account, no server, no key. Everything it makes stays in a directory that it names at the end.
set -eu

repository="$(cd "$(dirname "$0")/.." && pwd)"
PATH="$repository/.venv/bin:$PATH"
place=$(mktemp -d "${TMPDIR:-/tmp}/strands-demo.XXXXXX")
cd "$place"

bold= plain=
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
    bold=$(printf '\033[1m') plain=$(printf '\033[0m')
fi

say() { printf '\n# %s\n' "$@"; }

# Prints a command as it could be pasted into a shell, then runs it.
show() {
    line=
    for word in "$@"; do
        case $word in *[!A-Za-z0-9_./:=@%-]*) line="$line '$word'" ;; *) line="$line $word" ;; esac
    done
    printf '\n%s$%s%s\n' "$bold" "$line" "$plain"
    "$@"
}

refused() {
    if show "$@"; then
        echo "this should have been refused" >&2
        exit 1
    else
        echo "(exit code $?)"
    fi
}

say "1. A tool is a function with a schema. Its input is checked before it runs."
show strands tool call calculator '{"expression": "sqrt(2) * 10", "precision": 3}'
refused strands tool call calculator '{"expresion": "1 + 1"}'

say "2. Code that a model writes runs in a sandbox."
refused strands tool call python_exec code='open("/etc/passwd").read()'

say "3. The model is downloaded once (491 MB), verified and kept."
show strands models pull

say "4. A workflow is a file with agents, their tools and the steps."
sed '/^#/d' "$repository/examples/local-three-tools.yaml" > workflow.yaml
show cat workflow.yaml

say "5. It is checked, then run. In each step the model chooses a tool."
show strands validate workflow.yaml
show strands run workflow.yaml --verbose

say "6. What it wrote:"
show cat three-tools.txt

cat <<END

Everything is still in $place

Try next:
  cd $place && export PATH="$repository/.venv/bin:\$PATH"
  strands run workflow.yaml --force          after you change a question in it
  strands graph workflow.yaml                the same workflow as a picture
  strands tool new greet                     your own tool, with a test
  strands chat --provider local --tools calculator,current_time

Then read first-workflow.md and first-tool.md in docs/getting-started.
END
