#!/bin/sh
# What a tool is, how it is found, called and refused: the commands of the README, one after the other.
set -eu

strands="$(cd "$(dirname "$0")/.." && pwd)/.venv/bin/strands"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"

show() {
    printf '\n\033[1m$ strands %s\033[0m\n' "$*"
    "$strands" "$@"
}

refused() {
    printf '\n\033[1m$ strands %s\033[0m\n' "$*"
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
