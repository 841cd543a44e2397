"""Where tools come from: one file for each source. `registry.SOURCES` has them in order of precedence."""
