"""How a message is read: its sentences, how each is meant, whose words they are, and who speaks to whom."""
