#!/bin/bash
# Read JSON input
input=$(cat)

# Extract parameters
file=$(echo "$input" | jq -r '.file')
language=$(echo "$input" | jq -r '.language // "auto"')

# Do the work
result=$(prettier --write "$file" 2>&1)

# Return JSON output
echo "{\"success\": true, \"message\": \"Formatted $file\", \"output\": \"$result\"}"
