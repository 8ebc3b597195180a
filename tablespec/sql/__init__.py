"""Statements that change tables, read from SQL and run by the verbs of a table."""
