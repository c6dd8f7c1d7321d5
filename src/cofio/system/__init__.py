"""What differs between Linux, macOS and Windows: files, folders, locks, processes, streams, and the user's folders.

Where other programs keep their files on each system, the modules know that have to do with those programs. Each module
here is imported where it is needed, and imports what only one system has where it is used.
"""
