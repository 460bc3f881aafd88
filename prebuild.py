"""`python -m convir.prebuild`: programs for a GPU compiled ahead, into the user's own cache."""

from convir.cli.prebuild import main

if __name__ == "__main__":
    raise SystemExit(main())
