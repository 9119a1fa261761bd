"""Draw charts of plain values as HTML and SVG text, without another library, a server or a file."""
