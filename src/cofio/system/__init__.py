"""What differs between Linux, macOS and Windows. Nothing outside of this package asks which system it runs on.

Each module is imported by whoever needs it, and imports what only one system has where it is used.
"""
