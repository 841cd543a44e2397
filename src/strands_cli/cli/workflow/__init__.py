"""What a workflow file would do, told in advance: `plan`, `explain`, `graph`."""
