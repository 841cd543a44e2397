"""Tools that read, write, list and search the files of the workspace."""
