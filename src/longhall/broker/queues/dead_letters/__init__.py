"""Dead-lettering, dead letters and redrive."""
