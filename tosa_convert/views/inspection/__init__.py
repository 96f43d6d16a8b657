"""Facts about programs: what is in them, the work and memory that they take, their constants' values."""
