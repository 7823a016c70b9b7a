"""What Aegis is about, as frozen records and pure functions.

Here live the task and its states, the journal entries, tool calls and results, evidence, agents,
limits and their arithmetic, canonical arguments and the errors with their stable codes. It imports
nothing of ours, reads no clock, does no IO, and every time in it is an integer of microseconds.
"""
