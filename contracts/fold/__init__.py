"""The fold: journals -> counts, sets and histories. The only place where anything is counted."""
