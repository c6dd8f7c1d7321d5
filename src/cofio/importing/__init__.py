"""Taking over the memory of other products, whose own files stay as they are."""
