"""Lower models of frameworks and compare them with their framework: joins `frontends` and `golden`."""
