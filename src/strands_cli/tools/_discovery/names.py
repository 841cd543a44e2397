"""Which files of a tools directory are tools, by their names alone."""

_FAMILY_FILES = frozenset({"schema.py", "tests.py"})
"""A family keeps these beside its tools."""


def is_module_name(name: str) -> bool:
    """Whether a file of a tools directory is read as a tool."""
    return name.endswith(".py") and name[0] not in "_." and name != "conftest.py" and name[:5] != "test_"


def is_submodule_name(name: str) -> bool:
    """Whether a file of a family is read as a tool."""
    return is_module_name(name) and name not in _FAMILY_FILES


def is_family_name(name: str) -> bool:
    """Whether a directory within a tools directory may be a family."""
    return name[0] not in "_." and name != "tests"
