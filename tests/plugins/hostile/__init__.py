"""Plugins that do what a tool must not be able to do, each with what its calls have to come to."""

from tests.plugins.hostile.confinement import CONFINED
from tests.plugins.hostile.endurance import ENDURING
from tests.plugins.hostile.output import LYING
from tests.plugins.hostile.records import Hostile
from tests.plugins.hostile.workers import WORKERS

HOSTILE: tuple[Hostile, ...] = (*CONFINED, *ENDURING, *LYING, *WORKERS)
