"""What each operator of TOSA computes, in numpy."""
