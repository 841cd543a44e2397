# ruff: noqa
"""Integration tests for echo tool in workflows."""

from pathlib import Path

import pytest

from strands_cli.loader import load_spec


class TestEchoIntegration:
    """Integration tests for echo tool."""

    def test_echo_in_spec_validation(self, tmp_path: Path) -> None:
        """Test that echo tool passes capability validation."""
        from strands_cli.capability import check_capability

        spec_content = """
version: 0
name: echo-validation-test
description: Test echo tool validation

runtime:
  provider: ollama
  model_id: llama3.2:3b
  host: http://localhost:11434

agents:
  assistant:
    prompt: "Test assistant"

pattern:
  type: chain
  config:
    steps:
      - agent: assistant
        input: "Test"

tools:
  python:
    - echo

outputs:
  artifacts:
    - path: result.txt
      from: "{{ last_response }}"
"""
        spec_file = tmp_path / "echo_test.yaml"
        spec_file.write_text(spec_content)

        spec = load_spec(str(spec_file))
        report = check_capability(spec)

        # Should be supported (no issues)
        assert report.supported is True
        assert len(report.issues) == 0

    @pytest.mark.asyncio
    async def test_echo_in_chain_workflow(self, tmp_path: Path, mock_create_model: None) -> None:
        """Test echo tool in a chain workflow."""
        spec_content = """
version: 0
name: echo-chain-test
description: Test echo in chain pattern

runtime:
  provider: ollama
  model_id: llama3.2:3b
  host: http://localhost:11434

agents:
  assistant:
    prompt: "Use the echo tool"

pattern:
  type: chain
  config:
    steps:
      - agent: assistant
        input: "Echo: Test message"

tools:
  python:
    - echo

outputs:
  artifacts:
    - path: result.txt
      from: "{{ last_response }}"
"""
        spec_file = tmp_path / "echo_chain.yaml"
        spec_file.write_text(spec_content)

        spec = load_spec(str(spec_file))

        from strands_cli.exec.chain import run_chain

        result = await run_chain(spec, {})

        assert result is not None
        assert result.last_response is not None
