"""The defenses that ship with dpeval, one file or folder each."""
