"""`suite`: folders of test cases, through our formats or on a backend, and the reports about them."""
