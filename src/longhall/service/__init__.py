"""One typed list of operations behind every door, and the router that finds the leader that carries them out."""
