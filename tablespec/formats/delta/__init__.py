"""The native format: the Delta protocol."""
