"""`python -m bellrock`: the same as the command `bellrock`."""

from bellrock.cli import main

if __name__ == "__main__":
    main()
