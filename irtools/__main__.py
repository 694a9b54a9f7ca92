"""``python -m irtools``."""

from irtools.cli import main

if __name__ == "__main__":
    main()
