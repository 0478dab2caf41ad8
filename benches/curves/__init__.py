"""Cost curves: time and memory while the input grows. `make curves` runs them."""
