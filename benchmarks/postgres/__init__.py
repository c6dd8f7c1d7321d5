"""A store on PostgreSQL beside one in a folder."""
