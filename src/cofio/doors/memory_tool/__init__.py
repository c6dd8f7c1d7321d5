"""The memory tool over HTTP; its files and commands are in `cofio.files`."""
