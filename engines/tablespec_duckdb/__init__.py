"""The DuckDB adapter."""
