"""Where checkpoints can be kept, and how a place is found by its name: a module for each, with the driver it needs."""
