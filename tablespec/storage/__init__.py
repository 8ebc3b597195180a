"""Bytes at URLs."""
