"""How this repository is set up, checked and tested: what `./dev` runs."""
