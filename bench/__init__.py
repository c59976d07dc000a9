"""Longhall measured against its peers. Nothing here is installed; run it from the root of the repository."""
