"""Strategic merge patch: an engine like those of `muster.api.patch`, for kinds whose lists have keys."""
