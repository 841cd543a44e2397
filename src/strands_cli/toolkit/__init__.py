"""What a tool is, and the one way in which one is called."""
