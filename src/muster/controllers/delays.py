"""The delays that the controllers of Jobs, of JobSets and of Volcano's Jobs share."""

# Updates for display, such as the counts of running and ready pods, wait this long, so that several share one write.
SHOW_SECONDS = 0.1

# A new suspended job is usually resumed by its queue, within a second also in a burst of jobs. For this time its
# controller neither creates anything for it nor writes that it is suspended, because all of that would soon change.
BEGINNING_SECONDS = 1.0

# A job with stale caches is reconciled at the event that updates them, or after this time if there is none.
STALE_SECONDS = 5.0
