"""Master keys: where they are, and how data keys are wrapped and unwrapped with them."""
