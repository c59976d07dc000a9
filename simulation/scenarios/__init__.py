"""What happens in a seed: who writes and reads, what breaks meanwhile, and what must hold in the end."""
