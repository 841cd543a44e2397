"""`strands chat`: a conversation on the terminal, or line by line without one."""
