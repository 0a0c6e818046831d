"""The verbs of `python -m daemon`: each module has `add_arguments(parser)` and `run(arguments) -> exit code`."""
