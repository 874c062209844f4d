"""Where variables lie and where steps run: one file for each strategy."""
