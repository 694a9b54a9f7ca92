"""Files of an export: parsing, rt_info, byte-exact saving, the weights table."""
