"""Delayed messages: staging and promotion."""
