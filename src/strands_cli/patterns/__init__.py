"""The patterns of workflows, one file each."""
