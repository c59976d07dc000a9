"""What every request passes before the broker sees it."""
