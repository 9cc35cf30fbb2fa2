"""Where people and programs meet Parley. Faces do not know each other; cli dispatches to them."""
