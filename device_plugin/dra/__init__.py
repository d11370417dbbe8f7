"""Dynamic Resource Allocation: the same devices, offered to claims that say what they want."""
