"""Generated from api/ by `make proto`; not edited by hand."""
