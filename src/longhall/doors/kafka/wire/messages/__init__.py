"""Every message as a table of its fields, by theme."""
