"""Optimistic commits."""
