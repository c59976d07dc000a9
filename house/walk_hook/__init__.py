"""A directory on the path of the processes that `./dev walk` starts: see `sitecustomize`."""
