"""Draws plain values as pictures of a web page: text of HTML and SVG, without a library, a server or a file."""
