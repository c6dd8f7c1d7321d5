"""What an agent did for a request: its runs, their steps and results, and the cases and skills made of them."""
