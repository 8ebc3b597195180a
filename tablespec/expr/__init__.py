"""Predicates as values."""
