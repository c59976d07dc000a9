"""The directory: tenants, users, access keys and tokens as durable entries of the catalogue."""
