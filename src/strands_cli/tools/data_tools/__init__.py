"""Tools that compute, tell the time and read data."""
