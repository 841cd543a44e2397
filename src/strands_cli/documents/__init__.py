"""Files that somebody else chose the path of: found, opened and replaced safely."""
