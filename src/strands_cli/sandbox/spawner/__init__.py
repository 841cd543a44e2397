"""What runs in the spawner and in the processes that it forks; none of it runs in the host.

Everything here is imported in an interpreter without site-packages and forked for every call, so it imports
little: no pathlib, no msgspec.
"""
