#!/bin/sh
# What a tool is, how it is found, called and refused: the commands of the README, one after the other.
set -eu

repository="$(cd "$(dirname "$0")/.." && pwd)"
strands="$repository/.venv/bin/strands"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"

# Prints a command as it could be pasted into a shell.
title() {
    line="strands"
    for word in "$@"; do
        case $word in *[!A-Za-z0-9_./:=@%-]*) line="$line '$word'" ;; *) line="$line $word" ;; esac
    done
    printf '\n\033[1m$ %s\033[0m\n' "$line"
}

show() {
    title "$@"
    "$strands" "$@"
}

refused() {
    title "$@"
    if "$strands" "$@"; then
        echo "this should have been refused" >&2
        exit 1
    else
        echo "(exit code $?)"
    fi
}

show list-tools
show tool show calculator
show tool call calculator '{"expression": "sqrt(2) * 10", "precision": 3}'
show tool call current_time timezone=Europe/Berlin format=%H:%M

printf '\n# A tool of your own: one file.\n'
show tool new greet
cat tools/greet.py
show tool call greet name=Ada
show tool check

printf '\n# What does not fit is refused, with the reason and the remedy.\n'
refused tool call greet '{"nmae": "Ada"}'
refused tool call greet '{"name": '
refused tool call file_read path=/etc/passwd
refused tool call http_request url=http://2130706433/

printf '\n# Code that a model writes runs confined.\n'
show tool call python_exec code='import statistics; statistics.mean([1, 2, 4])'
refused tool call python_exec code='open("/etc/passwd").read()'

printf '\n# A workflow file is checked, planned and explained before anything runs.\n'
cp "$repository/examples/parallel-code-review.yaml" review.yaml
show validate review.yaml
show plan review.yaml
