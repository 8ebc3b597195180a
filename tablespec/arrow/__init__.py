"""The one general bridge to pyarrow."""
