"""What the user and the store have set: settings and their files, trust, and how this copy was installed."""
