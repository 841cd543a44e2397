#!/bin/sh
# A language model on this machine's processor decides to call a tool, the tool runs, the model answers.
# No account, no server, no key. Before that: what a tool is, in four commands.
set -eu

repository="$(cd "$(dirname "$0")/.." && pwd)"
strands="$repository/.venv/bin/strands"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"

# Prints a command as it could be pasted into a shell, then runs it.
show() {
    line="strands"
    for word in "$@"; do
        case $word in *[!A-Za-z0-9_./:=@%-]*) line="$line '$word'" ;; *) line="$line $word" ;; esac
    done
    printf '\n\033[1m$ %s\033[0m\n' "$line"
    "$strands" "$@"
}

refused() {
    if show "$@"; then
        echo "this should have been refused" >&2
        exit 1
    else
        echo "(exit code $?)"
    fi
}

printf '# A tool is checked before it runs, and answers with a reason where it does not.\n'
show tool call calculator '{"expression": "sqrt(2) * 10", "precision": 3}'
refused tool call calculator '{"expresion": "1 + 1"}'
refused tool call python_exec code='open("/etc/passwd").read()'

printf '\n# The model: pulled once, checked, kept.\n'
show models pull

cp "$repository/examples/echo-demo.yaml" "$repository/examples/local-three-tools.yaml" .

printf '\n# A workflow: the model decides to call a tool.\n'
show run echo-demo.yaml --provider local --verbose
printf '\n# What it has written:\n'
show_file() { printf '%s: ' "$1"; cat "$1"; echo; }
show_file echo-result.txt

printf '\n# Three tools to choose from.\n'
show run local-three-tools.yaml --verbose
printf '\n# What it has written:\n'
show_file three-tools.txt
