"""The door that coding agents' hooks come in by: a process for each event, which never disturbs the agent."""
