"""cofio inside of other libraries: a module for each, which imports that library and no other."""
