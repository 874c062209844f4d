"""Variables, where their pieces lie, and how optimizers change them there."""
