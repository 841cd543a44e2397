"""Plugins: a directory with a `plugin.json` and executables in any language becomes tools.

`plugin` makes a Plugin of a directory, `plugin_tool` makes Tools of a Plugin; listing executes nothing.
"""
