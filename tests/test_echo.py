# ruff: noqa
"""Unit tests for echo native tool."""

import pytest


class TestEchoTool:
    """Tests for the echo tool."""

    def test_echo_success(self) -> None:
        """Test successful echo operation."""
        from strands_cli.tools.echo import echo

        tool = {"toolUseId": "test-123", "input": {"message": "Hello, World!"}}

        result = echo(tool)

        assert result["toolUseId"] == "test-123"
        assert result["status"] == "success"
        assert len(result["content"]) == 1
        assert result["content"][0]["text"] == "Hello, World!"

    def test_echo_empty_message(self) -> None:
        """Test echo with empty message returns error."""
        from strands_cli.tools.echo import echo

        tool = {"toolUseId": "test-456", "input": {"message": ""}}

        result = echo(tool)

        assert result["toolUseId"] == "test-456"
        assert result["status"] == "error"
        assert "No message provided" in result["content"][0]["text"]

    def test_echo_missing_input(self) -> None:
        """Test echo with missing input dict."""
        from strands_cli.tools.echo import echo

        tool = {"toolUseId": "test-789", "input": {}}

        result = echo(tool)

        assert result["status"] == "error"

    def test_echo_tool_spec_format(self) -> None:
        """Test that TOOL_SPEC has required fields."""
        from strands_cli.tools.echo import TOOL_SPEC

        assert "name" in TOOL_SPEC
        assert TOOL_SPEC["name"] == "echo"
        assert "description" in TOOL_SPEC
        assert "inputSchema" in TOOL_SPEC
        assert "json" in TOOL_SPEC["inputSchema"]

        schema = TOOL_SPEC["inputSchema"]["json"]
        assert "properties" in schema
        assert "message" in schema["properties"]
        assert schema["required"] == ["message"]
