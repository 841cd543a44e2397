"""The log of a run never has a secret."""

import logging

from strands_cli.secrets import Redactor


def prepare_logs(redactor: Redactor) -> None:
    """For commands that run agents."""
    if redactor:
        for handler in logging.getLogger().handlers:
            handler.addFilter(_Redacting(redactor))


class _Redacting(logging.Filter):
    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._redactor.text(record.getMessage()), None
        if record.exc_info:
            record.exc_text = self._redactor.text(logging.Formatter().formatException(record.exc_info))
        return True
