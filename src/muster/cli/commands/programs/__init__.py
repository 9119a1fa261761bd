"""Commands that programs call: Muster's own programs, and the shell's completion."""
