"""What differs between Linux, macOS and Windows: files, folders, locks, processes, streams, and the user's places.

Where other programs keep their files on each system, the modules know that have to do with those programs. Each module
here is imported by whoever needs it, and imports what only one system has where it is used.
"""
