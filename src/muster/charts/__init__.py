"""Draw charts of plain values as HTML and SVG text, without any other library, server or file."""
