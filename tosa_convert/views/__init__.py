"""What people look at: summaries, differences and pictures of programs."""
