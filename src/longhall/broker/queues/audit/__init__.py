"""The audit topic and delivery reports."""
