"""Plugins: a directory with a `plugin.json` and executables in any language becomes tools.

`reading` makes a Plugin of a directory, `tool` makes Tools of a Plugin; listing executes nothing.
"""
