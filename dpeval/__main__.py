"""``python -m dpeval``: the command line."""

from dpeval.cli import main

if __name__ == "__main__":
    main()
