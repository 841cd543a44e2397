"""`strands chat`: a conversation on the terminal, or line by line where there is none."""
