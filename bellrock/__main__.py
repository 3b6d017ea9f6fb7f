"""`python -m bellrock`: the same as the command `bellrock`."""

from bellrock.entry import main

if __name__ == "__main__":
    main()
