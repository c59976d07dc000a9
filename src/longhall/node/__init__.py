"""One running node: its settings, its assembly from the rooms, and its life from start to stop."""
