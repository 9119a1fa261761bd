"""Strategic merge patch. The other types of patches, which need no schema, are in `muster.api.patch`."""
