"""Pictures of programs: the report in HTML, SVG, DOT, and node data for Model Explorer."""
