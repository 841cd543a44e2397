"""The log on standard error: which levels are written, and that no secret ever is."""

import logging
import sys

from strands_cli.errors import UsageError
from strands_cli.secrets import Redactor


def configure_logging(setting: str) -> None:
    """`debug`, or `tools=debug,plugins=info`: levels for all of strands_cli, or for rooms of it."""
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    for part in filter(None, (item.strip() for item in setting.split(","))):
        room, _, level = part.rpartition("=")
        known = logging.getLevelNamesMapping().get(level.upper())
        if known is None:
            levels = "debug, info, warning or error"
            raise UsageError(
                f"STRANDS_LOG: {level!r} is not a level", hint=f"Use {levels}, or room={levels}."
            )
        logging.getLogger(f"strands_cli.{room}" if room else "strands_cli").setLevel(known)


def prepare_logs(redactor: Redactor) -> None:
    """For commands that run agents."""
    if redactor:
        for handler in logging.getLogger().handlers:
            handler.addFilter(_RedactingFilter(redactor))


class _RedactingFilter(logging.Filter):
    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._redactor.text(record.getMessage()), None
        if record.exc_info:
            record.exc_text = self._redactor.text(logging.Formatter().formatException(record.exc_info))
        return True
