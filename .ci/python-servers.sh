#!/usr/bin/env bash
# Installs the MCP servers from PyPI that tests run, into .ci/python-servers: apart from the project's own packages.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

PACKAGES=(
    mcp-server-git==2026.10.19
    mcp-server-time==2026.10.19
    # Written for the first version of mcp, and breaks when it starts: a test wants to see why.
    mcp-server-sqlite==2025.4.25
    mcp==2.3.0
)

# The list is written down last, so an installation that was interrupted is made again.
if [ "$(cat python-servers/installed 2>/dev/null)" = "${PACKAGES[*]}" ]; then exit 0; fi
rm -rf python-servers
python3 -m venv python-servers
python-servers/bin/python -m pip install -q --disable-pip-version-check "${PACKAGES[@]}"
echo "${PACKAGES[*]}" >python-servers/installed
