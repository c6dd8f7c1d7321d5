"""The toolkit of the HTTP doors: errors, tokens, limits, admission and metrics. It imports no door."""
