"""A store on PostgreSQL with pgvector: every process and machine that reaches the database shares it."""

from .backend import PostgresBackend

__all__ = ["PostgresBackend"]
