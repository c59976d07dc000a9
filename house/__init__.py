"""Development tooling: the commands of `./dev`."""
