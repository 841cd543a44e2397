"""`strands plugin`: the commands about directories of executables."""
