"""What needs the human: questions, the ways to answer them, and what leads out of every situation."""
