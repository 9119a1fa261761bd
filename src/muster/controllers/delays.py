"""How long the controllers of Jobs, of JobSets and of Volcano's Jobs delay a write or a reconcile."""

# Updates for display only, such as the counts of running and ready pods, wait this long, so that several share a write.
SHOW_SECONDS = 0.1

# A new suspended job is usually resumed by its queue, within a second even in a burst of jobs. For this time its
# controller neither creates anything for the job nor writes that it is suspended, because a resume would change all of
# that.
BEGINNING_SECONDS = 1.0

# A job with stale caches is reconciled at the event that updates the caches, or after this time if there is no event.
STALE_SECONDS = 5.0
