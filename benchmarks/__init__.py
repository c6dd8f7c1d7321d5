"""Measurements, not tests: speed beside the floor and the peers, and how well searches find the right memory."""
