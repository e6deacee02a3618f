"""`python -m streamcal`: the command line."""

from streamcal.app.cli import main

if __name__ == "__main__":
    main()
