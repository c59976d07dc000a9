"""Longhall: one replicated log, many doors."""
