"""Billing: tables of usage, and invoices."""
