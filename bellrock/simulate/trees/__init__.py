"""What the sources of a virtual machine's servers would have shown while it worked: their files at each look, and their logs."""
