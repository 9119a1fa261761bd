"""The rules of the basic objects of the core group."""
