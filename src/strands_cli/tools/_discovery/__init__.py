"""Finding tools without running them: files and installed packages are read, never imported."""
