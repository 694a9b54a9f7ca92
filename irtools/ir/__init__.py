"""The files: parsing, rt_info, exact saving, the weights table."""
