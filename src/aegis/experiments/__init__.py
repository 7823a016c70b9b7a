"""The fault experiments that users run themselves: E1 to E13, H1 to H9, X1 and X2.

It may import `bootstrap`, `domain` and `ports`. It enters by the front door, in process or by HTTP,
and names a scenario by its agent: no test field ever enters the API.
"""
