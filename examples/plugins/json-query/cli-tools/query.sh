#!/bin/bash
# Reads {"file": …, "filter": …}; writes {"results": […], "count": …}, or {"error": …}.
set -uo pipefail

input=$(cat)
file=$(jq -r '.file' <<< "$input")
filter=$(jq -r '.filter // "."' <<< "$input")

# jq quotes every value, so whatever a message contains, the answer stays JSON.
fail() {
    jq -n --arg code "$1" --arg message "$2" '{error: {code: $code, message: $message}}'
    exit 0
}

[ -f "$file" ] || fail not_found "There is no file $file"
if ! results=$(jq -c "$filter" -- "$file" 2>&1); then
    fail failed "$results"
fi
jq -cs '{results: ., count: length}' <<< "$results"
