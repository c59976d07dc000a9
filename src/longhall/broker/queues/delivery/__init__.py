"""Receiving, leases, settling and redelivery."""
