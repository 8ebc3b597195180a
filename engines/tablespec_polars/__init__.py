"""The Polars adapter."""
