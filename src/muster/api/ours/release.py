"""Name the release of Muster, which nodes and metrics report.

The metadata of the installed package names it, too, but to read them would delay each start by 20 ms.
"""

VERSION = "0.1.0"
