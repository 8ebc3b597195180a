"""The Spark adapter."""
