"""The log of a run: what the engine says only where it is asked for, and never a secret."""

import logging

from strands_cli.secrets import Redactor


def prepare_logs(redactor: Redactor) -> None:
    """For commands that run agents. The engine warns of what our contract answers, with raw input in it."""
    logging.getLogger("strands").addHandler(logging.NullHandler())
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
