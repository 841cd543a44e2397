#!/usr/bin/env bash
# Installs the MCP servers, clients and the conformance suite that tests run with Node, into .ci/node.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

PACKAGES=(
    node@22.23.3
    @modelcontextprotocol/conformance@0.2.0-alpha.12
    @modelcontextprotocol/inspector@2.12.0
    @modelcontextprotocol/client@2.4.0
    @modelcontextprotocol/server-everything@2026.8.31
    @modelcontextprotocol/server-filesystem@2026.8.31
    @modelcontextprotocol/server-memory@2026.8.31
    @modelcontextprotocol/server-sequential-thinking@2026.8.31
)

# The list is written down last, so an installation that was interrupted is made again.
if [ "$(cat node/installed 2>/dev/null)" = "${PACKAGES[*]}" ]; then exit 0; fi
rm -rf node
mkdir node
echo '{"private": true}' >node/package.json
# No lock file: it would name the registry of the machine that wrote it.
npm install --prefix node --no-package-lock --no-fund --no-audit --loglevel=error "${PACKAGES[@]}"
echo "${PACKAGES[*]}" >node/installed
