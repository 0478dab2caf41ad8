"""What walrow costs as its input grows: `python benches/curves`, or `make curves`."""
